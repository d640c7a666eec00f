package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// comparison is a rule that only compares the results of queries with limits, as a
// value. Its queries hold the placeholders of query.Scope, and more:
//
//	$here        matchers of the subject's labels; none in the search for candidates
//	$over        the window or its newest part, as the number says
//	$window      the pass's window
//	$newest      the newest part of it
//	$only        "and on (...)", which keeps the subject's element of a vector
//	$THRESHOLD   the lowest value that the threshold has for any subject
//
// A finding's sentences hold numbers, labels and words by their name in braces, and
// {subject}.
type comparison struct {
	findings.Rule // without Run
	// signs are the ways in which the cause shows. A subject gets one finding: the first sign gives its title, the
	// others add evidence.
	signs []sign
}

// sign is one way in which a cause shows. Its candidates are the elements of value that reach the threshold least
// over the window and over its newest part; where narrows them. Without a value, where is the whole query.
type sign struct {
	value, least, where string
	below               bool     // lower values are worse
	keep                []string // the labels in $here; nil is job and instance, everything is allLabels
	subject             func(labels map[string]string) string
	of                  string // metric; a subject is named with its instance if the metric has several
	words               map[string]string
	numbers             []number
	cases               []outcome // the first that holds is the finding
	details             []number  // evidence of a subject that is reported
	share               [2]string // numbers: the bounds of the share of the subject's time
	shareOf             string    // its whole; "" is the CPU time in use
	trust               string    // sources, as alternatives of a regular expression
	remedy, topic       string    // "" is the rule's
	// complete adds what needs more than a comparison to a finding of a machine or process with these labels. May be nil.
	complete func(ctx context.Context, e *evidence, labels map[string]string, f *findings.Finding)
	// unknown is the answer when nothing is found and the first number of a candidate
	// is missing; nil is silence.
	unknown func(subject string) error
}

// number is a piece of evidence: the one value of its query.
type number struct {
	name             string
	text, unit, expr string
	over             string // a span: appended to the text, and $over in the query
	after            string // a number: without it, or where it is 0, this one is left out
	each             string // a query: the number is repeated for each element, whose labels are placeholders
	// together: whatever $here selects, expr gives one element for each subject, with the labels that the sign keeps. It
	// is asked once for all candidates.
	together bool
	// derived computes the number from others; it is then not evidence.
	derived func(of func(name string) float64) float64
}

// The spans of numbers.
const (
	whole = "$window"
	last  = "$newest"
)

var allLabels = []string{}

// limit holds when each of the numbers (separated by spaces) is at least the threshold, or compares as op says (">",
// "<", "known"). The threshold is multiplied by the number times. Without a threshold, least is the limit.
type limit struct {
	numbers, threshold, op, times string
	least                         float64
}

// outcome is the finding when all its limits hold. Of titles and of costs, the first whose numbers are all above 0 is
// used; the last title is the fallback.
type outcome struct {
	when       []limit
	severity   findings.Severity
	confidence findings.Confidence
	raise      []limit // makes it as severe as raised
	raised     findings.Severity
	titles     []string
	costs      []string
	remedy     string // for this outcome; "" is the sign's
}

// machine is the subject of most signs.
func machine(map[string]string) string { return findings.WholeMachine }

// monitor is the subject of signs of the monitor itself.
func monitor(map[string]string) string { return "teescope" }

// rule returns the comparison as a rule of the engine.
func (c comparison) rule() *findings.Rule {
	r := c.Rule
	r.Run = c.find
	return &r
}

func (c comparison) find(ctx context.Context, p *findings.Pass) error {
	found := map[of]*findings.Finding{}
	var unknown error
	for _, s := range c.signs {
		points, err := s.candidates(ctx, p)
		if err != nil {
			return err
		}
		slices.SortStableFunc(points, func(a, b metric.Point) int {
			if s.below {
				return cmp.Compare(a.Value, b.Value)
			}
			return cmp.Compare(b.Value, a.Value)
		})
		seen := map[of]bool{}
		t := &together{sign: s, candidates: points}
		for _, pt := range points {
			j, err := s.judge(ctx, p, pt.Labels, seen, t)
			if err != nil {
				return err
			}
			if j.missing && s.unknown != nil {
				unknown = s.unknown(j.subject)
			}
			if j.finding == nil {
				continue
			}
			seen[j.of] = true
			if first := found[j.of]; first != nil {
				first.Evidence = append(first.Evidence, j.finding.Evidence...)
			} else {
				found[j.of] = j.finding
			}
		}
	}
	for _, f := range found {
		p.Report(*f)
	}
	if len(found) > 0 {
		return nil
	}
	return unknown
}

// candidates returns the elements that reach the lowest limit of any subject.
func (s sign) candidates(ctx context.Context, p *findings.Pass) ([]metric.Point, error) {
	x := expansion{pass: p}
	where := x.query(s.where, "")
	if s.value == "" {
		return p.Query(ctx, where, p.To)
	}
	return holding(ctx, p, func(w string) string { return x.query(s.value, w) }, p.Least(s.least), where)
}

// of is a subject of a machine.
type of struct {
	query.Machine
	subject string
}

// judgement is the result of a sign for one candidate.
type judgement struct {
	of
	finding *findings.Finding // nil when a limit does not hold
	missing bool              // the first number is missing
}

// judge compares a candidate with the limits of its own subject, unless that was judged before.
func (s sign) judge(ctx context.Context, p *findings.Pass, labels map[string]string, seen map[of]bool, t *together) (judgement, error) {
	name, err := s.named(ctx, p, labels)
	j := judgement{of: of{query.MachineOf(labels), name}}
	if err != nil || seen[j.of] || p.Settled(j.Machine, name, "") {
		return j, err
	}
	x := expansion{pass: p, together: t, here: s.hereMatchers(labels), subject: name, labels: labels, words: s.words,
		values: map[string]float64{}, units: map[string]string{}}
	e := evidence{pass: p}
	x.gather(ctx, &e, s.numbers)
	if e.err != nil {
		return j, e.err
	}
	if first := s.numbers[0].name; math.IsNaN(x.value(first)) {
		j.missing = true
	}
	i := slices.IndexFunc(s.cases, func(o outcome) bool { return x.allHold(o.when) })
	if i < 0 {
		return j, nil
	}
	o := s.cases[i]
	x.gather(ctx, &e, s.details)
	f := &findings.Finding{Machine: j.Machine, Subject: name, Life: lifeOf(labels), Severity: o.severity, Confidence: o.confidence, Remedy: cmp.Or(o.remedy, s.remedy), Topic: s.topic, Title: x.first(o.titles), Cost: x.first(o.costs)}
	if f.Title == "" {
		f.Title, _ = x.sentence(o.titles[len(o.titles)-1])
	}
	if len(o.raise) > 0 && x.allHold(o.raise) {
		f.Severity = o.raised
	}
	if low, high := x.value(s.share[0]), x.value(s.share[1]); s.share[0] != "" && low >= 0 && low <= high && high <= 1 {
		f.Share, f.ShareOf = &[2]float64{low, high}, s.shareOf
	}
	if s.trust != "" {
		if trust := e.trust(ctx, labels, s.trust); f.Confidence == "" {
			f.Confidence = trust
		}
	}
	if s.complete != nil {
		s.complete(ctx, &e, labels, f)
	}
	f.Evidence, j.finding = e.list, f
	return j, e.err
}

// hereMatchers returns $here for a candidate's labels.
func (s sign) hereMatchers(labels map[string]string) string {
	return query.MatchersOf(labels, s.hereLabels(labels)...)
}

// hereLabels are the names of a candidate's labels in $here.
func (s sign) hereLabels(labels map[string]string) []string {
	switch {
	case s.keep == nil:
		return []string{"job", "instance"}
	case len(s.keep) == 0:
		return slices.Collect(maps.Keys(labels))
	}
	return s.keep
}

func (s sign) named(ctx context.Context, p *findings.Pass, labels map[string]string) (string, error) {
	name := s.subject(labels)
	if s.of == "" {
		return name, nil
	}
	return named(ctx, p, name, s.of, labels["instance"])
}

// expansion fills in the placeholders for one subject.
type expansion struct {
	pass          *findings.Pass
	together      *together
	here, subject string
	labels, words map[string]string
	values        map[string]float64
	units         map[string]string
}

var inSentence = regexp.MustCompile(`\{[a-z_]+\}`)

// takenOver fills in the span of a query's rates, and leaves its other placeholders.
func takenOver(text, span string) string { return query.Scope{Here: "$here", Over: span}.Expand(text) }

func (x expansion) query(text, over string) string {
	return x.element(text, over, nil, strconv.Quote)
}

// element fills in a query or a text, with the labels of an element of number.each.
func (x expansion) element(text, over string, labels map[string]string, value func(string) string) string {
	s := query.Scope{Here: x.here, Word: func(name string) (string, bool) { return x.word(name, labels, value), true }}
	s.Over = s.Expand(over)
	return s.Expand(text)
}

// word returns what a placeholder of a comparison stands for besides those of every query.
func (x expansion) word(name string, labels map[string]string, value func(string) string) string {
	switch name {
	case "window":
		return window(x.pass)
	case "newest":
		return newest(x.pass)
	case "only":
		return elementFilter(withoutName(x.labels))
	}
	if v, ok := labels[name]; ok {
		return value(v)
	}
	if v, ok := x.words[name]; ok {
		return v
	}
	return fmt.Sprintf("%g", x.pass.Least(name))
}

func raw(v string) string { return v }

// gather evaluates the numbers in order.
func (x expansion) gather(ctx context.Context, e *evidence, numbers []number) {
	for _, n := range numbers {
		switch {
		case n.derived != nil:
			x.values[n.name], x.units[n.name] = n.derived(x.value), n.unit
			continue
		case n.after != "" && !(x.value(n.after) > 0):
			x.values[n.name] = math.NaN()
			continue
		}
		elements := []metric.Point{{}}
		if n.each != "" && e.err == nil {
			elements, e.err = x.pass.Query(ctx, x.query(n.each, n.over), x.pass.To)
		}
		if n.over != "" {
			n.text += ", mean of the last $over"
		}
		for _, pt := range elements {
			text, expr := x.element(n.text, n.over, pt.Labels, raw), x.element(n.expr, n.over, pt.Labels, strconv.Quote)
			v := e.addResult(text, n.unit, expr, func() ([]metric.Point, error) { return x.queryNumber(ctx, n, expr) })
			x.values[n.name], x.units[n.name] = v, n.unit
		}
	}
}

// queryNumber evaluates a number's query for the subject, or looks its element up among those of all candidates.
func (x expansion) queryNumber(ctx context.Context, n number, expr string) ([]metric.Point, error) {
	if n.together && len(x.together.candidates) > 1 {
		return x.together.element(ctx, x, n)
	}
	return x.pass.Query(ctx, expr, x.pass.To)
}

// value returns a number by its name, NaN if it is missing.
func (x expansion) value(name string) float64 {
	if v, ok := x.values[name]; ok {
		return v
	}
	return math.NaN()
}

// allHold reports whether all limits hold. A limit on a missing number does not hold.
func (x expansion) allHold(limits []limit) bool {
	for _, l := range limits {
		bound := l.least
		if l.threshold != "" {
			bound = x.pass.Limit(l.threshold, x.subject)
		}
		if l.times != "" {
			bound *= x.value(l.times)
		}
		for _, name := range strings.Fields(l.numbers) {
			v := x.value(name)
			if holds := l.op == "" && v >= bound || l.op == ">" && v > bound || l.op == "<" && v < bound || l.op == "known" && !math.IsNaN(v); !holds {
				return false
			}
		}
	}
	return true
}

// first returns the first sentence whose numbers are all above 0, or "".
func (x expansion) first(sentences []string) string {
	for _, s := range sentences {
		if out, ok := x.sentence(s); ok {
			return out
		}
	}
	return ""
}

// sentence fills in a sentence; ok is true if its numbers are all above 0.
func (x expansion) sentence(text string) (out string, ok bool) {
	ok = true
	out = inSentence.ReplaceAllStringFunc(x.element(text, "", nil, raw), func(found string) string {
		name := strings.Trim(found, "{}")
		if name == "subject" {
			return x.subject
		}
		if v, number := x.values[name]; number {
			ok = ok && v > 0
			return spoken(v, x.units[name])
		}
		return cmp.Or(x.words[name], x.labels[name])
	})
	return out, ok
}

// spoken prints a number for a sentence. Sentences name the unit of rates and plain numbers themselves.
func spoken(v float64, unit string) string {
	switch unit {
	case "", "1/s":
		return metric.Count(v)
	}
	return metric.Value(v, unit)
}
