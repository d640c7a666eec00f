package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/result"
)

func benchListCommand(env Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list [NAME...]",
		Short:   "List workloads, experiments and launchers with their parameters",
		Example: "  teescope bench list\n  teescope bench list redis e7-original\n  teescope bench list --json | jq '.workloads[].name'",
		RunE: func(_ *cobra.Command, names []string) error {
			l, err := catalogue()
			if err == nil && len(names) > 0 {
				l, err = l.named(names)
			}
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(env.Stdout)
				e.SetIndent("", "  ")
				return e.Encode(l)
			}
			l.print(env.Stdout)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print data instead of text")
	return c
}

// listing is what `bench list` prints.
type listing struct {
	Workloads   []listedWorkload   `json:"workloads"`
	Experiments []listedExperiment `json:"experiments"`
	Launchers   []listedLauncher   `json:"launchers"`
}

type listedParam struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Default string   `json:"default"`
	Values  []string `json:"values,omitempty"`
	Subject bool     `json:"subject,omitempty"`
}

type listedWorkload struct {
	Name    string              `json:"name"`
	Doc     string              `json:"doc"`
	Version int                 `json:"version"`
	Primary string              `json:"primary_metric"`
	Metrics []result.MetricDesc `json:"metrics"`
	Params  []listedParam       `json:"params"`
	Sweep   map[string][]string `json:"sweep,omitempty"`
	Tools   []string            `json:"tools,omitempty"`
}

type listedExperiment struct {
	Name         string   `json:"name"`
	Doc          string   `json:"doc"`
	Source       string   `json:"source,omitempty"`
	Corrects     string   `json:"corrects,omitempty"`
	Workload     string   `json:"workload"`
	Environments []string `json:"environments"`
}

type listedLauncher struct {
	Name   string        `json:"name"`
	Doc    string        `json:"doc"`
	Params []listedParam `json:"params"`
}

func catalogue() (listing, error) {
	var l listing
	for _, w := range workloads.All {
		defaults, err := bench.Complete("workload "+w.Name, w.Params, nil)
		if err != nil {
			return l, err
		}
		x := listedWorkload{Name: w.Name, Doc: w.Doc, Version: w.Version, Primary: w.Primary(defaults).Name, Params: params(w.Params), Sweep: w.Sweep}
		for _, d := range w.Metrics(defaults) {
			x.Metrics = append(x.Metrics, result.Describe(d))
		}
		for _, t := range w.Tools {
			x.Tools = append(x.Tools, t.Command)
		}
		l.Workloads = append(l.Workloads, x)
	}
	files, err := fs.Glob(experiments.Files, "*.yaml")
	if err != nil {
		return l, err
	}
	for _, f := range files {
		e, err := experiment(strings.TrimSuffix(path.Base(f), ".yaml"))
		if err != nil {
			return l, err
		}
		l.Experiments = append(l.Experiments, listedExperiment{strings.TrimSuffix(f, ".yaml"), e.Doc, e.Source, e.Corrects, e.Workload, e.Environments})
	}
	for _, x := range launchers.All {
		l.Launchers = append(l.Launchers, listedLauncher{x.Name, x.Doc, params(x.Params)})
	}
	return l, nil
}

func params(ps []bench.Param) []listedParam {
	out := make([]listedParam, len(ps))
	for i, p := range ps {
		out[i] = listedParam{p.Name, p.Doc, p.Default, p.Values, p.Subject}
	}
	return out
}

// named selects the entries with these names.
func (l listing) named(names []string) (listing, error) {
	for _, n := range names {
		if !slices.ContainsFunc(l.Workloads, func(x listedWorkload) bool { return x.Name == n }) &&
			!slices.ContainsFunc(l.Experiments, func(x listedExperiment) bool { return x.Name == n }) &&
			!slices.ContainsFunc(l.Launchers, func(x listedLauncher) bool { return x.Name == n }) {
			return l, fmt.Errorf("nothing is called %q; see `teescope bench list`", n)
		}
	}
	l.Workloads = slices.DeleteFunc(l.Workloads, func(x listedWorkload) bool { return !slices.Contains(names, x.Name) })
	l.Experiments = slices.DeleteFunc(l.Experiments, func(x listedExperiment) bool { return !slices.Contains(names, x.Name) })
	l.Launchers = slices.DeleteFunc(l.Launchers, func(x listedLauncher) bool { return !slices.Contains(names, x.Name) })
	return l, nil
}

func (l listing) print(w io.Writer) {
	if len(l.Workloads) > 0 {
		fmt.Fprint(w, "WORKLOADS: what is measured\n\n")
	}
	for _, x := range l.Workloads {
		fmt.Fprintf(w, "%s: %s\n  verdict on %s\n", x.Name, x.Doc, x.Primary)
		if len(x.Tools) > 0 {
			fmt.Fprintf(w, "  needs %s\n", strings.Join(x.Tools, ", "))
		}
		printParams(w, x.Params)
		for _, p := range slices.Sorted(maps.Keys(x.Sweep)) {
			fmt.Fprintf(w, "  runs with %s = %s, unless --param sets it\n", p, strings.Join(x.Sweep[p], ", "))
		}
		fmt.Fprintln(w)
	}
	if len(l.Experiments) > 0 {
		fmt.Fprint(w, "EXPERIMENTS: workloads with parameters and environments, as published and as corrected\n\n")
	}
	for _, x := range l.Experiments {
		fmt.Fprintf(w, "%s: %s\n  workload %s in %s\n", x.Name, x.Doc, x.Workload, strings.Join(x.Environments, "; "))
		if x.Source != "" {
			fmt.Fprintf(w, "  from: %s\n", x.Source)
		}
		if x.Corrects != "" {
			fmt.Fprintf(w, "  differs from it, and why: %s\n", x.Corrects)
		}
		fmt.Fprintln(w)
	}
	if len(l.Launchers) > 0 {
		fmt.Fprint(w, "LAUNCHERS: where a workload runs (--env [LABEL=]LAUNCHER[,K=V]...)\n\n")
	}
	for _, x := range l.Launchers {
		fmt.Fprintf(w, "%s: %s\n", x.Name, x.Doc)
		printParams(w, x.Params)
		fmt.Fprintln(w)
	}
	if len(l.Launchers) == len(launchers.All) {
		fmt.Fprintf(w, "%s: a fixed suite for this machine, as one table: CPU, memory, kernel entry, wake-up, start-up and storage\n", platformSuite)
	}
}

func printParams(w io.Writer, ps []listedParam) {
	for _, p := range ps {
		value := p.Default
		if len(p.Values) > 0 {
			value = strings.Join(p.Values, "|") + ", default " + p.Default
		}
		note := ""
		if p.Subject {
			note = " (may differ between environments)"
		}
		fmt.Fprintf(w, "  %s=%s  %s%s\n", p.Name, value, p.Doc, note)
	}
}
