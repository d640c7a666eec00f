package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// summary returns a section with a line for each primary comparison of several experiments.
func summary(doc Document) Section {
	s := Section{ID: "summary", Title: "At a glance"}
	t := newTable("Verdicts", "workload", "metric", "arms", "case", "cost [interval]", "grade", "verdict")
	for _, e := range doc.Experiments {
		for _, c := range primaries(e) {
			t.add(Text(doc.nameOf(e), "unnamed"), Text(e.Label(c.Metric), "unnamed"), Text(armsText(c), ""), Text(c.Case, "unnamed"), interval(e, c), gradeCell(c), verdictCell(c))
		}
		if len(primaries(e)) == 0 {
			why := whyNothing(e)
			t.add(Text(doc.nameOf(e), "unnamed"), Text(e.Label(primary(e)), why), Missing(why), Missing(why), Missing(why), Text(string(e.Design.Grade), "not graded"), Missing(why))
		}
	}
	s.Facts = t.lift("arms", "case", "grade")
	s.Tables = append(s.Tables, t.align())
	return s
}

// A column of the platform table is an environment of an experiment.
type column struct {
	e   *result.Experiment
	env *result.Environment
}

// platforms compares three or more environments side by side, with their identity in the head of the table.
func platforms(doc Document) []Section {
	var cols []column
	for _, e := range doc.Experiments {
		for i := range e.Environments {
			v := &e.Environments[i]
			at := slices.IndexFunc(cols, func(c column) bool { return alike(c.env, v) })
			if at < 0 {
				own := *v
				own.Software.Worker, own.Software.Versions = map[string]string{}, map[string]string{}
				at, cols = len(cols), append(cols, column{e, &own})
			}
			maps.Copy(cols[at].env.Software.Worker, v.Software.Worker) // each workload brings its own
			maps.Copy(cols[at].env.Software.Versions, v.Software.Versions)
		}
	}
	if len(cols) < 3 && (len(cols) < 2 || len(doc.Prices) == 0) { // the differences tell two apart; prices need the table
		return nil
	}
	s := Section{ID: "platforms", Title: "Platforms", Lead: "Each environment, with the primary metric of each workload (medians)."}
	t := newTable("Platforms", "")
	t.Alike = true
	t.Columns[0] = "environment"
	for _, c := range cols {
		t.Columns = append(t.Columns, armTitle(c.env))
		t.Numbers = append(t.Numbers, false)
	}
	row := func(name string, cell func(column) Cell) {
		cells := []Cell{{Text: name}}
		for _, c := range cols {
			cells = append(cells, cell(c))
		}
		t.add(cells...)
	}
	for _, f := range identity {
		row(f.name, func(c column) Cell { return f.cell(c.e, c.env) })
		if same(t.Rows[len(t.Rows)-1][1:]) {
			s.Facts = append(s.Facts, Fact{f.name + " of all", reasoned(t.Rows[len(t.Rows)-1][1])})
			t.Rows = t.Rows[:len(t.Rows)-1]
		}
	}
	for _, e := range doc.Experiments {
		for _, kase := range plottedCases(e) {
			primary := primary(e)
			name := e.Label(primary) + inCase(e, kase)
			if len(doc.Experiments) > 1 {
				name = doc.nameOf(e) + ": " + name
			}
			here := func(cell func(*result.Environment) Cell) func(column) Cell {
				return func(c column) Cell {
					i := slices.IndexFunc(e.Environments, func(v result.Environment) bool { return alike(c.env, &v) })
					if i < 0 {
						return Cell{Text: "not run"}
					}
					return cell(&e.Environments[i])
				}
			}
			row(name, here(func(v *result.Environment) Cell {
				m, _, why := Median(e, v.ID, kase, primary)
				return ValueOrMissing(m, unitOf(e, primary), why)
			}))
			row(name+", cost", here(func(v *result.Environment) Cell { return costAgainstBase(e, v.ID, kase, primary) }))
			if len(doc.Prices) > 0 {
				row(name+", work per money", here(func(v *result.Environment) Cell { return worth(doc, e, v, kase, primary) }))
			}
			if e.Design.Kind != result.Unpaired {
				continue
			}
			for _, d := range secondaryMetrics(e) {
				s.Lead = "Each environment: medians of the primary metrics, and all others with the 95 % interval of their centre (Hodges and Lehmann)."
				row(e.Label(d.Name)+inCase(e, kase), here(func(v *result.Environment) Cell { return centre(e, v.ID, kase, d) }))
			}
		}
	}
	s.Tables = append(s.Tables, t)
	for _, p := range doc.Prices {
		s.Facts = append(s.Facts, Fact{"Price of " + p.Name, priceText(p)})
	}
	for _, e := range doc.Experiments {
		if e.Design.Grade == result.GradeD {
			s.Notes = append(s.Notes, Remark{Mark: "!", Level: "warning", Name: "grade D", Text: "The hosts differ. These are platform differences; none is the overhead of a TEE.", Help: "Run the same job with the TEE on and off on one host."})
			break
		}
	}
	return []Section{s}
}

// alike reports whether two arms of one name are one platform. Their fingerprints may differ in what depends on the workload:
// the versions of the tools that each needs, and the path of its requests. Machines without an id may be two.
func alike(a, b *result.Environment) bool {
	if a.ID != b.ID || a.Fingerprint == b.Fingerprint {
		return a.ID == b.ID
	}
	for tool, v := range a.Software.Versions {
		if w, both := b.Software.Versions[tool]; both && w != v {
			return false
		}
	}
	text := func(e *result.Environment) [9]string {
		hw, sw := &e.Hardware, &e.Software
		return [9]string{hw.Serial, hw.Microcode, hw.Governor, hw.SMT, sw.Kernel, sw.Cmdline, sw.OS, sw.Libc, sw.ClockSource}
	}
	return a.Hardware.Serial != "" && a.Class != "" && a.Class == b.Class && text(a) == text(b) && maps.Equal(a.Params, b.Params) && maps.Equal(a.TEE.Settings, b.TEE.Settings)
}

// secondaryMetrics are the metrics with a direction besides the primary one: first what compares things of one run, such as a channel
// with a plain transport, because in these the machine cancels.
func secondaryMetrics(e *result.Experiment) []result.MetricDesc {
	var ratios, others []result.MetricDesc
	for _, d := range e.Workload.Metrics {
		switch {
		case d.Name == primary(e) || d.Better != "lower" && d.Better != "higher":
		case strings.Contains(d.Name, "_over_"):
			ratios = append(ratios, d)
		default:
			others = append(others, d)
		}
	}
	return append(ratios, others...)
}

// centre is the centre of a metric's runs with its 95 % interval (Hodges and Lehmann, signed ranks).
func centre(e *result.Experiment, env, kase string, d result.MetricDesc) Cell {
	good, _ := readings(e, env, kase, d.Name)
	if len(good) == 0 {
		_, _, why := Median(e, env, kase, d.Name)
		return Missing(why)
	}
	v := values(good)
	cell := Cell{Text: metric.Value(stats.HodgesLehmann(v), d.Unit), Number: true}
	if low, high, ok := stats.Centre(v, 0.95); ok {
		cell.Text += fmt.Sprintf(" [%s, %s]", metric.Value(low, d.Unit), metric.Value(high, d.Unit))
	}
	return cell
}

func same(cells []Cell) bool {
	return !slices.ContainsFunc(cells, func(c Cell) bool { return c != cells[0] })
}

// reasoned returns a cell's text, with the reason if it is missing.
func reasoned(c Cell) string {
	if c.Reason != "" {
		return c.Text + ": " + c.Reason
	}
	return c.Text
}

func costAgainstBase(e *result.Experiment, env, kase, name string) Cell {
	if len(e.Environments) > 0 && e.Environments[0].ID == env {
		return Cell{Text: "baseline"}
	}
	base := ""
	if len(e.Environments) > 0 {
		base = e.Environments[0].ID
	}
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if c.Treatment == env && c.Baseline == base && c.Case == kase && c.Metric == name {
			out := interval(e, c)
			if out.Reason == "" {
				out.Mark, out.Kind = appearanceOf(c).mark, kind(c)
			}
			return out
		}
	}
	return Missing("not compared with " + orDefault(base, "a baseline"))
}

// worth returns the work per currency unit: a rate times an hour, or an hour divided by a time, divided by the price
// of the hour.
func worth(doc Document, e *result.Experiment, v *result.Environment, kase, name string) Cell {
	at := slices.IndexFunc(doc.Prices, func(p Price) bool {
		return p.Name == v.ID || strings.HasPrefix(v.ID, p.Name+"/") || v.Cloud != nil && p.Name == v.Cloud.InstanceType
	})
	if at < 0 {
		return Missing("no price was given for this environment")
	}
	p := doc.Prices[at]
	if p.PerHour <= 0 || !finite(p.PerHour) {
		return Missing("its price is not above 0")
	}
	m, _, why := Median(e, v.ID, kase, name)
	if m == nil {
		return Missing(why)
	}
	unit := unitOf(e, name)
	switch rate, isRate := strings.CutSuffix(unit, "_per_second"); {
	case isRate:
		return Cell{Text: metric.Value(*m*3600/p.PerHour, rate) + "/" + p.Currency, Number: true}
	case unit == "seconds" && *m > 0:
		return Cell{Text: metric.Value(3600 / *m / p.PerHour, "runs") + "/" + p.Currency, Number: true}
	}
	return Missing("a metric in " + orDefault(metric.Words(unit), "no unit") + " is not an amount of work")
}

func priceText(p Price) string {
	return fmt.Sprintf("%s %s per hour on %s (%s)", strconv.FormatFloat(p.PerHour, 'f', -1, 64), p.Currency, orDefault(p.Date, "an unknown date"), orDefault(p.Source, "no source given"))
}

// identity lists the fields that identify a platform.
var identity = []struct {
	name string
	cell func(*result.Experiment, *result.Environment) Cell
}{
	{"launcher", func(_ *result.Experiment, v *result.Environment) Cell {
		return environmentCell(v, "launcher", v.Launcher)
	}},
	{"CPU", func(_ *result.Experiment, v *result.Environment) Cell {
		return environmentCell(v, "hardware.cpu_model", v.Hardware.CPUModel)
	}},
	{"vCPU", func(_ *result.Experiment, v *result.Environment) Cell {
		return positive(v, "hardware.cpus", float64(v.Hardware.CPUs), "")
	}},
	{"memory", func(_ *result.Experiment, v *result.Environment) Cell {
		return positive(v, "hardware.memory_bytes", float64(v.Hardware.MemoryBytes), "bytes")
	}},
	{"security", func(_ *result.Experiment, v *result.Environment) Cell { return security(v) }},
	{"kernel", func(_ *result.Experiment, v *result.Environment) Cell {
		return environmentCell(v, "software.kernel", v.Software.Kernel)
	}},
	{"hypervisor", func(_ *result.Experiment, v *result.Environment) Cell {
		return environmentCell(v, "software.hypervisor", v.Software.Hypervisor)
	}},
	{"toolchain", func(_ *result.Experiment, v *result.Environment) Cell {
		return environmentCell(v, "software.worker", pairsText(v.Software.Worker))
	}},
	{"instance", func(_ *result.Experiment, v *result.Environment) Cell {
		if v.Cloud == nil {
			return environmentCell(v, "cloud", map[bool]string{true: "no known cloud"}[v.Missing["cloud"] == ""])
		}
		return environmentCell(v, "cloud.instance_type", strings.TrimSpace(v.Cloud.Provider+" "+v.Cloud.InstanceType+" "+orDefault(v.Cloud.Zone, v.Cloud.Region)))
	}},
	{"date", func(e *result.Experiment, v *result.Environment) Cell {
		for i := range e.Runs {
			if r := &e.Runs[i]; r.Env == v.ID && !r.StartedAt.IsZero() {
				return Cell{Text: r.StartedAt.UTC().Format("2006-01-02")}
			}
		}
		if e.StartedAt.IsZero() {
			return Missing("the document has no start")
		}
		return Cell{Text: e.StartedAt.UTC().Format("2006-01-02")}
	}},
}

// environmentCell returns a field of an environment, or missing with the reason.
func environmentCell(v *result.Environment, path, value string) Cell {
	if strings.TrimSpace(value) == "" || v.Missing[path] != "" && value == "unknown" {
		return Missing(v.Missing[path])
	}
	return Cell{Text: value}
}

// positive returns a field for which 0 means that it could not be read.
func positive(v *result.Environment, path string, n float64, unit string) Cell {
	if n <= 0 {
		return Missing(v.Missing[path])
	}
	return Cell{Text: metric.Value(n, unit), Number: true}
}

func security(v *result.Environment) Cell {
	switch t := &v.TEE; {
	case t.Type == "" || t.Type == "unknown":
		return Missing(v.Missing["tee.type"])
	case t.Type == "none":
		return Cell{Text: "no TEE"}
	default:
		s := t.Type
		if !t.Active {
			s += ", not active"
		}
		switch {
		case t.Declared:
			s += ", declared by the launcher, not seen from inside"
		case t.Active:
			s += ", detected from inside"
		}
		if t.Debug {
			s += ", debug: not protected"
		}
		return Cell{Text: s}
	}
}

// environments describes each arm.
func environments(e *result.Experiment) Section {
	s := Section{ID: "environments", Title: "Environments", Detail: true}
	if len(e.Environments) == 0 {
		return s
	}
	cols := []string{"field"}
	for i := range e.Environments {
		cols = append(cols, orDefault(e.Environments[i].ID, "unnamed"))
	}
	t := newTable("Environments", cols...)
	row := func(name string, cell func(*result.Environment) Cell) {
		cells := []Cell{{Text: name}}
		for i := range e.Environments {
			cells = append(cells, cell(&e.Environments[i]))
		}
		t.add(cells...)
	}
	for _, f := range identity {
		row(f.name, func(v *result.Environment) Cell { return f.cell(e, v) })
	}
	for _, f := range []struct {
		name, path string
		value      func(*result.Environment) string
	}{
		{"microcode", "hardware.microcode", func(v *result.Environment) string { return v.Hardware.Microcode }},
		{"governor", "hardware.governor", func(v *result.Environment) string { return v.Hardware.Governor }},
		{"SMT", "hardware.smt", func(v *result.Environment) string { return v.Hardware.SMT }},
		{"operating system", "software.os", func(v *result.Environment) string { return v.Software.OS }},
		{"kernel command line", "software.cmdline", func(v *result.Environment) string { return v.Software.Cmdline }},
		{"clock source", "software.clock_source", func(v *result.Environment) string { return v.Software.ClockSource }},
		{"page cache", "software.page_cache_policy", func(v *result.Environment) string { return v.Software.CachePolicy }},
		{"versions", "software.versions", func(v *result.Environment) string { return pairsText(v.Software.Versions) }},
		{"TEE settings", "tee.settings", func(v *result.Environment) string { return pairsText(v.TEE.Settings) }},
		{"launcher parameters", "params", func(v *result.Environment) string { return pairsText(v.Params) }},
		{"fingerprint", "fingerprint", func(v *result.Environment) string { return brief(v.Fingerprint) }},
	} {
		if slices.ContainsFunc(e.Environments, func(v result.Environment) bool { return f.value(&v) != "" || v.Missing[f.path] != "" }) {
			row(f.name, func(v *result.Environment) Cell { return environmentCell(v, f.path, f.value(v)) })
		}
	}
	s.Tables = append(s.Tables, t)
	return s
}
