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

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
)

// Own is a user's rule. It holds for each element of an expression's result that stayed above or below a limit for
// some time.
type Own struct {
	Name, Title string
	// Expr gives an instant vector; Needs are the metrics it uses.
	Expr  string
	Needs []string
	// Sources count these metrics. If one of them counted only part of the events, the values are estimates.
	Sources []string
	Below   bool // the rule holds below the limit
	Limit   float64
	Unit    string // one of query.Evidence's
	// For is how long it must have held, checked at about twenty moments; 0 is now.
	For      time.Duration
	Severity findings.Severity
	// Subject is the name of the label that names the subject, or a text with such names in
	// braces ("{device} on {instance}"); "" is all labels.
	Subject           string
	Remedy, Reference string // "" where the user gives none
	// Broken is why the expression cannot be evaluated; nil when it can.
	Broken error
}

// Rule returns the rule for the engine. A broken one answers with its error.
func (o Own) Rule() *findings.Rule {
	r := o.comparison().rule()
	if o.Broken != nil {
		r.Run = func(context.Context, *findings.Pass) error { return o.Broken }
	}
	return r
}

// condition returns the rule's condition in words.
func (o Own) condition() string {
	out := "above "
	if o.Below {
		out = "below "
	}
	out += spoken(o.Limit, o.Unit)
	if o.Unit == "1/s" {
		out += "/s"
	}
	if o.For > 0 {
		out += " for " + query.PromDuration(o.For)
	}
	return out
}

// comparison returns the rule as a value: the result of Expr is compared with one limit.
func (o Own) comparison() comparison {
	op, mildest := ">", "min"
	if o.Below {
		op, mildest = "<", "max"
	}
	dollars := func(query string) string { return strings.ReplaceAll(query, "$", "$$") }
	over, enough := o.steps()
	holds := fmt.Sprintf("(%s) %s %g", o.Expr, op, o.Limit)
	numbers := []number{{name: "now", text: "$title, now", unit: o.Unit, expr: dollars("("+o.Expr+")") + "$only"}}
	if o.For > 0 {
		held := fmt.Sprintf("%s_over_time(%s)", mildest, over)
		holds = fmt.Sprintf("%s %s %g and count_over_time(%s) >= %d", held, op, o.Limit, over, enough)
		numbers = append(numbers, number{name: "held", text: "$title, value nearest to the limit in the last " + query.PromDuration(o.For), unit: o.Unit, expr: dollars(held) + "$only"})
	}
	numbers = append(numbers, number{name: "value", unit: o.Unit, derived: func(of func(string) float64) float64 {
		if v := of("now"); !math.IsNaN(v) {
			return v
		}
		return of("held") // of a series that ended a moment ago
	}})
	value := "{value}"
	if o.Unit == "1/s" {
		value += "/s"
	}
	return comparison{
		Rule: findings.Rule{
			Name:      o.Name,
			Title:     o.Title,
			Doc:       fmt.Sprintf("A rule of the configuration: %s is %s.", o.Expr, o.condition()),
			Needs:     o.Needs,
			Remedy:    cmp.Or(o.Remedy, "Add advice for this rule to the configuration (analysis.own, remedy)."),
			Reference: cmp.Or(o.Reference, "the configuration file, analysis.own"),
		},
		signs: []sign{{
			where: dollars(holds), below: o.Below,
			subject: func(labels map[string]string) string { return o.subject(withoutName(labels)) },
			words:   map[string]string{"title": o.Title, "condition": o.condition()},
			numbers: numbers,
			cases:   []outcome{{severity: o.Severity, when: []limit{{numbers: "value", op: "known"}}, titles: []string{"{title}: " + value + " of {subject}, {condition}."}}},
			trust:   strings.Join(o.Sources, "|"),
			unknown: func(subject string) error {
				return fmt.Errorf("%s is infinite for %s, which cannot be compared: is it divided by 0?", o.Expr, subject)
			},
		}},
	}
}

// steps returns the subquery over For, at about twenty moments, and how many of them must have a value: all but one,
// since the series may begin between two.
func (o Own) steps() (subquery string, enough int) {
	step := max(time.Second, (o.For / 20).Truncate(time.Second))
	return fmt.Sprintf("(%s)[%s:%s]", o.Expr, query.PromDuration(o.For), query.PromDuration(step)), max(1, int(o.For/step)-1)
}

var (
	placeholder = regexp.MustCompile(`\{[^{}]*\}`)
	plainLabel  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// subject names the subject of an element of the result; never "".
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

// withoutName returns the labels of a result without the metric's name.
func withoutName(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, "__name__")
	return out
}

// elementFilter narrows a vector to the one element with these labels: PromQL selects series
// by their labels, but not the results of expressions.
func elementFilter(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var names []string
	one := "vector(1)"
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		value := strings.ReplaceAll(labels[name], "$", "$$") // otherwise it would refer to a group
		one = fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, one, name, value)
		if !plainLabel.MatchString(name) {
			name = strconv.Quote(name)
		}
		names = append(names, name)
	}
	return fmt.Sprintf(" and on (%s) %s", strings.Join(names, ", "), one)
}
