package formats

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

var openmetrics = &report.Format{
	Name:  "openmetrics",
	Doc:   "OpenMetrics 1.0 text with the prefix teescope_bench_, to draw next to the monitor's series. teescope_bench_missing names missing values.",
	Print: writeOpenMetrics,
}

// Labels are few on purpose: the properties of an environment are given once, in teescope_bench_environment_info, to
// be joined by experiment and env.
func writeOpenMetrics(w io.Writer, doc report.Document) error {
	x := &exposition{}
	for _, e := range doc.Experiments {
		x.experiment(e)
	}
	return x.write(w)
}

// exposition collects series by family, because the format groups them by family.
type exposition struct{ families []*family }

type family struct {
	name, kind, unit, help string
	lines                  []string
	seen                   map[string]bool
}

type labels []string // name, value, name, value, …

func (x *exposition) family(name, kind, unit, help string) *family {
	for _, f := range x.families {
		if f.name == name {
			return f
		}
	}
	f := &family{name: name, kind: kind, unit: unit, help: help, seen: map[string]bool{}}
	x.families = append(x.families, f)
	return f
}

// add adds a series, unless it is there already.
func (f *family) add(suffix string, l labels, v float64) {
	series := f.name + suffix + l.String()
	if f.seen[series] {
		return
	}
	f.seen[series] = true
	f.lines = append(f.lines, series+" "+strconv.FormatFloat(v, 'g', -1, 64))
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace

func (l labels) String() string {
	var b strings.Builder
	for i := 0; i < len(l); i += 2 {
		fmt.Fprintf(&b, `%s%s="%s"`, map[bool]string{true: "{", false: ","}[i == 0], l[i], escapeLabel(strings.ToValidUTF8(l[i+1], "\uFFFD")))
	}
	return b.String() + "}"
}

func (x *exposition) write(w io.Writer) error {
	var b strings.Builder
	for _, f := range x.families {
		if len(f.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# TYPE %s %s\n", f.name, f.kind)
		if f.unit != "" {
			fmt.Fprintf(&b, "# UNIT %s %s\n", f.name, f.unit)
		}
		fmt.Fprintf(&b, "# HELP %s %s\n%s\n", f.name, f.help, strings.Join(f.lines, "\n"))
	}
	b.WriteString("# EOF\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const prefix = "teescope_bench"

func (x *exposition) experiment(e *result.Experiment) {
	id := word(e.ID)
	base := labels{"experiment", id, "workload", word(e.Workload.Name)}
	version := missingWord
	if e.Workload.Version > 0 {
		version = strconv.Itoa(e.Workload.Version)
	}
	x.family(prefix, "info", "", "What was measured, and how.").add("_info",
		append(base[:4:4], "name", word(e.Name), "workload_version", version, "design", word(string(e.Design.Kind)), "grade", word(string(e.Design.Grade)), "primary_metric", word(e.Design.Primary), "tool", word(e.Tool.Name), "tool_version", word(e.Tool.Version)), 1)
	for i := range e.Environments {
		x.environment(id, &e.Environments[i])
	}
	x.runs(e, base)
	for _, kase := range report.CaseIDs(e) {
		for i := range e.Environments {
			for _, d := range e.Workload.Metrics {
				x.values(e, append(base[:4:4], "case", word(kase), "env", word(e.Environments[i].ID), "metric", word(d.Name)), e.Environments[i].ID, kase, d)
			}
		}
	}
	for i := range e.Comparisons {
		x.comparison(e, &e.Comparisons[i], base)
	}
	for i := range e.Guards {
		g := &e.Guards[i]
		x.family(prefix+"_guard", "gauge", "", "A guard that warned or refused: 1.").add("",
			append(base[:4:4], "guard", word(g.ID), "level", word(string(g.Level)), "case", orDefault(g.Case, "all"), "treatment", orDefault(g.Treatment, "all"), "metric", orDefault(g.Metric, "all")), 1)
	}
}

func (x *exposition) environment(id string, v *result.Environment) {
	instance := missingWord
	if v.Cloud != nil {
		instance = word(v.Cloud.InstanceType)
	}
	fingerprint, _ := strings.CutPrefix(v.Fingerprint, "sha256:")
	x.family(prefix+"_environment", "info", "", "What an environment is.").add("_info", labels{
		"experiment", id, "env", word(v.ID), "role", word(string(v.Role)), "launcher", word(v.Launcher), "tee", word(v.TEE.Type), "tee_active", strconv.FormatBool(v.TEE.Active),
		"tee_debug", strconv.FormatBool(v.TEE.Debug), "cpu", word(v.Hardware.CPUModel), "kernel", word(v.Software.Kernel), "hypervisor", word(v.Software.Hypervisor), "instance_type", instance,
		"fingerprint", word(fingerprint[:min(12, len(fingerprint))])}, 1)
}

func (x *exposition) runs(e *result.Experiment, base labels) {
	f := x.family(prefix+"_runs", "gauge", "", "Runs by outcome.")
	for i := range e.Environments {
		for _, s := range []result.Status{result.OK, result.Failed, result.Excluded} {
			n := 0
			for j := range e.Runs {
				if e.Runs[j].Env == e.Environments[i].ID && e.Runs[j].Status == s {
					n++
				}
			}
			f.add("", append(base[:4:4], "env", word(e.Environments[i].ID), "status", string(s)), float64(n))
		}
	}
}

// values adds the smallest, the median and the largest of the runs that count, and the histogram of all their
// observations if the runs have one.
func (x *exposition) values(e *result.Experiment, l labels, env, kase string, d result.MetricDesc) {
	m, _, why := report.Median(e, env, kase, d.Name)
	if m == nil {
		x.missing(l, why)
		return
	}
	unit := unitSuffix(d.Unit)
	f := x.family(prefix+"_run_value"+unit, "gauge", strings.TrimPrefix(unit, "_"), "Values of the runs, by statistic, in the unit of the name.")
	low, high := math.Inf(1), math.Inf(-1)
	var sum *result.Histogram
	mixed := false
	for i := range e.Runs {
		r := &e.Runs[i]
		v := r.Metric(d.Name)
		if r.Env != env || r.Case != kase || r.Status != result.OK || v == nil || v.Value == nil {
			continue
		}
		low, high = min(low, *v.Value), max(high, *v.Value)
		if v.Histogram != nil {
			mixed = !merge(&sum, v.Histogram) || mixed
		}
	}
	f.add("", append(l[:len(l):len(l)], "stat", "min"), low)
	f.add("", append(l[:len(l):len(l)], "stat", "median"), *m)
	f.add("", append(l[:len(l):len(l)], "stat", "max"), high)
	switch {
	case mixed:
		x.missing(append(l[:len(l):len(l)], "part", "histogram"), "the histograms of the runs have different bounds")
	case sum != nil:
		x.histogram(l, unit, sum)
	}
}

// merge adds a histogram to a sum of the same bounds.
func merge(sum **result.Histogram, h *result.Histogram) bool {
	if len(h.Counts) != len(h.Bounds)+1 {
		return false
	}
	if *sum == nil {
		*sum = &result.Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts), Sum: h.Sum}
		return true
	}
	if !slices.Equal((*sum).Bounds, h.Bounds) {
		return false
	}
	for i, n := range h.Counts {
		(*sum).Counts[i] += n
	}
	(*sum).Sum += h.Sum
	return true
}

func (x *exposition) histogram(l labels, unit string, h *result.Histogram) {
	f := x.family(prefix+"_run_distribution"+unit, "histogram", strings.TrimPrefix(unit, "_"), "All observations of the runs that are not excluded, in the unit of the name.")
	n := uint64(0)
	for i, c := range h.Counts {
		n += c
		le := "+Inf"
		if i < len(h.Bounds) {
			le = openMetricsFloat(h.Bounds[i])
		}
		f.add("_bucket", append(l[:len(l):len(l)], "le", le), float64(n))
	}
	f.add("_count", l, float64(n))
	f.add("_sum", l, h.Sum)
}

// openMetricsFloat returns the canonical form of a bound: a number with a point.
func openMetricsFloat(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eI") {
		s += ".0"
	}
	return s
}

func (x *exposition) comparison(e *result.Experiment, c *result.Comparison, base labels) {
	l := append(base[:4:4], "case", word(c.Case), "metric", word(c.Metric), "baseline", word(c.Baseline), "treatment", word(c.Treatment), "grade", word(string(c.Grade)))
	why := strings.Join(append(c.Reasons[:len(c.Reasons):len(c.Reasons)], guardText(e, c)...), "; ")
	for _, v := range []struct {
		name, help string
		value      *float64
	}{
		{"ratio", "Treatment divided by baseline, of the values as measured.", c.Ratio},
		{"ci_low_ratio", "Lower end of the interval of the ratio.", c.Low},
		{"ci_high_ratio", "Upper end of the interval of the ratio.", c.High},
		{"cost_ratio", "The ratio, inverted if needed so that above 1 is worse.", c.Cost},
		{"cost_ci_low_ratio", "Lower end of the interval of the cost ratio.", c.CostLow},
		{"cost_ci_high_ratio", "Upper end of the interval of the cost ratio.", c.CostHigh},
		{"minimum_detectable_effect_ratio", "Smallest change that the pairs would detect with 80 % power.", c.MDE},
		{"noise_floor_ratio", "Difference that this host shows between equal arms.", c.NoiseFloor},
	} {
		if floatWord(v.value) == missingWord {
			x.missing(append(l[:len(l):len(l)], "part", v.name), why)
			continue
		}
		x.family(prefix+"_"+v.name, "gauge", "ratio", v.help).add("", l, *v.value)
	}
	x.family(prefix+"_pairs", "gauge", "", "Pairs of runs behind a comparison.").add("", l, float64(c.Pairs))
	verdict := prefix + "_verdict"
	f := x.family(verdict, "stateset", "", "The verdict of a comparison.")
	for _, s := range []stats.Verdict{stats.Cost, stats.Gain, stats.Equivalent, stats.Inconclusive, stats.Invalid} {
		n := 0.0
		if c.Verdict == s {
			n = 1
		}
		f.add("", append(l[:len(l):len(l)], verdict, string(s)), n)
	}
}

func (x *exposition) missing(l labels, why string) {
	x.family(prefix+"_missing", "gauge", "", "An unavailable value: 1, with the reason.").add("", append(l[:len(l):len(l)], "reason", orNone(why)), 1)
}

// unitSuffix returns the ending of a family's name that its UNIT line demands.
func unitSuffix(unit string) string {
	if unit == "" || unit == "1" {
		return ""
	}
	return "_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(unit))
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
