package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// costs returns the section with the forest plot and the table of all comparisons.
func costs(e *result.Experiment, plots map[string][]Plot) Section {
	s := Section{ID: "costs", Title: "Cost ratios", Lead: "A cost ratio above 1 is worse, whether lower or higher values of the metric are better: at 1.25x the same work takes 1.25 times as long. A cost is the centre of the ratios of all pairs, so it can differ from the ratio of the medians.", Plots: plots["costs"]}
	if len(e.Comparisons) == 0 {
		s.Title, s.Lead = "Values", "Medians of the runs that are not excluded."
		if t := medians(e); len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
		return s
	}
	t := newTable("Comparisons", "metric", "case", "arms", "medians", "cost [interval]", "MDE", "pairs", "grade", "verdict")
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		name := Text(e.Label(c.Metric), "the comparison names no metric")
		if c.Primary {
			name.Text += " *"
		}
		t.add(name, Text(c.Case, "the comparison names no case"), Text(armsText(c), ""), mediansCell(e, c), interval(e, c),
			ValueOrMissing(c.MDE, "ratio", orDefault(firstReason(c), "not computed")),
			Cell{Text: strconv.Itoa(c.Pairs), Number: true}, gradeCell(c), verdictCell(c))
	}
	s.Facts = t.lift("case", "arms", "pairs", "grade")
	s.Tables = nonEmpty(t.align(), averageTable(e))
	return s
}

func armsText(c *result.Comparison) string {
	arms := orDefault(c.Treatment, "unnamed") + " against " + orDefault(c.Baseline, "unnamed")
	if isStandIn(c) {
		return "stand-in: " + arms
	}
	return arms
}

func mediansCell(e *result.Experiment, c *result.Comparison) Cell {
	unit := unitOf(e, c.Metric)
	b, t := ValueOrMissing(c.BaseMedian, unit, noRatio(c)), ValueOrMissing(c.TreatMedian, unit, noRatio(c))
	if b.Reason != "" && t.Reason != "" {
		return b
	}
	out := Cell{Text: joined(b.Text, " → ", t.Text), Number: true}
	if b.Reason != "" || t.Reason != "" {
		out.Reason = noRatio(c)
	} else {
		out.Raw = b.Raw + " → " + t.Raw
	}
	return out
}

// joined joins two values, with their unit once if both have the same.
func joined(a, sep, b string) string {
	if stem, unit, ok := strings.Cut(a, " "); ok && strings.HasSuffix(b, " "+unit) {
		a = stem
	}
	return a + sep + b
}

func verdictCell(c *result.Comparison) Cell {
	a := appearanceOf(c)
	out := Cell{Text: verdictWord(c), Mark: a.mark, Kind: kind(c)}
	if c.Material && !isPlatform(c) && !isStandIn(c) {
		out.Text += ", material"
	}
	return out
}

// kind returns the verdict as one word, for a style sheet.
func kind(c *result.Comparison) string {
	switch {
	case isStandIn(c):
		return "stand-in"
	case isPlatform(c):
		return "platform"
	case c.Verdict == "":
		return "none"
	}
	return string(c.Verdict)
}

// medians returns the medians of all metrics, for a document without comparisons.
func medians(e *result.Experiment) *Table {
	t := newTable("Medians", "metric", "case", "environment", "median", "runs")
	for _, d := range e.Workload.Metrics {
		for _, kase := range CaseIDs(e) {
			for i := range e.Environments {
				m, n, why := Median(e, e.Environments[i].ID, kase, d.Name)
				t.add(Text(e.Label(d.Name), "unnamed"), Text(kase, "unnamed"), Text(e.Environments[i].ID, "unnamed"), ValueOrMissing(m, d.Unit, why), countCell(n, why))
			}
		}
	}
	return t.align()
}

// runsSection returns the spread of the runs, drawn and in numbers.
func runsSection(e *result.Experiment, plots map[string][]Plot) Section {
	s := Section{ID: "runs", Title: "Runs", Lead: "Every run of each arm: spread, shape, and whether the machine drifted during the runs.", Plots: plots["runs"]}
	if t := spreadTable(e, plottedCases(e), primary(e)); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}

func countCell(n int, why string) Cell {
	if n == 0 {
		return Cell{Text: "none", Number: true, Reason: why}
	}
	return Cell{Text: strconv.Itoa(n), Number: true}
}

// whySection explains the costs: attribution and counters.
func whySection(doc Document, e *result.Experiment, plots map[string][]Plot) Section {
	s := Section{ID: "why", Title: "Why", Lead: "Counters of the monitor during the runs. A counter that changed with a cost is a hint, not a proof.", Plots: plots["counters"],
		Folded: len(e.Environments) > 2} // the verdicts have the causes
	if t := attribution(doc, e); len(t.Rows) > 0 {
		s.Lead += " Each system call is priced as an empty call, the minimum."
		s.Tables = append(s.Tables, t)
	}
	kase := tellingCase(e)
	t := counterTable(e, kase)
	if more := len(t.Rows) - mostRows; more > 0 {
		t.Rows = t.Rows[:mostRows]
		s.Facts = append(s.Facts, Fact{"Not shown", metric.Plural(more, "counter") + " that changed less; the document has them"})
	}
	if len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	if t := hostTable(e, kase); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}

// leastApart is the smallest share of a difference for which an explanation has a row of its own.
const leastApart = 0.01

// attribution returns the rows of the trees that explain the primary comparisons, and the unexplained rest. The table
// of counters has the others.
func attribution(doc Document, e *result.Experiment) *Table {
	t := newTable("What explains the difference", "arms", "case", "cause", "more per operation", "cost of one", "share")
	for _, c := range primaries(e) {
		tree := doc.Catalog.Compared(e, c)
		row := func(what string, cells ...Cell) {
			t.add(slices.Concat([]Cell{Text(armsText(c), ""), Text(c.Case, "unnamed"), {Text: what}}, cells)...)
		}
		none := Cell{Text: "–"}
		whole := func(a explain.Amount) Cell { return Cell{Text: share(a), Raw: fmt.Sprint(a.Value), Number: true} }
		small, sum := 0, 0.0
		for _, r := range tree.Rows {
			if math.Abs(r.Share.Value) < leastApart {
				small, sum = small+max(1, len(r.Rows)), sum+r.Share.Value
				continue
			}
			delta, each := Cell{Text: signed(r.Time.Value, "seconds"), Number: true}, none
			if r.Rate != nil {
				delta.Text = signed(r.Rate.Value, "")
			}
			if r.ID == result.Dearer {
				delta.Text = metric.Value(r.Rate.Value, "") // both arms have the same number
			}
			if r.Unit != nil {
				each = ValueOrMissing(&r.Unit.Value, "seconds", "")
				each.Text += intervalText(r.Unit.Amount)
			}
			row(r.Title, delta, each, whole(r.Share))
		}
		if small > 0 {
			row(metric.Plural(small, "other counter"), none, none, ValueOrMissing(&sum, "ratio", ""))
		}
		if len(tree.Rows) > 0 {
			row("unexplained", none, none, whole(tree.UnexplainedShare))
		}
	}
	t.lift("arms", "case")
	return t.align()
}

// share prints a share, with its interval where there is one.
func share(a explain.Amount) string {
	if a.Low == a.High {
		return metric.Percent(a.Value)
	}
	return metric.PercentOf(a.Value, a.Low, a.High)
}

// intervalText returns the interval of a cost in parentheses; "" without one.
func intervalText(a explain.Amount) string {
	if a.Low == a.High {
		return ""
	}
	return " (" + metric.Value(a.Low, "seconds") + " to " + metric.Value(a.High, "seconds") + ")"
}

// more returns the additional events or time of a row per operation, in words.
func more(r explain.Row) string {
	if r.Rate == nil { // a counter of time
		return signed(r.Time.Value, "seconds") + " per operation"
	}
	if r.ID != result.Dearer {
		return signed(r.Rate.Value, "") + " per operation"
	}
	text := fmt.Sprintf("%s per operation at %s more each%s", metric.Value(r.Rate.Value, ""), metric.Value(r.Unit.Value, "seconds"), intervalText(r.Unit.Amount))
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

// counterTable returns the counters of a case, the most changed first, and last those that counted nothing.
func counterTable(e *result.Experiment, kase string) *Table {
	cols := []string{"counter", "per", "of"}
	for i := range e.Environments {
		cols = append(cols, orDefault(e.Environments[i].ID, "unnamed"))
	}
	t := newTable("Counters", cols...)
	t.Long = true
	all := counters(e, kase)
	slices.SortStableFunc(all, func(a, b counted) int { return boolFirst(a.any(), b.any()) })
	for _, k := range all {
		row := []Cell{{Text: k.name()}, {Text: k.per}, Text(orDefault(scopeNames[k.scope], k.scope), "not recorded")}
		for _, a := range k.arms {
			row = append(row, k.cell(a, ""))
		}
		t.add(row...)
	}
	if len(all) > 0 && !slices.ContainsFunc(all, func(k counted) bool { return k.per != all[0].per }) {
		t.drop(slices.Index(t.Columns, "per"))
		t.Caption += " per " + all[0].per
	}
	t.Caption += inCase(e, kase)
	return t.align()
}

// scopeNames say whose events a counter counts.
var scopeNames = map[string]string{"process": "the workload", "machine": "the whole machine"}

// cell returns the value of a counter in an arm, or its limit if it is one.
func (c counted) cell(a arm, unit string) Cell {
	out := ValueOrMissing(a.value, unit, a.reason)
	if a.trust == result.Partial && a.value != nil {
		out.Text = c.limit() + out.Text
	}
	return out
}

// boolFirst orders true before false.
func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// harnessSection shows the cost of teescope itself in each environment.
func harnessSection(e *result.Experiment) Section {
	return Section{ID: "harness", Title: "What the harness itself costs", Lead: "The harness's own cost is not subtracted from any value.", Tables: nonEmpty(harnessTable(e)), Detail: true}
}

func nonEmpty(tables ...*Table) []*Table {
	return slices.DeleteFunc(tables, func(t *Table) bool { return len(t.Rows) == 0 })
}

// harnessTable returns the time to open each environment, of an empty run and of the first one, and the share of a
// core that counting used during the runs.
func harnessTable(e *result.Experiment) *Table {
	t := newTable("The harness's own cost", "environment", "time to open", "an empty run", "the first run, not counted", "counting, share of a core")
	for i := range e.Environments {
		v := &e.Environments[i]
		empty := Missing(orDefault(v.Missing["null_run_seconds"], "not measured, or the environment runs only its own programs"))
		if n := v.NullSeconds; n != nil {
			empty = Cell{Text: fmt.Sprintf("%s (%s)", metric.Value(n.Mean, "seconds"), joined(metric.Value(n.Min, "seconds"), " to ", metric.Value(n.Max, "seconds"))), Raw: fmt.Sprintf("mean %v, from %v to %v seconds, %s", n.Mean, n.Min, n.Max, metric.Plural(n.N, "run")), Number: true}
		}
		share, why := counting(e, v.ID)
		t.add(Text(v.ID, "unnamed"), ValueOrMissing(v.OpenSeconds, "seconds", orDefault(v.Missing["open_seconds"], "not timed")), empty,
			ValueOrMissing(v.FirstSeconds, "seconds", orDefault(v.Missing["first_run_seconds"], "it failed or was not timed")), ValueOrMissing(share, "ratio", why))
	}
	return t.align()
}

// counting returns the median, over the runs of an arm, of the CPU time that counting used per second; nil comes with
// the reason.
func counting(e *result.Experiment, env string) (share *float64, reason string) {
	var shares []float64
	for i := range e.Runs {
		r := &e.Runs[i]
		switch used := r.Interference.MonitorCPU; {
		case r.Env != env:
		case used == nil:
			reason = orDefault(reason, r.Interference.Missing["monitor_cpu_seconds"])
		case r.Seconds > 0 && finite(*used, r.Seconds):
			shares = append(shares, *used/r.Seconds)
		}
	}
	if len(shares) == 0 {
		return nil, orDefault(reason, "not measured")
	}
	m := stats.Median(shares)
	return &m, ""
}

// differences lists the fields in which arms differ: possible causes other than the TEE.
func differences(e *result.Experiment) Section {
	s := Section{ID: "differs", Title: "What differs between the environments", Lead: "All fields in which the compared arms differ. Each of these differences may be a cause.", Folded: true}
	var seen []string
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		arms := armsText(c)
		if slices.Contains(seen, arms) || len(c.Changed) == 0 {
			continue
		}
		seen = append(seen, arms)
		t := newTable(arms, "field", orDefault(c.Baseline, "baseline"), orDefault(c.Treatment, "treatment"))
		for _, d := range c.Changed {
			t.add(Text(d.Field, "unnamed"), Text(d.Baseline, "not recorded in this arm"), Text(d.Treatment, "not recorded in this arm"))
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

func guards(e *result.Experiment) Section {
	s := Section{ID: "guards", Title: "Warnings and refusals", Lead: "Reasons to refuse or to doubt a verdict, with what would help.", Folded: true}
	for i := range e.Guards {
		g := &e.Guards[i]
		mark, level := levelMark(g.Level)
		var scope []string
		for _, x := range []string{g.Case, g.Treatment, metric.Words(g.Metric)} {
			if x != "" {
				scope = append(scope, x)
			}
		}
		text := orDefault(g.Message, "the guard gave no message")
		if len(scope) > 0 {
			text = strings.Join(scope, ", ") + ": " + text
		}
		s.Notes = append(s.Notes, Remark{Mark: mark, Level: level, Name: g.ID, Text: text, Help: g.Help})
	}
	return s
}

func references(e *result.Experiment) Section {
	s := Section{ID: "published", Title: "Published figures", Lead: "Others measured these figures on other machines and with other methods. These figures do not affect the verdicts. The grey bands of the plot are published cost ratios."}
	if t := publishedTable(e); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}

// publishedTable lists the figures of the experiment and those that lie behind a comparison.
func publishedTable(e *result.Experiment) *Table {
	t := newTable("Published figures", "TEE", "workload", "figure", "kind", "source", "caveat")
	for _, r := range slices.Concat(e.References, publishedFor(e)) {
		t.add(Text(r.TEE, "the published reference names no TEE"), Text(r.Workload, "the published reference names no workload"), Text(figureOf(r), "the reference gives no figure"), Text(metric.Words(string(r.Source)), "not recorded"), Text(r.Citation, "no citation"), Text(r.Caveat, "none recorded"))
	}
	return t
}

// figureOf prints the range of a published figure; "" without one.
func figureOf(r result.Reference) string {
	one := func(v float64) string { return metric.Value(v, r.Unit) }
	if r.Unit == costRatio {
		one = metric.Times
	}
	switch {
	case r.Low == 0 && r.High == 0:
		return ""
	case r.Low == r.High:
		return one(r.Low)
	}
	return one(r.Low) + " to " + one(r.High)
}

// missing lists what is unavailable, with its reason.
func missing(e *result.Experiment) Section {
	s := Section{ID: "missing", Title: "What is missing", Lead: "Unavailable fields and values. None of them counts as 0.", Detail: true}
	t := newTable("Missing", "what", "where", "why")
	for i := range e.Environments {
		v := &e.Environments[i]
		for _, k := range slices.Sorted(maps.Keys(v.Missing)) {
			t.add(Cell{Text: k}, Text(v.ID, "unnamed"), Text(v.Missing[k], "no reason was recorded"))
		}
	}
	type key struct{ what, env, why string }
	count := map[key]int{}
	var order []key
	note := func(what, env, why string) {
		k := key{what, env, orDefault(why, "no reason was recorded")}
		if count[k]++; count[k] == 1 {
			order = append(order, k)
		}
	}
	for i := range e.Runs {
		r := &e.Runs[i]
		for _, m := range r.Metrics {
			if m.Value == nil {
				note(m.Name, r.Env, orDefault(m.Reason, r.Missing[m.Name]))
			}
		}
		for _, from := range []map[string]string{r.Missing, r.Interference.Missing} {
			for _, k := range slices.Sorted(maps.Keys(from)) {
				if m := r.Metric(k); m == nil || m.Value != nil {
					note(k, r.Env, from[k])
				}
			}
		}
	}
	for _, k := range order {
		t.add(Text(k.what, "unnamed"), Cell{Text: fmt.Sprintf("%s, %s", orDefault(k.env, "unnamed"), metric.Plural(count[k], "run"))}, Cell{Text: k.why})
	}
	if len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}

// rawRuns shows every run with its values as measured.
func rawRuns(e *result.Experiment) Section {
	s := Section{ID: "raw", Title: "Every run", Lead: "Runs in order of time, with the values of all metrics. Excluded and failed runs are shown too.", Detail: true}
	cols := []string{"run", "environment", "case", "pair", "status", "wall time"}
	for _, d := range e.Workload.Metrics {
		cols = append(cols, d.Label())
	}
	cols = append(cols, "steal", "foreign CPU", "CPU clock")
	t := newTable("Runs", cols...)
	for _, r := range inOrder(e) {
		status := Text(string(r.Status), "status not recorded")
		if r.Reason != "" {
			status.Text += ": " + r.Reason
		}
		row := []Cell{Text(r.ID, "unnamed"), Text(r.Env, "unnamed"), Text(r.Case, "unnamed"), {Text: strconv.Itoa(r.Pair), Number: true}, status, secondsCell(r)}
		for _, d := range e.Workload.Metrics {
			row = append(row, metricCell(r, d))
		}
		i := &r.Interference
		row = append(row, ValueOrMissing(i.StealRatio, "ratio", orDefault(i.Missing["steal_ratio"], "")), ValueOrMissing(i.ForeignCPU, "ratio", i.Missing["foreign_cpu_ratio"]), clockCell(i))
		t.add(row...)
	}
	if len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t.align())
	}
	return s
}

func secondsCell(r *result.Run) Cell {
	if r.Seconds <= 0 || !finite(r.Seconds) {
		return Missing(orDefault(r.Reason, "the run was not timed"))
	}
	return ValueOrMissing(&r.Seconds, "seconds", "")
}

func metricCell(r *result.Run, d result.MetricDesc) Cell {
	m := r.Metric(d.Name)
	if m == nil {
		return Missing(orDefault(r.Missing[d.Name], orDefault(r.Reason, "the run does not report it")))
	}
	c := ValueOrMissing(m.Value, d.Unit, orDefault(m.Reason, r.Missing[d.Name]))
	if m.Source != result.Measured && m.Source != "" && m.Value != nil {
		c.Text += " (" + metric.Words(string(m.Source)) + ")"
	}
	return c
}

func clockCell(i *result.Interference) Cell {
	if i.Frequency == nil {
		return Missing(orDefault(i.Missing["cpu_hertz"], "unavailable: the hardware hides this value"))
	}
	return ValueOrMissing(&i.Frequency.Mean, "hertz", "")
}

// reproduce shows the command to repeat the experiment.
func reproduce(e *result.Experiment) Section {
	s := Section{ID: "reproduce", Title: "How to do it again"}
	if len(e.Tool.Command) > 0 {
		s.Code = []string{shellLine(e.Tool.Command)}
	} else if len(e.Runs) > 0 {
		s.Notes = []Remark{{Mark: "i", Level: "note", Name: "command", Text: "missing: the document does not hold the command line"}}
	}
	if len(s.Code)+len(s.Notes) == 0 {
		return s
	}
	s.Facts = []Fact{{"Tool", strings.TrimSpace(orDefault(e.Tool.Name, "unnamed tool") + " " + orDefault(e.Tool.Version, "(version missing: not recorded)"))}, {"Seed of the order", strconv.FormatUint(e.Design.Seed, 10)}, {"Document", orDefault(strings.ReplaceAll(e.ID, "_", ", "), "id missing: not recorded")}} // joined results have an id of all their ids
	for i := range e.Cases {
		c := &e.Cases[i]
		if c.Identity != "" {
			s.Facts = append(s.Facts, Fact{"Job " + c.ID, brief(c.Identity)})
		}
	}
	return s
}

// brief cuts a digest to its first 12 digits.
func brief(digest string) string {
	algorithm, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) <= 12 {
		return digest
	}
	return algorithm + ":" + hex[:12]
}
