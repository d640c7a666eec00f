package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Page is a document arranged for reading: verdicts first, then the evidence,
// then how to do it again. Text, Markdown and HTML print the same page.
type Page struct {
	Title string
	Made  time.Time
	// Summary has a line for each verdict and the table of platforms, when there
	// are several experiments.
	Summary []Section
	Parts   []Part
	// Tail belongs to all experiments: findings.
	Tail []Section
}

// Part is one experiment.
type Part struct {
	Title string
	// Facts say in a line how it was measured.
	Facts []Fact
	// Arms is the answer in a table where several arms were compared: arm, cost, sure?
	Arms        *Table
	Conclusions []Conclusion
	// Common holds what all conclusions have in common; the conclusions leave it out.
	Common []Fact
	// Nothing says why there is no conclusion, when there is none.
	Nothing  string
	Sections []Section
}

// Conclusion is the verdict of one primary comparison.
type Conclusion struct {
	// Kind is the verdict as one word for style sheets, Word for readers.
	Kind, Word string
	Mark       string // a shape, so colour is not needed
	Means      string
	Headline   string
	Details    []string // sentences below the headline
	Big        Cell     // the cost ratio
	Number     string   // what Big is: cost, or ratio for a stand-in
	Facts      []Fact
	// Why explains the cost, Doubts are reasons and guards, Next is what would decide or repair it.
	Why, Doubts, Next []string
}

// Section is a piece of evidence.
type Section struct {
	ID, Title string
	// Lead is the question it answers.
	Lead   string
	Facts  []Fact
	Plots  []Plot
	Tables []*Table
	Notes  []Remark
	Code   []string
	// Detail: folded on a page, and left out of text that cannot fold. Folded: only the former.
	Detail, Folded bool
}

// Captioned reports whether the caption of one of the section's tables says more than its title.
func (s *Section) Captioned(t *Table) bool {
	return len(s.Tables) > 1 || !strings.HasPrefix(s.Title, t.Caption)
}

// Remark is a guard, a finding or a warning.
type Remark struct {
	Mark, Level string // shape and word of its severity
	Name        string
	Text        string
	Help        string
}

// Compose arranges a document.
func Compose(doc Document) Page {
	p := Page{Title: title(doc), Made: doc.Made}
	for i, e := range doc.Experiments {
		p.Parts = append(p.Parts, part(e, i, doc))
	}
	if len(doc.Experiments) > 1 {
		p.Summary = append([]Section{summary(doc)}, platforms(doc)...)
	}
	if len(doc.Findings) > 0 {
		p.Tail = append(p.Tail, observed(doc.Findings))
	}
	return p
}

func title(doc Document) string {
	var names []string
	for _, e := range doc.Experiments {
		if n := doc.nameOf(e); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "teescope report"
	}
	if len(names) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}

func part(e *result.Experiment, n int, doc Document) Part {
	p := Part{Title: orDefault(doc.nameOf(e), "unnamed experiment"), Facts: designFacts(e), Conclusions: relative(e)}
	for _, c := range primaries(e) {
		p.Conclusions = append(p.Conclusions, conclusion(doc, e, c))
	}
	if len(p.Conclusions) == 0 {
		p.Nothing = whyNothing(e)
	}
	p.Arms = armsTable(e)
	if o := doc.Origins[e]; o != "" {
		p.Facts = append(p.Facts, Fact{"Origin", o})
	}
	if e.Summary {
		p.Facts = append(p.Facts, Fact{"Summary", "raw files, histograms and any attestation of the whole result were left out of this result, rare system calls were added up, and counts have four digits"})
	}
	p.share()
	id := func(s string) string { return fmt.Sprintf("e%d-%s", n+1, s) }
	prefix := ""
	if len(doc.Experiments) > 1 {
		prefix = fmt.Sprintf("%d-", n+1)
	}
	plots := plotsOf(e, prefix, View{})
	var sections []Section
	if len(doc.Experiments) == 1 {
		sections = platforms(doc)
	}
	sections = append(sections,
		costs(e, plots),
		Section{ID: "start", Title: "Start", Lead: "Where the time until the first answer goes. Building is not included.", Plots: plots["start"]},
		Section{ID: "scaling", Title: "Scaling", Lead: "How each arm scales, and what it costs at each point. An efficiency alone can hide a slow first point.", Plots: plots["scaling"], Tables: nonEmpty(sweepTables(e)...)},
		runsSection(e, plots),
		Section{ID: "ladder", Title: "Ladder", Lead: "What each layer adds, from the baseline upwards.", Plots: plots["ladder"]},
		whySection(doc, e, plots),
		differences(e),
		guards(e),
		harnessSection(e),
		references(e),
		Section{ID: "specification", Title: "Beside the vendor's specification", Lead: beside, Tables: nonEmpty(specificationTable(e))},
		environments(e),
		missing(e),
		rawRuns(e),
		reproduce(e),
	)
	for _, s := range sections {
		if len(s.Plots)+len(s.Tables)+len(s.Notes)+len(s.Code) > 0 {
			s.ID = id(s.ID)
			p.Sections = append(p.Sections, s)
		}
	}
	return p
}

// share moves facts and causes that all conclusions have in common to Common: a sweep would repeat them at each
// point.
func (p *Part) share() {
	if len(p.Conclusions) < 2 {
		return
	}
	first := &p.Conclusions[0]
	for _, f := range slices.Clone(first.Facts) {
		if slices.ContainsFunc(p.Conclusions, func(c Conclusion) bool { return !slices.Contains(c.Facts, f) }) {
			continue
		}
		p.Common = append(p.Common, f)
		for i := range p.Conclusions {
			c := &p.Conclusions[i]
			c.Facts = slices.DeleteFunc(c.Facts, func(g Fact) bool { return g == f })
		}
	}
	var why []string
	for i := range p.Conclusions {
		if c := &p.Conclusions[i]; len(c.Why) > 0 {
			if why != nil && !slices.Equal(why, c.Why) {
				return
			}
			why = c.Why
		}
	}
	if len(why) > 0 {
		p.Common = append(p.Common, Fact{"why", strings.Join(why, " ")})
		for i := range p.Conclusions {
			p.Conclusions[i].Why = nil
		}
	}
}

func designFacts(e *result.Experiment) []Fact {
	w := orDefault(e.Workload.Name, "unnamed workload")
	if e.Workload.Version > 0 {
		w += fmt.Sprintf(" version %d", e.Workload.Version)
	}
	f := []Fact{{"Workload", w}}
	if e.Workload.Doc != "" {
		f = append(f, Fact{"What it does", e.Workload.Doc})
	}
	if o := e.Origin; o != nil {
		for _, x := range []Fact{{"Parameters from", o.Source}, {"Flaws of the original, and corrections here", o.Corrects}} {
			if x.Text != "" {
				f = append(f, x)
			}
		}
	}
	design := designText(e.Design.Kind)
	if e.Design.Calibration {
		design += ", both arms the same on purpose (A/A)"
	}
	f = append(f, Fact{"Design", design})
	if !e.AllStandIns() {
		f = append(f, Fact{"Grade", gradeText(e.Design.Grade)})
	}
	if len(e.Environments) > 0 {
		var names []string
		servers := "; "
		for i := range e.Environments {
			names = append(names, orDefault(e.Environments[i].ID, "unnamed"))
			if v := e.Environments[i].Software.Versions[result.ServerVersion] + "; "; v != "; " && !strings.Contains(servers, "; "+v) {
				servers += v
			}
		}
		if len(names) > 1 {
			names[0] += " (baseline)"
		}
		f = append(f, Fact{"Environments", strings.Join(names, ", ")})
		if servers != "; " {
			f = append(f, Fact{"Server, in its own words", strings.Trim(servers, "; ")})
		}
	}
	var left []string
	for _, x := range e.Design.LeftOut {
		left = append(left, fmt.Sprintf("%s (%s)", x.Env, strings.ReplaceAll(x.Why, "\n", "; ")))
	}
	if left != nil {
		f = append(f, Fact{"Left out because the machine lacks something", strings.Join(left, "; ")})
	}
	f = append(f, Fact{"Runs", runsText(e)}, Fact{"Measured", dates(e)})
	return f
}

func runsText(e *result.Experiment) string {
	count := map[result.Status]int{}
	for i := range e.Runs {
		count[e.Runs[i].Status]++
	}
	s := fmt.Sprintf("%d", len(e.Runs))
	if len(e.Runs) == 0 {
		s = "none"
	}
	var odd []string
	if n := count[result.Failed]; n > 0 {
		odd = append(odd, fmt.Sprintf("%d failed", n))
	}
	if n := count[result.Excluded]; n > 0 {
		odd = append(odd, fmt.Sprintf("%d excluded", n))
	}
	if len(odd) > 0 {
		s += " (" + strings.Join(odd, ", ") + ")"
	}
	if e.Design.PairsPlanned > 0 {
		s += fmt.Sprintf(", %d pairs planned", e.Design.PairsPlanned)
	}
	return s
}

func dates(e *result.Experiment) string {
	if e.StartedAt.IsZero() {
		return "date missing: the document has no start"
	}
	s := e.StartedAt.UTC().Format("2006-01-02 15:04 UTC")
	if e.EndedAt == nil {
		return s + ", not ended"
	}
	return s + ", took " + metric.Length(e.EndedAt.Sub(e.StartedAt).Seconds())
}

func whyNothing(e *result.Experiment) string {
	switch {
	case len(e.Runs) == 0:
		return "No verdict: nothing has run yet."
	case len(e.Environments) < 2:
		return "Nothing was compared: there is only one environment. Join the result with the result of another machine (teescope compare A.json B.json), or run the experiment with a second --env."
	case len(e.Comparisons) > 0:
		return "No verdict: the primary metric was not compared."
	}
	return "No verdict: the document holds runs but no comparison."
}

func conclusion(doc Document, e *result.Experiment, c *result.Comparison) Conclusion {
	a := appearanceOf(c)
	out := Conclusion{Kind: kind(c), Word: verdictWord(c), Mark: a.mark, Means: a.means, Headline: Headline(c), Details: c.Details, Number: "cost"}
	if isStandIn(c) {
		out.Number = "ratio"
	}
	// The chip shows the verdict's word, so the sentence need not begin with it.
	out.Headline = strings.TrimPrefix(out.Headline, out.Word+": ")
	if len(CaseIDs(e)) > 1 && c.Case != "" && !strings.Contains(out.Headline, c.Case) {
		out.Headline = c.Case + ": " + out.Headline
	}
	switch {
	case c.Verdict == stats.Invalid: // a refused ratio is shown only in the table
		out.Big = Missing("refused")
	case c.Cost != nil && finite(*c.Cost):
		out.Big = Cell{Text: bound(e, c) + metric.Times(*c.Cost), Raw: fmt.Sprint(*c.Cost), Number: true}
	default:
		out.Big = Missing(noRatio(c))
	}
	if lo, hi, ok := costInterval(c); ok && c.Verdict == stats.Invalid {
		out.Facts = append(out.Facts, Fact{intervalName(c), "refused"})
	} else if ok {
		out.Facts = append(out.Facts, Fact{intervalName(c), metric.Times(lo) + " to " + metric.Times(hi)})
	} else { // the doubts give the reason
		out.Facts = append(out.Facts, Fact{intervalName(c), "missing"})
	}
	out.Facts = append(out.Facts, Fact{replicates(c), fmt.Sprint(c.Pairs)})
	if !isStandIn(c) {
		out.Facts = append(out.Facts, Fact{"grade", gradeText(c.Grade)})
	}
	if c.MDE != nil && finite(*c.MDE) {
		out.Facts = append(out.Facts, Fact{"smallest effect these " + replicates(c) + " would find", metric.Percent(*c.MDE)})
	} else {
		out.Facts = append(out.Facts, Fact{"smallest effect these " + replicates(c) + " would find", "missing"})
	}
	if c.Margin > 0 {
		m := "±" + metric.Percent(c.Margin)
		if c.Material && !isStandIn(c) {
			m += ", the whole interval is beyond it"
		}
		out.Facts = append(out.Facts, Fact{"margin", m})
	}
	if c.NoiseFloor != nil && finite(*c.NoiseFloor) {
		out.Facts = append(out.Facts, Fact{"noise floor of this host", metric.Percent(*c.NoiseFloor)})
	}
	if c.Cause != "" {
		out.Why = append(out.Why, c.Cause)
	}
	if c.Verdict == stats.Cost || c.Verdict == stats.Gain {
		out.Why = append(out.Why, costReasons(doc, e, c)...)
	}
	out.Doubts, out.Next = doubts(e, c)
	out.Doubts = slices.DeleteFunc(out.Doubts, func(d string) bool {
		return strings.Contains(out.Headline, d) || slices.ContainsFunc(out.Details, func(s string) bool { return strings.EqualFold(strings.TrimSuffix(s, "."), strings.TrimSuffix(d, ".")) })
	})
	if c.Open != "" {
		out.Next = append([]string{soFar(c.Open, c.Pairs)}, out.Next...)
	}
	return out
}

// soFar puts the number of pairs next to what would decide a comparison.
func soFar(deciding string, pairs int) string {
	if !strings.Contains(deciding, "needs") && !strings.Contains(deciding, "in all") {
		return deciding
	}
	return fmt.Sprintf("%s; there are %d so far.", deciding, pairs)
}

func replicates(c *result.Comparison) string { return c.Replicate() + "s" }

func intervalName(c *result.Comparison) string {
	if c.Confidence <= 0 {
		return "interval"
	}
	return metric.Percent(c.Confidence) + " interval"
}

// doubts returns the reasons of a comparison, without those that the details say, and what helps. The reasons have the
// messages of all guards that concern it, and of no other comparison.
func doubts(e *result.Experiment, c *result.Comparison) (said, next []string) {
	for _, reason := range c.Reasons {
		if strings.TrimSpace(reason) == "" {
			continue
		}
		listed := false
		for i := range e.Guards {
			g := &e.Guards[i]
			if g.Level == result.Note || g.Message != reason {
				continue
			}
			listed = listed || g.ID == severalDimensions && c.Verdict != stats.Invalid
			if g.Help != "" && !listed && !slices.Contains(next, g.Help) {
				next = append(next, g.Help)
			}
		}
		if !listed {
			said = append(said, reason)
		}
	}
	return said, next
}

// severalDimensions is the guard whose message lists fields in which arms differ: the details name the dimensions, and a
// section of the report has all fields.
const severalDimensions = "several-dimensions"

// leastSaid is the smallest share of a difference for which a row is named next to the verdict.
const leastSaid = 0.05

// costReasons explains a cost in sentences: the attributed shares, or else the most changed counters, which prove nothing and
// are marked "not proven".
func costReasons(doc Document, e *result.Experiment, c *result.Comparison) []string {
	var out []string
	t := doc.Catalog.Compared(e, c)
	if none := doc.Catalog.Uncaused(e, c); none != "" {
		out = append(out, "No cause is named: "+none+".")
		if len(t.Rows) == 0 {
			return out
		}
	}
	for _, r := range t.Rows {
		if math.Abs(r.Share.Value) >= leastSaid {
			out = append(out, fmt.Sprintf("%s of the difference: %s, %s.", share(r.Share), r.Title, more(r)))
		}
	}
	if len(t.Rows) > 0 {
		out = append(out, share(t.UnexplainedShare)+" is unexplained.")
	}
	if len(out) > 0 {
		return out
	}
	all := counters(e, c.Case)
	if len(all) == 0 {
		return []string{"Unknown: the runs hold no counters."}
	}
	var moved []string
	for _, k := range leads(all, envIndex(e, c.Baseline), envIndex(e, c.Treatment)) {
		moved = append(moved, fmt.Sprintf("%s %s against %s", k.name(), metric.Value(*k.arms[1].value, ""), metric.Value(*k.arms[0].value, "")))
	}
	if moved == nil {
		return []string{"Unknown: no counter of the workload's processes changed by a fifth or more between the arms."}
	}
	return []string{fmt.Sprintf("Not proven. What changed most per %s: %s.", all[0].per, strings.Join(moved, "; "))}
}

// leads returns at most three totals of the workload's own processes that differ by a fifth or more between two arms,
// those with the most events first. Counters of the whole machine are left out because they include other programs,
// and parts because they repeat their total.
func leads(all []counted, base, treat int) []counted {
	var out []counted
	for _, k := range all {
		hasTotal := slices.ContainsFunc(all, func(t counted) bool { return !t.part && t.metric == k.metric })
		if base < 0 || treat < 0 || k.part && hasTotal || k.scope != "process" || k.arms[base].value == nil || k.arms[treat].value == nil {
			continue
		}
		pair := counted{counterKey: k.counterKey, arms: []arm{k.arms[base], k.arms[treat]}}
		if pair.moved() >= 1.2 {
			out = append(out, pair)
		}
	}
	slices.SortStableFunc(out, func(a, b counted) int { return cmp.Compare(b.distance(), a.distance()) })
	return out[:min(3, len(out))]
}

// distance returns the difference in events between the two arms of a lead.
func (c counted) distance() float64 { return math.Abs(*c.arms[1].value - *c.arms[0].value) }

func signed(v float64, unit string) string {
	if v < 0 {
		return "−" + metric.Value(-v, unit)
	}
	return "+" + metric.Value(v, unit)
}

func observed(fs []findings.Finding) Section {
	s := Section{ID: "findings", Title: "Findings of the monitor during the runs", Lead: "What the monitor's rules found while the benchmark ran."}
	for _, f := range fs {
		mark := map[findings.Severity]string{findings.Critical: "✕", findings.Warning: "!"}[f.Severity]
		r := Remark{Mark: orDefault(mark, "i"), Level: orDefault(string(f.Severity), "note"), Name: f.Subject, Text: f.Title, Help: f.Remedy}
		if f.Share != nil && finite(f.Share[0], f.Share[1]) {
			low, high := metric.Percent(f.Share[0]), metric.Percent(f.Share[1])
			if low != high {
				low += " to " + high
			}
			r.Text += fmt.Sprintf(" (%s of %s)", low, orDefault(f.ShareOf, "its time"))
		}
		s.Notes = append(s.Notes, r)
	}
	return s
}
