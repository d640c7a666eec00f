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
	"time"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/metric"
)

// Own is a rule of a user's: it holds for each element of an expression's result that
// is above a limit, or below it, and has been for a while.
type Own struct {
	Name, Title string
	// Expr gives an instant vector; Needs are the metrics that it is about.
	Expr  string
	Needs []string
	// Sources are those that count these metrics: where one of them saw a part of the
	// events, the values are estimates.
	Sources []string
	Below   bool // whether the limit is one to stay above
	Limit   float64
	Unit    string // one of analysis.Evidence's
	// For is how long it must have held, at some twenty moments; 0 is now.
	For      time.Duration
	Severity analysis.Severity
	// Subject is the name of the label that says what shows it, or a text with such
	// names in braces ("{device} on {instance}"); "" is all labels.
	Subject           string
	Remedy, Reference string // "" where the user gives none
	// Broken says why the expression cannot be evaluated; nil when it can.
	Broken error
}

// Rule is the rule for the engine. A broken one says why it cannot tell.
func (o Own) Rule() *analysis.Rule {
	return &analysis.Rule{
		Name:      o.Name,
		Title:     o.Title,
		Doc:       fmt.Sprintf("A rule of the configuration: %s is %s.", o.Expr, o.condition()),
		Needs:     o.Needs,
		Remedy:    cmp.Or(o.Remedy, "The configuration gives no advice for this rule (analysis.own, remedy)."),
		Reference: cmp.Or(o.Reference, "the configuration file, analysis.own"),
		Run:       o.find,
	}
}

// condition says in words what is looked for.
func (o Own) condition() string {
	out := "above "
	if o.Below {
		out = "below "
	}
	out += amount(o.Limit, o.Unit)
	if o.For > 0 {
		out += " for " + analysis.PromDuration(o.For)
	}
	return out
}

func (o Own) find(ctx context.Context, p *analysis.Pass) error {
	if o.Broken != nil {
		return o.Broken
	}
	op, mildest, descending := ">", "min", 1
	if o.Below {
		op, mildest, descending = "<", "max", -1
	}
	over, enough := o.steps()
	holds := fmt.Sprintf("(%s) %s %g", o.Expr, op, o.Limit)
	if o.For > 0 {
		holds = fmt.Sprintf("%s_over_time(%s) %s %g and count_over_time(%s) >= %d", mildest, over, op, o.Limit, over, enough)
	}
	points, err := p.Query(ctx, holds, p.To)
	if err != nil {
		return err
	}
	// Of several elements with the same subject the worst is reported last, and stays.
	slices.SortFunc(points, func(a, b metric.Point) int { return descending * cmp.Compare(a.Value, b.Value) })
	infinite, found := "", false
	for _, pt := range points {
		labels := maps.Clone(pt.Labels)
		delete(labels, "__name__")
		this := only(labels)
		e := evidence{pass: p}
		value := e.add(ctx, o.Title+", now", o.Unit, "("+o.Expr+")"+this)
		if o.For > 0 {
			held := e.add(ctx, o.Title+", at its mildest in the last "+analysis.PromDuration(o.For), o.Unit, fmt.Sprintf("%s_over_time(%s)", mildest, over)+this)
			if math.IsNaN(value) {
				value = held // of a series that ended a moment ago
			}
		}
		subject := o.subject(labels)
		if e.err == nil && math.IsNaN(value) {
			infinite = subject
			continue
		}
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s: %s of %s, %s.", o.Title, amount(value, o.Unit), subject, o.condition()),
			Severity: o.Severity,
		}
		if len(o.Sources) > 0 {
			f.Confidence = e.trust(ctx, labels, strings.Join(o.Sources, "|"))
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
		found = true
	}
	if infinite != "" && !found {
		return fmt.Errorf("%s is infinite for %s, which is no number to compare: is it divided by 0?", o.Expr, infinite)
	}
	return nil
}

// steps is the subquery over the time for which it must have held, at about twenty
// moments, and how many of them must have a value: all but one, since the series may
// begin between two of them.
func (o Own) steps() (subquery string, enough int) {
	step := max(time.Second, (o.For / 20).Truncate(time.Second))
	return fmt.Sprintf("(%s)[%s:%s]", o.Expr, analysis.PromDuration(o.For), analysis.PromDuration(step)), max(1, int(o.For/step)-1)
}

var (
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
	plainLabel  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// subject is what an element of the result is about; never "".
func (o Own) subject(labels map[string]string) string {
	out := labels[o.Subject]
	switch {
	case strings.Contains(o.Subject, "{"):
		out = placeholder.ReplaceAllStringFunc(o.Subject, func(p string) string { return labels[strings.Trim(p, "{}")] })
	case o.Subject == "":
		var values []string
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if name != "job" {
				values = append(values, labels[name])
			}
		}
		out = strings.Join(values, " ")
	}
	return cmp.Or(strings.TrimSpace(out), o.Name)
}

// only narrows a vector to the one element with these labels: PromQL selects series
// by their labels, but not the results of expressions.
func only(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var names []string
	one := "vector(1)"
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := strings.ReplaceAll(labels[name], "$", "$$") // else a reference to a group
		one = fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, one, name, value)
		if !plainLabel.MatchString(name) {
			name = strconv.Quote(name)
		}
		names = append(names, name)
	}
	return fmt.Sprintf(" and on (%s) %s", strings.Join(names, ", "), one)
}

// amount prints a value as a sentence needs it, with its unit.
func amount(v float64, unit string) string {
	switch unit {
	case "ratio":
		return percent(v)
	case "1/s":
		return count(v) + "/s"
	}
	return strings.TrimSpace(count(v) + " " + unit)
}
