package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/reproduce"
	"github.com/teescope/teescope/internal/result"
)

// reproduceRun is what `reproduce run` was asked for.
type reproduceRun struct {
	folder, only string
	within       time.Duration
	envs         []string
	dryRun       bool
}

func reproduceRunCommand(env Env) *cobra.Command {
	var f reproduceRun
	c := &cobra.Command{
		Use:   "run SOURCE",
		Short: "Measure a document's tables, one experiment after the other",
		Long: `Run measures each table of a document, in the document's order, and saves the result of each experiment when it ends.
You can stop it and start it again, also on another machine if you copy the folder of results. Finished experiments are not
run again; an interrupted experiment is continued. With --within it begins no experiment that would not end in time.`,
		Example: "  teescope reproduce run channel --within 1h   # native alone where the machine has no TEE\n  teescope reproduce run channel --env native --env runsc --dry-run",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("within") && f.within <= 0 {
				return fmt.Errorf("--within %s: want a time above 0, such as 2h", f.within)
			}
			s, err := findSource(args[0])
			if err != nil {
				return err
			}
			if f.folder == "" {
				f.folder = resultsFolder(s)
			}
			return f.run(c.Context(), env, s)
		},
	}
	c.Flags().StringVar(&f.folder, "results", "", "folder for the results (default reproduce-SOURCE)")
	c.Flags().StringVar(&f.only, "only", "", "only this table or figure (`teescope reproduce list` shows the ids)")
	c.Flags().DurationVar(&f.within, "within", 0, "time limit such as 2h; no experiment begins that would end later")
	c.Flags().StringArrayVar(&f.envs, "env", nil, "environments to use instead of the experiments' own, as in `teescope bench run`")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would run and how long it takes; start nothing")
	return c
}

// reproduceJob is one `teescope bench run` of an experiment, or of those of its cases that have a result of their own.
type reproduceJob struct {
	name   string
	params map[string]string // choose the cases; none for all
	out    string
}

// run makes the runs that have no result yet.
func (f *reproduceRun) run(ctx context.Context, env Env, s *reproduce.Source) error {
	names, err := f.experiments(env, s)
	if err != nil {
		return err
	}
	if !f.dryRun && len(names) > 0 {
		if err := os.MkdirAll(f.folder, 0o755); err != nil {
			return fmt.Errorf("create the folder for the results: %w", err)
		}
	}
	begun, failed, count := host.Local().Now(), 0, 0
	for _, name := range names {
		jobs, err := f.jobs(name)
		if err != nil {
			fmt.Fprintf(env.Stdout, "%s: cannot run here: %v\n", name, err)
			failed, count = failed+1, count+1
			continue
		}
		for _, j := range jobs {
			count++
			if !f.runJob(ctx, env, j, begun) {
				failed++
			}
			if ctx.Err() != nil {
				return fmt.Errorf("stopped; run the same command again to continue: %w", bench.ErrStopped)
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%s of %d gave no result", metric.Plural(failed, "experiment"), count)
	}
	return nil
}

// runJob makes the runs of a job that has no result yet, if there is time for them. It reports whether nothing failed.
func (f *reproduceRun) runJob(ctx context.Context, env Env, j reproduceJob, begun time.Time) bool {
	label := strings.TrimSuffix(filepath.Base(j.out), ".json")
	plan, lacks, err := f.plan(j)
	if err != nil {
		fmt.Fprintf(env.Stdout, "%s: cannot run here: %v\n", label, err)
		return false
	}
	finished, resume := resultState(j.out, plan)
	if finished {
		fmt.Fprintf(env.Stdout, "%s: has a result%s\n", label, f.lacking(j.out, plan))
		return true
	}
	if lacks != nil && !resume {
		fmt.Fprintf(env.Stdout, "%s: cannot run here: %v\n", label, lacks)
		return false
	}
	took := longest(plan)
	if f.within > 0 && host.Local().Now().Sub(begun)+took > f.within {
		fmt.Fprintf(env.Stdout, "%s: not started: it takes up to %s\n", label, round(took))
		return true
	}
	fmt.Fprintf(env.Stdout, "%s: up to %s\n", label, round(took))
	return f.dryRun || f.runOne(ctx, env, j, resume) != exitUsage
}

// experiments are those of the tables, each once, in the document's order.
func (f *reproduceRun) experiments(env Env, s *reproduce.Source) (out []string, err error) {
	found := false
	all := experimentNames()
	for i := range s.Tables {
		t := &s.Tables[i]
		if f.only != "" && t.ID != f.only {
			continue
		}
		found = true
		names := t.Experiments()
		if f.only != "" && len(names) == 0 {
			fmt.Fprintf(env.Stdout, "%s: nothing to run: %s\n", t.ID, t.WhyNothing())
		}
		for _, name := range names {
			if name = reproduce.ExperimentOf(name, all); name != "" && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	if !found {
		return nil, fmt.Errorf("--only %q: %s has no table of this id; see `teescope reproduce list`", f.only, s.ID)
	}
	return out, nil
}

// jobs divides an experiment whose cases have several primary metrics, because each of them has a result of its own.
func (f *reproduceRun) jobs(name string) ([]reproduceJob, error) {
	e, err := experiment(name)
	if err != nil {
		return nil, err
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e, Envs: f.envs}, lists())
	if err != nil {
		return nil, err
	}
	if len(plans) == 1 {
		return []reproduceJob{{name: name, out: filepath.Join(f.folder, name+".json")}}, nil
	}
	var out []reproduceJob
	for _, p := range plans {
		j := reproduceJob{name: name, params: onlyIn(p, plans), out: filepath.Join(f.folder, p.Name+".json")}
		if len(j.params) == 0 {
			return nil, fmt.Errorf("cannot run the cases of %s alone: no parameter has a value that only these cases have", p.Name)
		}
		out = append(out, j)
	}
	return out, nil
}

// onlyIn are the parameters that all cases of a plan have and none of another plan.
func onlyIn(p *bench.Plan, plans []*bench.Plan) map[string]string {
	out := map[string]string{}
	for k, v := range p.Cases[0].Params {
		has := func(c bench.Case) bool { return c.Params[k] == v }
		only := !slices.ContainsFunc(p.Cases, func(c bench.Case) bool { return !has(c) })
		for _, other := range plans {
			only = only && (other == p || !slices.ContainsFunc(other.Cases, has))
		}
		if only {
			out[k] = v
		}
	}
	return out
}

// plan is that of a job here. lacks says why it cannot run: without the environments that an experiment names itself it can, without
// those of --env it cannot.
func (f *reproduceRun) plan(j reproduceJob) (p *bench.Plan, lacks, err error) {
	e, err := experiment(j.name)
	if err != nil {
		return nil, nil, err
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e, Envs: f.envs, Params: j.params}, lists())
	if err != nil {
		return nil, nil, err
	}
	if len(plans) != 1 {
		return nil, nil, fmt.Errorf("%s makes %d results with the parameters %v; want 1 result", j.name, len(plans), j.params)
	}
	_, lacks = available(plans[0], host.Local(), len(f.envs) > 0)
	return plans[0], lacks, nil
}

// longest is the time of a plan with all its spare pairs and the passes that follow.
func longest(p *bench.Plan) time.Duration {
	took, _ := p.Estimate()
	took += p.Spared()
	for i := range p.Then {
		took += p.Runs(p.Then[i].Runs(p))
	}
	return took
}

// resultState reports whether a result and those of the passes that follow are finished, and otherwise whether any was begun.
func resultState(out string, p *bench.Plan) (finished, begun bool) {
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	files := []string{out}
	for i := range p.Then {
		files = append(files, strings.TrimSuffix(out, ".json")+"-"+p.Then[i].Name+".json")
	}
	finished = true
	for _, f := range files {
		partly := exists(f + ".partial")
		finished = finished && exists(f) && !partly
		begun = begun || partly || exists(f)
	}
	return finished, begun
}

// lacking says which environments of --env a result does not have, and what to do; "" if it has all.
func (f *reproduceRun) lacking(out string, p *bench.Plan) string {
	if len(f.envs) == 0 {
		return ""
	}
	e, err := result.Read(out)
	if err != nil {
		return fmt.Sprintf(" that cannot be read: %v", err)
	}
	var missing []string
	for i := range p.Arms {
		if label := p.Arms[i].Label; e.Environment(label) == nil {
			missing = append(missing, label)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf(" without %s: name another folder with --results to run the experiment with these environments", strings.Join(missing, ", "))
}

// runOne is `teescope bench run` of a job. What was begun is continued in the environments with which it began.
func (f *reproduceRun) runOne(ctx context.Context, env Env, j reproduceJob, resume bool) int {
	args := []string{"bench", "run", "--out", j.out}
	if resume {
		args = append(args, "--resume")
	} else {
		args = append(args, j.name)
		for _, k := range slices.Sorted(maps.Keys(j.params)) {
			args = append(args, "--param", k+"="+j.params[k])
		}
		for _, e := range f.envs {
			args = append(args, "--env", e)
		}
	}
	one := Env{Args: args, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr}
	return execute(ctx, one, rootCommand(one))
}
