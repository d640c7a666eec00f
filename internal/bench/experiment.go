package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// Experiment is an experiment file: a workload, what is varied, where it runs.
type Experiment struct {
	Name string `yaml:"name"`
	Doc  string `yaml:"doc"`
	// Source cites the origin of the parameters, Corrects says what is done differently
	// here, and why.
	Source   string            `yaml:"source"`
	Corrects string            `yaml:"corrects"`
	Workload string            `yaml:"workload"`
	Params   map[string]string `yaml:"params"`
	// Install says how to get the files that the parameters name, for the refusal where one
	// is missing.
	Install string `yaml:"install"`
	// Sweep gives a parameter several values; every combination is a case.
	Sweep map[string][]string `yaml:"sweep"`
	// Environments are arms in the notation of --env; the first is the baseline.
	Environments []string `yaml:"environments"`
	// StandsFor declares, by label, what environments stand in for where the real thing is not at hand ("tdx"). Their
	// numbers are then never called a cost.
	StandsFor map[string]string `yaml:"stands_for"`
	Pairs     int               `yaml:"pairs"`
	// NoCounters leaves the monitor's sources off, if they are what is measured.
	NoCounters bool `yaml:"no_counters"`
	// Primary names the metric of the verdict; "" is the workload's own.
	Primary string  `yaml:"primary"`
	Margin  Percent `yaml:"margin"`
	// Ceilings are the physical limits of devices and links, each with its source.
	Ceilings []result.Ceiling `yaml:"ceilings"`
	// References are published figures shown next to the result; they never affect the
	// verdict.
	References []result.Reference `yaml:"references"`
	// Then are experiments that follow, each with its own result.
	Then []Pass `yaml:"then"`
}

// Percent is a ratio written as 3% or 0.03.
type Percent float64

// ParsePercent reads a share between 0 and 1, written as 3% or 0.03.
func ParsePercent(s string) (float64, error) {
	num, pct := strings.CutSuffix(s, "%")
	v, err := metric.ParseNumber(num)
	if pct {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return 0, fmt.Errorf("%q: want a share like 3%% or 0.03", s)
	}
	return v, nil
}

// UnmarshalYAML reads the notation of ParsePercent.
func (p *Percent) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParsePercent(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: margin %w", n.Line, err)
	}
	*p = Percent(v)
	return nil
}

// LoadExperiment parses an experiment file; name is used in errors. Unknown keys are
// errors. NewPlan checks whether workload, launchers and parameters exist.
func LoadExperiment(name string, data []byte) (*Experiment, error) {
	var e Experiment
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	switch err := d.Decode(&e); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("experiment %s: the file is empty", name)
	case err != nil:
		return nil, fmt.Errorf("experiment %s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("experiment %s: a second document; want one experiment per file", name)
	}
	switch {
	case e.Name == "":
		return nil, fmt.Errorf("experiment %s: name is missing", name)
	case strings.ContainsAny(e.Name, "/ "):
		return nil, fmt.Errorf("experiment %s: name %q: want a name without spaces and slashes, because it names the result files", name, e.Name)
	case e.Workload == "":
		return nil, fmt.Errorf("experiment %s: workload is missing", name)
	case e.Pairs < 0:
		return nil, fmt.Errorf("experiment %s: pairs: %d: want 1 or more, or 0 for the default, %d", name, e.Pairs, StandardPairs)
	}
	for _, r := range e.References {
		if r.ID == "" || r.Citation == "" || r.Unit == "" || r.High < r.Low {
			return nil, fmt.Errorf("experiment %s: a reference needs id, citation and unit, and low must not be above high", name)
		}
	}
	for i := range e.Then {
		if err := e.Then[i].check(); err != nil {
			return nil, fmt.Errorf("experiment %s: %w", name, err)
		}
		if slices.ContainsFunc(e.Then[:i], func(t Pass) bool { return t.Name == e.Then[i].Name }) {
			return nil, fmt.Errorf("experiment %s: then: %s is given twice", name, e.Then[i].Name)
		}
	}
	for p, vs := range e.Sweep {
		if len(vs) == 0 {
			return nil, fmt.Errorf("experiment %s: sweep of %s has no values", name, p)
		}
		if _, twice := e.Params[p]; twice {
			return nil, fmt.Errorf("experiment %s: %s is in params and in sweep", name, p)
		}
		if i := duplicate(vs); i >= 0 {
			return nil, fmt.Errorf("experiment %s: sweep of %s has %q twice", name, p, vs[i])
		}
	}
	return &e, nil
}

// onlyCase is the id of the case of an experiment that varies nothing.
const onlyCase = "default"

func duplicate(vs []string) int {
	for i, v := range vs {
		if slices.Contains(vs[:i], v) {
			return i
		}
	}
	return -1
}

// cases are all combinations of a sweep over fixed parameters, the last
// parameter (by name) varying fastest, with the id of each.
func cases(params Params, sweep map[string][]string) (ids []string, all []Params) {
	names := make([]string, 0, len(sweep))
	for n := range sweep {
		names = append(names, n)
	}
	slices.Sort(names)
	ids, all = []string{""}, []Params{params}
	for _, n := range names {
		var nextIDs []string
		var next []Params
		for i, p := range all {
			for _, v := range sweep[n] {
				q := Params{n: v}
				for k, v := range p {
					q[k] = v
				}
				next = append(next, q)
				nextIDs = append(nextIDs, strings.TrimPrefix(ids[i]+","+n+"="+v, ","))
			}
		}
		ids, all = nextIDs, next
	}
	if len(names) == 0 {
		ids[0] = onlyCase
	}
	return ids, all
}
