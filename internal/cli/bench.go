//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/commits"
	"github.com/teescope/teescope/internal/bench/counting"
	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/internal/verdict"
)

func benchCommand(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the cost of a TEE in interleaved pairs, with a confidence interval",
		Example: "  teescope bench list\n" +
			"  teescope bench run cause-clock --quick --out cause-clock.json\n" +
			"  teescope report cause-clock.json",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(benchListCommand(env), benchRunCommand(env), benchCalibrateCommand(env), benchPlanCommand(env), benchCommitsCommand(env), insideCommand())
	return c
}

// benchFlags are the flags of `bench run`, `bench calibrate` and `bench commits`.
type benchFlags struct {
	envs, params   []string
	variants       []string
	ceilings       []string
	ceilingFile    string
	pairs          int
	quick, publish bool
	out, data      string
	dryRun, resume bool
	seed           uint64
	margin         string
	metric, commit string
	noCounters     bool
	client         string
	strict         bool
	price          string
	timeout        time.Duration
	format         string
	changed        func(flag string) bool
}

func (f *benchFlags) add(c *cobra.Command) {
	fs := c.Flags()
	f.changed = fs.Changed
	fs.StringArrayVar(&f.envs, "env", nil, "environment, as [LABEL=]LAUNCHER[,K=V]..., or another machine, as ssh:[USER@]HOST[,K=V]...; the first environment is the baseline")
	fs.StringSliceVar(&f.variants, "variants", nil, "run only these environments of an experiment; the first is the baseline")
	fs.StringArrayVar(&f.params, "param", nil, "parameter of the workload, as K=V; K=V1|V2 measures both values")
	fs.IntVar(&f.pairs, "pairs", 0, fmt.Sprintf("number of pairs (default: the experiment's, or %d)", bench.StandardPairs))
	fs.IntVar(&f.pairs, "runs", 0, "runs in each environment: the same as --pairs")
	fs.BoolVar(&f.quick, "quick", false, fmt.Sprintf("measure one short case with %d pairs, the minimum for a verdict; up to %d spare pairs replace lost ones", bench.QuickPairs, bench.QuickSpare))
	fs.BoolVar(&f.publish, "publish", false, fmt.Sprintf("measure %d pairs, enough for results to publish", bench.PublishPairs))
	fs.StringVar(&f.out, "out", "", "result file, or a folder if several names are given (default: a file in the monitor's data folder, so the page shows it)")
	fs.StringVar(&f.data, "data", dataDir(), "data folder of the monitor whose page shows the results")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would run, how long it takes and how much disk space it needs; start nothing")
	fs.BoolVar(&f.resume, "resume", false, "continue the stopped experiment whose result file is --out")
	fs.Uint64Var(&f.seed, "seed", 0, "seed of the random order (default: random; the result records it)")
	fs.StringVar(&f.margin, "margin", "", "smallest cost that matters (default: the experiment's, or "+defaultMargin+")")
	fs.StringVar(&f.metric, "metric", "", "metric of the verdict (default: the workload's primary metric)")
	fs.StringArrayVar(&f.ceilings, "ceiling", nil, "physical limit of a device or link, as METRIC=VALUE,SOURCE in base units; higher measured values are refused")
	fs.StringVar(&f.ceilingFile, "ceilings", "", "YAML file of physical limits with the keys date and ceilings; each ceiling has metric, value, of, source and optionally env (one environment)")
	fs.StringVar(&f.commit, "commit", "", "commit of the program under test, for the history")
	fs.BoolVar(&f.noCounters, "no-counters", false, "run without counters (an experiment may set this itself); with --resume, give the flag again")
	fs.StringVar(&f.client, "client", "", "machine for the load generators (default: this machine; the result says so), as ssh:[USER@]HOST[,server=ADDRESS][,port=N][,identity=FILE][,options=NAME=VALUE]; server is this machine's address as seen from HOST")
	fs.DurationVar(&f.timeout, "timeout", 0, "stop a run that takes longer (default: 20 times its estimate, at least 2m)")
	fs.StringVar(&f.format, "format", "text", "output format: "+formatNames())
	fs.BoolVar(&f.strict, "strict", false, "refuse an experiment if one of its environments cannot run here, instead of leaving that environment out")
	fs.StringVar(&f.price, "price", "", "YAML file with per_hour, currency, source, date and of; the platform suite's table then shows the price of a million units")
	c.MarkFlagsMutuallyExclusive("pairs", "runs", "quick", "publish")
	c.MarkFlagsMutuallyExclusive("env", "variants")
}

func benchRunCommand(env Env) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "run NAME...",
		Short: "Run a workload, an experiment or all workloads",
		Long: `Run measures one or more workloads in one or more environments. A NAME is a workload or
an experiment of ` + "`teescope bench list`" + `, an experiment file (.yaml), or "platform" for
a fixed suite that characterizes this machine. An experiment leaves out the environments
that this machine cannot provide, and says what they lack; one environment is enough.

Each run is a fresh process. Each pair runs the environments in a new random order. Every
run is saved when it ends, so an interruption loses only the current run. --resume
continues, and skips finished follow-up experiments.

Exit status: 0 measured, 3 a guard refused the result or no run gave a value, 4 usage error
or something missing on this machine.`,
		Example: "  teescope bench run cause-clock --quick --out cause-clock.json\n" +
			"  teescope bench run startup --env native --env runsc   # needs runsc: `make runsc`\n" +
			"  teescope bench run custom --param 'command={binary} --once' --env base=native,binary=./old --env head=native,binary=./new\n" +
			"  teescope bench run --resume --out result.json\n" +
			"  teescope bench run e7-latency --resume --out e7.json",
		RunE: func(c *cobra.Command, args []string) error { return f.run(c.Context(), env, args, false) },
	}
	f.add(c)
	return c
}

func benchCalibrateCommand(env Env) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "calibrate NAME",
		Short: "Measure the noise floor of a workload on this machine: an environment against itself (A/A)",
		Long: `Bench calibrate measures an environment against itself (A/A), so every difference is
noise. (` + "`teescope calibrate`" + ` is another command: it measures the costs of single events.)

The result shows the smallest cost that this machine can detect for this workload, and
how often it would report a cost that does not exist. Pass the result to ` + "`teescope gate`" + ` and
` + "`teescope compare`" + ` with --calibration.`,
		Example: "  teescope bench calibrate syscall --pairs 20 --out calibration.json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c.Context(), env, args, true) },
	}
	f.add(c)
	f.hide(c, "price")
	return c
}

// hide leaves flags that mean nothing to a command out of its help.
func (f *benchFlags) hide(c *cobra.Command, names ...string) {
	for _, name := range names {
		_ = c.Flags().MarkHidden(name)
	}
}

func (f *benchFlags) run(ctx context.Context, env Env, names []string, calibrate bool) error {
	format, err := findFormat(f.format)
	if err != nil {
		return err
	}
	h := host.Local()
	o, err := f.options(ctx, env, h)
	if err != nil {
		return err
	}
	switch {
	case f.resume && f.out == "":
		return errors.New("--resume needs --out FILE: the result of the experiment to continue")
	case f.resume && len(names) == 0:
		p, err := bench.Begun(lists(), o, f.out)
		if err != nil {
			return err
		}
		return f.tasks(ctx, env, o, format, []task{{p, p.Name, f.out}})
	case len(names) == 0:
		return errors.New("name a workload or an experiment; `teescope bench list` shows both")
	}
	suite := slices.Contains(names, platformSuite)
	plans, asked, err := f.plans(names, calibrate)
	if err != nil {
		return err
	}
	if suite {
		if plans, err = runnable(env.Stderr, h, plans); err != nil {
			return err
		}
	}
	switch {
	case f.resume && (len(plans) > 1 || suite):
		return errors.New("--resume continues one experiment; name only one")
	case f.price != "" && !suite:
		return fmt.Errorf("--price %s: this flag works only with the %s suite, which has a table of costs", f.price, platformSuite)
	case f.dryRun:
		return dryRun(env.Stdout, h, plans, f.all(calibrate))
	}
	for _, p := range plans {
		p.NoCounters = p.NoCounters || f.noCounters
		if err := announcePlan(env.Stderr, h, p, f.all(calibrate)); err != nil {
			return err
		}
	}
	if suite {
		return f.platform(ctx, env, o, plans)
	}
	var todo []task
	for i, p := range plans {
		todo = append(todo, task{p, asked[i], f.path(p.Name, h.Now(), len(plans) > 1)})
	}
	return f.tasks(ctx, env, o, format, todo)
}

// options are the engine's, from the flags.
func (f *benchFlags) options(ctx context.Context, env Env, h *host.Host) (o bench.Options, err error) {
	o = bench.Options{Host: h, Kinds: kinds.All, Version: build.Version(), Command: append([]string{"teescope"}, env.Args...),
		Timeout: f.timeout, Verdict: judged()}
	if f.commit != "" {
		if o.Commit, err = commits.Resolve(ctx, h, f.commit); err != nil {
			return o, err
		}
	}
	if f.client != "" {
		o.Client, err = bench.ParseClient(f.client)
	}
	return o, err
}

// plans are those of what the flags and names choose; asked is for each what it was named by.
func (f *benchFlags) plans(names []string, calibrate bool) (plans []*bench.Plan, asked []string, err error) {
	choices, err := f.choices(names, calibrate)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range choices {
		some, err := bench.NewPlans(c, lists())
		if err != nil {
			return nil, nil, err
		}
		if len(choices) == 1 && len(some) > 1 && filepath.Ext(f.out) == ".json" {
			return nil, nil, fmt.Errorf("--out %s: want a folder, because %s makes %d results, one for each metric; to run only some of the cases, use --param", f.out, c.Experiment.Name, len(some))
		}
		for _, p := range some {
			p.LoadElsewhere = f.client != ""
		}
		plans = append(plans, some...)
		asked = append(asked, slices.Repeat(names[min(i, len(names)-1):][:1], len(some))...)
	}
	return plans, asked, nil
}

// announcePlan checks that a plan can run here, and says how long it takes, what is left out and what stands in for something
// else.
func announcePlan(w io.Writer, h *host.Host, p *bench.Plan, all bool) error {
	left, err := available(p, h, all)
	if err != nil {
		return fmt.Errorf("%s cannot run here: %w (choose other environments with --env; --dry-run shows what would run)", p.Name, err)
	}
	for _, x := range left {
		fmt.Fprintf(w, "%s: left out %s: %s\n", p.Name, x.Env, contain.OneLine(errors.New(x.Why)))
	}
	if why := tooFew(p); why != "" {
		fmt.Fprintf(w, "%s: %s\n", p.Name, why)
	}
	fmt.Fprintf(w, "%s: %s\n", p.Name, lengthOf(p))
	for i := range p.Arms {
		if _, why := p.Arms[i].Foreseen(h); why != "" {
			fmt.Fprintf(w, "%s: stand-in: %s %s\n", p.Name, p.Arms[i].Label, why)
		}
	}
	return nil
}

// all reports whether every environment must run: those that a user names, unlike those
// of an experiment.
func (f *benchFlags) all(calibrate bool) bool {
	return f.strict || calibrate || len(f.envs) > 0 || len(f.variants) > 0
}

// available checks that a plan can run here, without some of its environments unless all
// must.
func available(p *bench.Plan, h *host.Host, all bool) ([]result.LeftOut, error) {
	if all {
		return nil, p.Check(h)
	}
	return p.DropLacking(h)
}

// tasks runs experiments, each with the passes that follow.
func (f *benchFlags) tasks(ctx context.Context, env Env, o bench.Options, format *report.Format, todo []task) error {
	var status outcome
	for len(todo) > 0 {
		t := todo[0]
		one := *f
		one.noCounters = f.noCounters || t.plan.NoCounters
		e, err := t.finished(f.resume)
		if err == nil && e != nil {
			fmt.Fprintf(env.Stderr, "%s is already finished\n", t.path)
		} else if err == nil {
			err = one.finish(ctx, env, o, format, t.asked, t.path, func(o bench.Options) (_ *result.Experiment, err error) {
				e, err = t.run(ctx, o, f.resume)
				return e, err
			})
		}
		var s outcome
		switch {
		case errors.As(err, &s):
			status = max(status, s)
		case err != nil:
			return err
		}
		next, err := t.following(e)
		if err != nil {
			fmt.Fprintf(env.Stderr, "teescope: %s\n", contain.OneLine(err))
			status = max(status, outcome(exitInvalid))
		}
		todo = append(next, todo[1:]...)
	}
	if status != exitOK {
		return status
	}
	return nil
}

// finish runs one experiment with the counters attached and prints the result.
func (f *benchFlags) finish(ctx context.Context, env Env, o bench.Options, format *report.Format, asked, path string, run func(bench.Options) (*result.Experiment, error)) error {
	fmt.Fprintf(env.Stderr, "writing %s\n", path)
	e, err := f.measured(ctx, env, o, run)
	if e == nil {
		return err
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "teescope: %s\n", contain.OneLine(err))
	}
	if err := f.publishTo(path, e); err != nil {
		fmt.Fprintf(env.Stderr, "teescope: copy the result for the page: %s\n", contain.OneLine(err))
	}
	if werr := format.Write(env.Stdout, report.Document{Experiments: []*result.Experiment{e}, Catalog: known, Made: o.Host.Now().UTC()}); werr != nil {
		return nameFiles([]string{path}, werr)
	}
	if f.format == "text" {
		if e.Design.Calibration {
			printFloor(env.Stdout, e)
		}
		f.printAlone(env.Stdout, asked, path, e)
	}
	if err != nil && !errors.Is(err, bench.ErrLeft) || refused(e) || !anyValue(e) {
		return outcome(exitInvalid)
	}
	return nil
}

// printFloor prints the noise floor that an A/A run measured.
func printFloor(w io.Writer, e *result.Experiment) {
	n, err := verdict.Calibrate(e)
	if err != nil {
		fmt.Fprintf(w, "\nno noise floor: %s\n", contain.OneLine(err))
		return
	}
	fmt.Fprintf(w, "\nNOISE FLOOR of this host for %s (%s)\n", n.Workload, n.Metric)
	for _, c := range e.Cases {
		f, ok := n.Cases[c.Identity]
		if !ok {
			fmt.Fprintf(w, "  %s: none\n", c.ID)
			continue
		}
		fmt.Fprintf(w, "  %s: in 19 of 20 experiments of %d pairs, equal environments differ by up to %s; two separate results differ by up to %s\n",
			c.ID, f.Pairs, metric.Percent(f.Paired), metric.Percent(f.Drift))
		if f.FalsePositives != nil {
			fmt.Fprintf(w, "    false alarms: %s of random splits into halves; the test allows %s\n", metric.Percent(*f.FalsePositives), metric.Percent(f.Level))
		} else {
			fmt.Fprintln(w, "    false alarms: not measured; needs at least 12 pairs")
		}
	}
}

// measured attaches the counters around a run of an experiment, and shows its progress. It first measures what
// events cost, unless the data folder has that.
func (f *benchFlags) measured(ctx context.Context, env Env, o bench.Options, run func(bench.Options) (*result.Experiment, error)) (*result.Experiment, error) {
	o.Progress = newProgress(env.Stderr).show
	o.NoCounters = "switched off by --no-counters"
	if !f.noCounters {
		found := tee.Detect(o.Host, o.Kinds)
		o.UnitCosts = observe.Calibrated(ctx, o.Host, found, f.data, slog.New(slog.DiscardHandler)).ForResult()
		c := counting.Open(o.Host, found)
		defer c.Close()
		o.Counters, o.NoCounters = c, c.Reason()
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program's file, for environments with kernels of their own: %w", err)
		}
		o.Inside = counting.NewInside(self)
	}
	return run(o)
}

// anyValue reports whether at least one run gave a value.
func anyValue(e *result.Experiment) bool {
	return slices.ContainsFunc(e.Runs, func(r result.Run) bool { return r.Status == result.OK })
}

// publishTo copies a result to where the monitor's page finds it, unless it is there.
func (f *benchFlags) publishTo(path string, e *result.Experiment) error {
	a := &result.Archive{Dir: filepath.Join(f.data, "results")}
	abs, err := filepath.Abs(path)
	if err != nil || filepath.Dir(abs) == filepath.Clean(a.Dir) {
		return err
	}
	_, err = a.Add(e)
	return err
}

// path is the file of an experiment's result.
func (f *benchFlags) path(name string, at time.Time, several bool) string {
	file := strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' {
			return '-'
		}
		return r
	}, name) + "-" + at.UTC().Format("20060102T150405") + ".json"
	switch {
	case f.out == "":
		return filepath.Join(f.data, "results", file)
	case several:
		return filepath.Join(f.out, file)
	}
	if st, err := os.Stat(f.out); err == nil && st.IsDir() {
		return filepath.Join(f.out, file)
	}
	return f.out
}
