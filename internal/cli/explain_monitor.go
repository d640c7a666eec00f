package cli

import (
	"context"
	"regexp"
	"time"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cost"
	"github.com/teescope/teescope/internal/web"
)

// explainWindow is the window of a question that names none.
const explainWindow = 5 * time.Minute

// explain answers GET explain: the tree, and what the rules found on the process meanwhile.
func (m *monitor) explain(ctx context.Context, q cost.Question) (web.Explanation, error) {
	if q.To.IsZero() {
		q.To = m.host.Now()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-explainWindow)
	}
	t, err := cost.Explain(ctx, m.store, q)
	if err != nil {
		return web.Explanation{}, err
	}
	e := web.ExplanationOf(t)
	// Rules name the machine beside the process where there are several.
	subject := regexp.MustCompile("^" + regexp.QuoteMeta(t.Subject) + "( on " + regexp.QuoteMeta(t.Instance) + ")?$")
	e.Findings, err = m.history(analysis.Filter{From: t.From, To: t.To, Subject: subject})
	return e, err
}
