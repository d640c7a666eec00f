//go:build linux

package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/web"
)

// explainWindow is the window of a request that names none.
const explainWindow = 5 * time.Minute

// explain answers GET explain: the tree, and the findings about the process in that
// window.
func (m *monitor) explain(ctx context.Context, q explain.Question) (web.Explanation, error) {
	if q.To.IsZero() {
		q.To = m.Host.Now()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-explainWindow)
	}
	q.Places, q.Least = m.placesOn, m.least
	t, err := m.Judging.Catalog.Window(ctx, m.series, q)
	var no *explain.Refusal
	if errors.As(err, &no) && no.NotFound && (q.Instance == "" || q.Instance == m.own().Instance) {
		if as := runsAs(m.Host, q.Process); as != "" {
			return web.Explanation{}, &explain.Refusal{NotFound: true, Reason: no.Reason + "; " + as}
		}
	}
	if err != nil {
		return web.Explanation{}, err
	}
	e := web.Explanation{Tree: t, Causes: m.Judging.Catalog.Found(t)}
	// Rules name the machine next to the process if there are several.
	subject := regexp.MustCompile("^" + regexp.QuoteMeta(t.Subject) + "( on " + regexp.QuoteMeta(t.Instance) + ")?$")
	e.Findings, err = m.history(ctx, findings.Filter{From: t.From, To: t.To, Subject: subject, On: func(of query.Machine) bool {
		return of.Instance == "" || of.Instance == t.Instance && (q.Job == "" || of.Job == q.Job)
	}})
	e.Summary = t.Summarize(e.Causes, explain.Level(findings.Worst(e.Findings)))
	if m.analysis != nil {
		e.Silent = silent(e, m.analysis.Rules())
	}
	return e, err
}

// silent says for each cause without a finding why its rule has none.
func silent(e web.Explanation, rules []findings.RuleStat) []web.SilentRule {
	var out []web.SilentRule
	for _, c := range e.Causes {
		i := slices.IndexFunc(rules, func(r findings.RuleStat) bool { return r.Name == c.Rule })
		reported := slices.ContainsFunc(e.Findings, func(r findings.Record) bool { return r.Rule == c.Rule })
		told := slices.ContainsFunc(out, func(s web.SilentRule) bool { return s.Rule == c.Rule })
		if i < 0 || reported || told {
			continue
		}
		r := rules[i]
		near := slices.IndexFunc(r.Near, func(n findings.Near) bool {
			return n.Instance == e.Tree.Instance && (n.Subject == e.Tree.Subject || n.Subject == findings.QualifiedSubject(e.Tree.Subject, e.Tree.Instance))
		})
		why := fmt.Sprintf("a finding opens only if the values are beyond the rule's limits in both windows, %s and %s", metric.Length(r.Windows[1]), metric.Length(r.Windows[0]))
		switch {
		case r.Answer == findings.CannotTell:
			why = "not checked: " + cmp.Or(r.Reason, "no reason was given")
		case near >= 0:
			why = strings.TrimSuffix(r.Near[near].Text, ".")
		}
		out = append(out, web.SilentRule{Rule: r.Name, Text: fmt.Sprintf("No finding of %s: %s.", r.Title, why)})
	}
	return out
}

// changes compares all series of two windows of the store.
func (m *monitor) changes(ctx context.Context, before, after anomaly.Window, o anomaly.Options) (anomaly.Changes, error) {
	return anomaly.CompareWindows(ctx, m.series, before, after, o)
}

// boxes describes the values of a PromQL expression in windows.
func (m *monitor) boxes(ctx context.Context, query string, from, to time.Time, windows int) ([]anomaly.Box, error) {
	return anomaly.Boxes(ctx, asPage{m.served}, query, from, to, windows)
}

// asPage evaluates what others ask for within the limits of pages: without the engine of rules, which has none.
type asPage struct{ served }

// QueryRange is that of query.RangeQuerier.
func (p asPage) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	step = max(time.Millisecond, step.Truncate(time.Millisecond)) // PromQL's unit
	lines, _, err := p.Steps(ctx, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	first := from.Truncate(time.Millisecond)
	var out []metric.Series
	for _, l := range lines {
		s := metric.Series{Labels: l.Labels}
		for i, v := range l.Values {
			if !math.IsNaN(v) {
				s.At = append(s.At, first.Add(time.Duration(l.Skip+i)*step))
				s.Values = append(s.Values, v)
			}
		}
		if len(s.Values) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}
