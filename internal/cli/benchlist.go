package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/bench/workloads"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

func benchListCommand(env Env) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [NAME...]",
		Short: "List workloads, experiments and launchers; with names, their parameters and sources",
		Long: `List shows what can be measured, where it can run, and what this machine lacks. With the
name of a workload, experiment or launcher it shows all details, with parameters and sources.
The first part of a name, such as e3, selects all experiments whose names begin with it. The
name of a published document, such as phala or teemon, selects the experiments for its tables.`,
		Example: "  teescope bench list\n  teescope bench list e3\n  teescope bench list teemon\n  teescope bench list redis e7-original\n  teescope bench list --json | jq '.workloads[].name'",
		RunE: func(_ *cobra.Command, names []string) error {
			l, err := catalogue(host.Local())
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
			if len(names) == 0 {
				l.overview(env.Stdout)
			} else {
				l.print(env.Stdout)
			}
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
	// Platform: the suite was asked for.
	Platform bool `json:"-"`
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
	here
}

type listedExperiment struct {
	Name         string   `json:"name"`
	Doc          string   `json:"doc"`
	Source       string   `json:"source,omitempty"`
	Corrects     string   `json:"corrects,omitempty"`
	Workload     string   `json:"workload"`
	Environments []string `json:"environments"`
	here
}

type listedLauncher struct {
	Name   string        `json:"name"`
	Doc    string        `json:"doc"`
	Params []listedParam `json:"params"`
	here
}

// here says what a thing lacks on this machine: Lacks, and it cannot run; or some of an
// experiment's environments, without which it runs.
type here struct {
	// Asks is the error about a parameter without which it cannot run.
	Asks    string           `json:"asks,omitempty"`
	Lacks   string           `json:"lacks,omitempty"`
	LeftOut []result.LeftOut `json:"left_out,omitempty"`
}

// requirements is what the runs that a name stands for lack.
func requirements(h *host.Host, e *bench.Experiment) (out here) {
	plans, err := bench.NewPlans(bench.Choice{Experiment: e}, lists())
	if err != nil {
		out.Asks = contain.OneLine(err)
		return out
	}
	for _, p := range plans {
		left, lacks := p.DropLacking(h)
		out.LeftOut, err = left, errors.Join(err, lacks)
	}
	if err != nil {
		out.Lacks = strings.TrimPrefix(contain.OneLine(err), "missing on this machine: ")
	}
	return out
}

func catalogue(h *host.Host) (listing, error) {
	var l listing
	for _, w := range workloads.All {
		defaults, err := bench.Complete("workload "+w.Name, w.Params, nil)
		if err != nil {
			return l, err
		}
		x := listedWorkload{Name: w.Name, Doc: w.Doc, Version: w.Version, Primary: w.Primary(defaults).Name, Params: params(w.Params), Sweep: w.Sweep,
			here: requirements(h, &bench.Experiment{Name: w.Name, Workload: w.Name})}
		for _, d := range w.Metrics(defaults) {
			x.Metrics = append(x.Metrics, result.Describe(d))
		}
		for _, t := range w.Tools {
			if t.With == nil || t.With(defaults) {
				x.Tools = append(x.Tools, t.Command)
			}
		}
		l.Workloads = append(l.Workloads, x)
	}
	for _, f := range experiments.Files.List() {
		e, err := experiment(strings.TrimSuffix(f, ".yaml"))
		if err != nil {
			return l, err
		}
		l.Experiments = append(l.Experiments, listedExperiment{strings.TrimSuffix(f, ".yaml"), e.Doc, e.Source, e.Corrects, e.Workload, e.Environments, requirements(h, e)})
	}
	for _, x := range launchers.All {
		listed := listedLauncher{Name: x.Name, Doc: x.Doc, Params: params(x.Params)}
		defaults, err := bench.Complete("launcher "+x.Name, x.Params, nil)
		if err == nil {
			err = x.Check(h, defaults)
		}
		switch {
		case errors.Is(err, bench.ErrAsks):
			listed.Asks = contain.OneLine(err)
		case err != nil:
			listed.Lacks = strings.TrimPrefix(contain.OneLine(err), "missing on this machine: ")
		}
		l.Launchers = append(l.Launchers, listed)
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

// named selects the entries with these names, the experiments whose names begin with one of them and "-", and those that answer a published
// document.
func (l listing) named(names []string) (listing, error) {
	wanted := map[string]bool{}
	for _, n := range names {
		answers, err := experimentsOfSource(n)
		if err != nil {
			return l, err
		}
		found := n == platformSuite || slices.ContainsFunc(l.Workloads, func(x listedWorkload) bool { return x.Name == n }) ||
			slices.ContainsFunc(l.Launchers, func(x listedLauncher) bool { return x.Name == n })
		for _, x := range l.Experiments {
			if x.Name == n || strings.HasPrefix(x.Name, n+"-") || slices.Contains(answers, x.Name) {
				found, wanted[x.Name] = true, true
			}
		}
		if !found {
			return l, fmt.Errorf("nothing is called %q; see `teescope bench list`", n)
		}
		wanted[n] = true
	}
	l.Platform = l.Platform || wanted[platformSuite]
	l.Workloads = slices.DeleteFunc(l.Workloads, func(x listedWorkload) bool { return !wanted[x.Name] })
	l.Experiments = slices.DeleteFunc(l.Experiments, func(x listedExperiment) bool { return !wanted[x.Name] })
	l.Launchers = slices.DeleteFunc(l.Launchers, func(x listedLauncher) bool { return !wanted[x.Name] })
	return l, nil
}

// overview prints a line for each thing, and the experiments by the first part of their
// names, as many to a line as fit.
func (l listing) overview(w io.Writer) {
	line := func(name, doc string, x here) {
		doc, _, _ = strings.Cut(doc, ". ")
		doc, _, _ = strings.Cut(doc, ": ")
		switch {
		case x.Asks != "":
			doc += "; needs a parameter"
		case x.Lacks != "":
			doc = "not here: " + x.Lacks
		}
		fmt.Fprintf(w, "  %-14s %s\n", name, strings.TrimSuffix(cut(doc, 110), "."))
	}
	fmt.Fprint(w, "WORKLOADS: what is measured (teescope bench run NAME --env LAUNCHER --env LAUNCHER)\n\n")
	for _, x := range l.Workloads {
		line(x.Name, x.Doc, x.here)
	}
	line(platformSuite, "A fixed suite that characterizes this machine", here{})
	fmt.Fprint(w, "\nEXPERIMENTS: workloads with parameters and environments (teescope bench run NAME)\n\n")
	var cards []string
	of := map[string][]string{}
	for _, x := range l.Experiments {
		card, _, _ := strings.Cut(x.Name, "-")
		if of[card] == nil {
			cards = append(cards, card)
		}
		mark := ""
		switch {
		case x.Lacks != "":
			mark = "!"
		case len(x.LeftOut) > 0:
			mark = "*"
		}
		of[card] = append(of[card], x.Name+mark)
	}
	text := ""
	add := func(gap, words string, least int) {
		if text != "" && len(text)+len(gap)+least > 110 {
			fmt.Fprintf(w, "  %s\n", text)
			text = ""
		}
		if text != "" {
			text += gap
		}
		text += words
	}
	for _, card := range cards { // on one line if it fits, next to others
		whole := len(strings.Join(of[card], "  "))
		for i, name := range of[card] {
			if i == 0 {
				add("     ", name, whole)
			} else {
				add("  ", name, len(name))
			}
		}
	}
	fmt.Fprintf(w, "  %s\n", text)
	fmt.Fprint(w, "\n  * without some of the environments here   ! cannot run here\n")
	fmt.Fprint(w, "\nLAUNCHERS: where a workload runs (--env [LABEL=]LAUNCHER[,K=V]...)\n\n")
	for _, x := range l.Launchers {
		line(x.Name, x.Doc, x.here)
	}
	fmt.Fprint(w, "\n`teescope bench list NAME` shows the parameters and sources of NAME, and what is missing on this machine.\n")
}

// cut shortens a text to n characters.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return text
}

func (x here) print(w io.Writer) {
	if x.Asks != "" {
		fmt.Fprintf(w, "  needs a parameter: %s\n", x.Asks)
	}
	if x.Lacks != "" {
		fmt.Fprintf(w, "  cannot run here: %s\n", x.Lacks)
	}
	for _, left := range x.LeftOut {
		fmt.Fprintf(w, "  runs here without %s: %s\n", left.Env, contain.OneLine(errors.New(left.Why)))
	}
}

func (l listing) print(w io.Writer) {
	if l.Platform {
		fmt.Fprintf(w, "%s: a fixed suite that characterizes this machine, as one table, in pairs of runs on this machine alone:\n", platformSuite)
		for _, x := range components {
			fmt.Fprintf(w, "  %s (workload %s)\n", x.name, x.workload)
		}
		fmt.Fprintln(w)
	}
	if len(l.Workloads) > 0 {
		fmt.Fprint(w, "WORKLOADS: what is measured\n\n")
	}
	for _, x := range l.Workloads {
		fmt.Fprintf(w, "%s: %s\n  verdict on %s\n", x.Name, x.Doc, x.Primary)
		if len(x.Tools) > 0 {
			fmt.Fprintf(w, "  needs %s\n", strings.Join(x.Tools, ", "))
		}
		x.here.print(w)
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
		x.here.print(w)
		if x.Source != "" {
			fmt.Fprintf(w, "  from: %s\n", x.Source)
		}
		if x.Corrects != "" {
			fmt.Fprintf(w, "  differs from the source, and why: %s\n", x.Corrects)
		}
		fmt.Fprintln(w)
	}
	if len(l.Launchers) > 0 {
		fmt.Fprint(w, "LAUNCHERS: where a workload runs (--env [LABEL=]LAUNCHER[,K=V]...)\n\n")
	}
	for _, x := range l.Launchers {
		fmt.Fprintf(w, "%s: %s\n", x.Name, x.Doc)
		x.here.print(w)
		printParams(w, x.Params)
		fmt.Fprintln(w)
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

// lists are the workloads and launchers that plans are made of.
func lists() bench.Lists {
	read := map[string]*bench.Launcher{} // one file is one launcher, however often it is named
	return bench.Lists{Workloads: workloads.All, Launchers: launchers.All, File: func(path string) (*bench.Launcher, error) {
		if l := read[path]; l != nil {
			return l, nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		l, err := launchers.FromFile(path, b)
		if err == nil {
			read[path] = l
		}
		return l, err
	}}
}

// experiment reads an experiment file, finds a built-in one by name, or makes one
// from a workload's name.
func experiment(name string) (*bench.Experiment, error) {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return bench.LoadExperiment(name, b)
	}
	if _, err := lists().Workload(name); err == nil {
		return &bench.Experiment{Name: name, Workload: name}, nil
	}
	b, err := experiments.Files.ReadFile(name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		if answers, err := experimentsOfSource(name); err == nil && answers != nil {
			return nil, fmt.Errorf("%q is a published document, not an experiment; `teescope reproduce run %s` runs the experiments for its tables, and `teescope bench list %s` lists these experiments", name, name, name)
		}
		return nil, fmt.Errorf("no workload or experiment %q; `teescope bench list` shows what there is", name)
	}
	if err != nil {
		return nil, err
	}
	return bench.LoadExperiment(name, b)
}

// platformSuite is the name of the suite that characterizes a machine.
const platformSuite = "platform"

// component is one line of the suite's table.
type component struct {
	name, workload string
	params         bench.Params
	// insight says what the value means, by simple arithmetic.
	insight func(v float64) string
}

var components = []component{
	{"CPU, one thread", "cpu-7zip", bench.Params{"threads": "1"}, nil},
	{"CPU, all threads", "cpu-7zip", bench.Params{"threads": strconv.Itoa(runtime.NumCPU())}, nil},
	{"memory latency", "memory", bench.Params{"access": "latency", "size": "64MiB"}, func(v float64) string {
		return fmt.Sprintf("a core does %s loads a second if every load misses its caches", metric.Value(1/v, ""))
	}},
	{"memory copy, one core", "memory", bench.Params{"access": "copy", "size": "64MiB"}, nil},
	{"kernel entry", "syscall", bench.Params{"mechanism": "null"}, func(v float64) string {
		return fmt.Sprintf("100,000 calls a second cost %s before they do any work", metric.Value(v*1e5, "cores"))
	}},
	{"clock", "syscall", bench.Params{"mechanism": "vdso"}, func(v float64) string {
		return fmt.Sprintf("100,000 readings a second cost %s", metric.Value(v*1e5, "cores"))
	}},
	{"page fault", "syscall", bench.Params{"mechanism": "fault"}, func(v float64) string {
		return fmt.Sprintf("touching 1 GiB for the first time takes %s", metric.Value(v*(1<<30)/4096, "seconds"))
	}},
	{"wake-up, same CPU", "wakeup", bench.Params{"mechanism": "futex", "placement": "same"}, nil},
	{"wake-up, other CPU", "wakeup", bench.Params{"mechanism": "futex", "placement": "cross"}, nil},
	{"start-up", "startup", bench.Params{}, func(v float64) string {
		return fmt.Sprintf("at most %s starts a second, one after the other", metric.Value(1/v, ""))
	}},
	{"storage, 4 KiB random read", "fio", bench.Params{"rw": "randread", "bs": "4KiB", "iodepth": "1"}, nil},
	{"storage, sequential read", "fio", bench.Params{"rw": "read", "bs": "1MiB", "iodepth": "32"}, nil},
	{"network, TCP over a veth pair", "iperf", bench.Params{"streams": "1", "measure": "5s"}, nil},
	{"data server, Redis GET", "redis", bench.Params{"connections": "8", "keys": "100000", "measure": "5s"}, nil},
	{"gateway, TLS on kept connections", "gateway", bench.Params{"connections": "8", "measure": "5s"}, nil},
	{"channel, echo of 384 KiB", "channel", bench.Params{"measure": "echo"}, nil},
	{"channel, sealed stream", "channel", bench.Params{"measure": "stream"}, nil},
	{"attestation, verification", "attest", bench.Params{"operation": "verify-cached", "connections": "1", "measure": "5s"}, nil},
	{"GPU, matrices in BF16", "gpu-gemm", bench.Params{"dtype": "bf16"}, nil},
	{"GPU, its own memory", "gpu-copy", bench.Params{"direction": "device"}, nil},
	{"GPU, copy to it", "gpu-copy", bench.Params{"direction": "to-device"}, nil},
	{"GPU, launch and wait", "gpu-launch", bench.Params{}, func(v float64) string {
		return fmt.Sprintf("at most %s steps a second that wait for their kernel", metric.Value(1/v, ""))
	}},
}
