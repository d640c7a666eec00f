package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/web"
)

// busiest is how many processes are explained at once.
const busiest = 3

// trees asks where the time of the selected processes went: the one that --process
// names, the busiest ones that match it, or the busiest of all. A refusal is not
// an error.
func (x explainer) trees(ctx context.Context, of client.Backend, out *explained) error {
	last := min(time.Duration(x.last), explain.Longest)
	subjects, err := x.busy(ctx, of, out.At, last)
	if err != nil {
		return err
	}
	if len(subjects) == 0 && x.process != "" {
		subjects = []client.Subject{{Process: x.process, Instance: x.instance}} // the monitor knows which names there are
	}
	for _, s := range subjects {
		e, err := of.Tree(ctx, s, x.per, out.At.Add(-last), out.At)
		var then web.Explanation
		if err == nil && x.before.set() {
			then, err = of.Tree(ctx, s, x.per, out.At.Add(-x.before.from), out.At.Add(-x.before.to))
		}
		var no *client.Refused
		var refusal *explain.Refusal
		switch {
		case errors.As(err, &no):
			out.Unexplained = append(out.Unexplained, no.Reason)
			continue
		case errors.As(err, &refusal):
			out.Unexplained = append(out.Unexplained, refusal.Reason)
			continue
		case err != nil:
			return err
		}
		out.Explanations = append(out.Explanations, e)
		if x.before.set() {
			out.Before = append(out.Before, then)
		}
	}
	return nil
}

// busy returns the processes whose threads had the most work in the window, or, if
// nothing is sampled, those with the most CPU time.
func (x explainer) busy(ctx context.Context, of client.Backend, at time.Time, window time.Duration) ([]client.Subject, error) {
	which := `process!="other"`
	if x.process != "" {
		which = fmt.Sprintf("process=~%q", "(?s).*(?:"+x.process+").*")
	}
	if x.instance != "" {
		which += fmt.Sprintf(",instance=%q", x.instance)
	}
	w := query.PromDuration(window)
	work := map[client.Subject]float64{}
	for _, expr := range []string{
		fmt.Sprintf(`sum by (process, instance) (rate({__name__=~"tee_sampled_(cpu|wait)_seconds_total",mode!="thread",state!="sleep",%s}[%s]))`, which, w),
		fmt.Sprintf("sum by (process, instance) (rate(tee_process_cpu_seconds_total{%s}[%s]))", which, w),
	} {
		points, err := of.Query(ctx, expr, at)
		if err != nil {
			return nil, err
		}
		for _, p := range points {
			if p.Value > 0 {
				work[client.Subject{Process: p.Labels["process"], Instance: p.Labels["instance"]}] = p.Value
			}
		}
		if len(work) > 0 {
			break
		}
	}
	list := slices.SortedFunc(maps.Keys(work), func(a, b client.Subject) int {
		return cmp.Or(cmp.Compare(work[b], work[a]), strings.Compare(a.Process, b.Process), strings.Compare(a.Instance, b.Instance))
	})
	if exact := slices.DeleteFunc(slices.Clone(list), func(s client.Subject) bool { return s.Process != x.process }); len(exact) > 0 {
		return exact, nil
	}
	return list[:min(busiest, len(list))], nil
}

// ago is a flag that takes an earlier window, 2h..1h.
type ago struct{ from, to time.Duration }

func (a *ago) set() bool { return a.from != 0 }

func (a *ago) String() string {
	if !a.set() {
		return ""
	}
	return a.from.String() + ".." + a.to.String()
}

// Type names the value in the help text.
func (a *ago) Type() string { return "from..to" }

// Set parses the flag.
func (a *ago) Set(v string) error {
	first, second, ok := strings.Cut(v, "..")
	var from, to duration
	if !ok || from.Set(first) != nil || to.Set(second) != nil || from <= to {
		return fmt.Errorf("%q: want a window like 2h..1h, from two hours until one hour ago", v)
	}
	a.from, a.to = time.Duration(from), time.Duration(to)
	return nil
}
