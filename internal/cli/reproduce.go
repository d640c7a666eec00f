package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/reproduce"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

func reproduceCommand(env Env, more ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   "reproduce",
		Short: "Show a published document's tables next to your own numbers",
		Long: `Reproduce knows published documents: their tables and figures with every value, and the experiments that
measure them again. list shows the documents, run measures, and report writes a document's tables with your numbers
next to the published ones.`,
		Example: "  teescope reproduce list\n  teescope reproduce report channel --results experiments/results",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(reproduceListCommand(env), reproduceReportCommand(env))
	c.AddCommand(more...)
	return c
}

func reproduceListCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the published documents and the experiments for their tables",
		Example: "  teescope reproduce list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := readSources()
			if err != nil {
				return err
			}
			for _, s := range all {
				also := ""
				if len(s.Names) > 0 {
					also = " (also: " + strings.Join(s.Names, ", ") + ")"
				}
				fmt.Fprintf(env.Stdout, "%s: %s%s\n  %s\n", s.ID, s.Title, also, s.Citation)
				for i := range s.Tables {
					t := &s.Tables[i]
					fmt.Fprintf(env.Stdout, "  %-24s %s\n", t.ID, t.Title)
					if names := t.Experiments(); len(names) > 0 {
						fmt.Fprintf(env.Stdout, "  %-24s by %s\n", "", strings.Join(names, ", "))
					} else {
						fmt.Fprintf(env.Stdout, "  %-24s nothing to run: %s\n", "", t.WhyNothing())
					}
				}
				fmt.Fprintln(env.Stdout)
			}
			return nil
		},
	}
}

func reproduceReportCommand(env Env) *cobra.Command {
	var out, folder string
	c := &cobra.Command{
		Use:   "report SOURCE",
		Short: "Write a document's tables, with your numbers next to the published ones, as Markdown or HTML",
		Example: "  teescope reproduce report channel --results experiments/results --out channel.html\n" +
			"  teescope reproduce report gramine --out -",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := findSource(args[0])
			if err != nil {
				return err
			}
			if folder == "" {
				folder = resultsFolder(s)
			}
			docs, files, err := readResults(env.Stderr, folder)
			if err != nil {
				return err
			}
			r := reproduce.NewResults(docs, files, experimentOfPart)
			r.Differs, r.Cases = differsFromExperiment, casesOfExperiment
			page, err := reproduce.Compose(s, r, experiments.Claims.ReadFile)
			if err != nil {
				return err
			}
			text := page.Markdown()
			if strings.HasSuffix(out, ".html") {
				if text, err = page.HTML(); err != nil {
					return err
				}
			}
			if out == "-" {
				_, err = env.Stdout.Write(text)
				return err
			}
			if err := os.WriteFile(out, text, 0o644); err != nil {
				return fmt.Errorf("write the report: %w", err)
			}
			fmt.Fprintf(env.Stdout, "%s: %s\n", out, page.Summary())
			return nil
		},
	}
	c.Flags().StringVar(&folder, "results", "", "folder with results (default reproduce-SOURCE, where `teescope reproduce run` puts them)")
	c.Flags().StringVar(&out, "out", "-", "file to write: .md or .html; - for standard output, as Markdown")
	return c
}

// resultsFolder is where the runs of a source are kept, in the current folder.
func resultsFolder(s *reproduce.Source) string { return "reproduce-" + s.ID }

// readSources reads all source files, by name.
func readSources() ([]*reproduce.Source, error) {
	var out []*reproduce.Source
	for _, f := range experiments.Sources.List() {
		b, err := experiments.Sources.ReadFile(f)
		if err != nil {
			return nil, err
		}
		s, err := reproduce.Load(strings.TrimSuffix(f, ".yaml"), b)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// findSource finds a source by one of its names, or reads a file of the user's own.
func findSource(name string) (*reproduce.Source, error) {
	if strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return reproduce.Load(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), b)
	}
	all, err := readSources()
	if err != nil {
		return nil, err
	}
	var known []string
	for _, s := range all {
		if s.ID == name || slices.Contains(s.Names, name) {
			return s, nil
		}
		known = append(known, s.ID)
	}
	return nil, fmt.Errorf("no document is called %q: want %s, or a file", name, strings.Join(known, ", "))
}

// experimentsOfSource are the experiments that answer a published document of this name; none if there is no such document.
func experimentsOfSource(name string) (out []string, err error) {
	all, err := readSources()
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.ID != name && !slices.Contains(s.Names, name) {
			continue
		}
		for i := range s.Tables {
			for _, e := range s.Tables[i].Experiments() {
				out = append(out, reproduce.ExperimentOf(e, experimentNames()))
			}
		}
	}
	return out, nil
}

// readResults reads the results of a folder. One that cannot be read is named and left out.
func readResults(warn io.Writer, folder string) (docs []*result.Experiment, files map[string]string, err error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(warn, "no results yet: the folder %s does not exist\n", folder)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the results: %w", err)
	}
	files = map[string]string{}
	for _, f := range entries {
		if !strings.HasSuffix(f.Name(), ".json") && !strings.HasSuffix(f.Name(), ".json.gz") {
			continue
		}
		path := filepath.Join(folder, f.Name())
		e, err := result.Read(path)
		if err != nil {
			fmt.Fprintf(warn, "left out: %v\n", err)
			continue
		}
		e = verdict.Concluded(e, judged())
		docs, files[e.ID] = append(docs, e), path
	}
	return docs, files, nil
}

// experimentNames are the names of all experiment files.
func experimentNames() (out []string) {
	for _, f := range experiments.Files.List() {
		out = append(out, strings.TrimSuffix(f, ".yaml"))
	}
	return out
}

// experimentOfPart returns the experiment whose cases are divided among several results, of which one has this name; "" for all other names.
func experimentOfPart(name string) string {
	whole := reproduce.ExperimentOf(name, experimentNames())
	if whole == "" || whole == name {
		return ""
	}
	e, err := experiment(whole)
	if err != nil {
		return ""
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil || !slices.ContainsFunc(plans, func(p *bench.Plan) bool { return p.Name == name }) {
		return ""
	}
	return whole
}

// differsFromExperiment says in what a result's case differs from the experiment's own: in its workload, or in parameters, as where a run
// was shortened.
func differsFromExperiment(name string, of *result.Experiment, kase *result.Case) string {
	e, err := experiment(name)
	if err != nil {
		return "" // a pass that follows an experiment
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil {
		return ""
	}
	w := plans[0].Workload
	switch {
	case of.Workload.Name != w.Name:
		return fmt.Sprintf("workload %s instead of %s", of.Workload.Name, w.Name)
	case of.Workload.Version != w.Version:
		return fmt.Sprintf("version %d of workload %s instead of %d", of.Workload.Version, w.Name, w.Version)
	}
	var least []string
	for i, p := range plans {
		for j := range p.Cases {
			if d := differences(kase.Params, p.Cases[j].Params); i+j == 0 || len(d) < len(least) {
				least = d
			}
		}
	}
	return strings.Join(least, ", ")
}

// casesOfExperiment is the number of an experiment's cases; 0 if there is no experiment of the name.
func casesOfExperiment(name string) (n int) {
	e, err := experiment(name)
	if err != nil {
		return 0
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil {
		return 0
	}
	for _, p := range plans {
		n += len(p.Cases)
	}
	return n
}

// differences are the parameters that both have with unlike values, in words.
func differences(got, want map[string]string) (out []string) {
	for k, v := range got {
		if w, ok := want[k]; ok && v != w && !filepath.IsAbs(w) && !filepath.IsAbs(v) && filepath.Base(v) != filepath.Base(w) { // another folder is no difference
			out = append(out, fmt.Sprintf("%s=%s instead of %s", k, v, w))
		}
	}
	slices.Sort(out)
	return out
}
