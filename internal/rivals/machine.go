package rivals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// Shortage is a machine that is short of CPUs: who takes them, and who waits.
type Shortage struct {
	// Takers use the CPUs that the first of Waiters waits for; without one, those that use the most.
	Takers []Part
	// Waiters are the processes that wait at least half of the time in which their threads could run, in threads that
	// wait: first those that give CPUs back by themselves, and of these those that the waiting slows down most.
	Waiters []Part
	// Evidence are the numbers of Takers, with their queries and without their values.
	Evidence []query.Evidence
}

// The limits for who waits: threads that wait on average, and the share of waiting in the time in which its threads
// could have run.
const (
	leastWaiting     = 0.02
	leastWaitedShare = 0.5
)

// Short returns who takes the CPUs of a machine, and who waits for one. of.Process is not used.
func Short(ctx context.Context, q query.Querier, of Question) (Shortage, error) {
	var s Shortage
	list, series, err := of.standings(ctx, q)
	if err != nil {
		return s, err
	}
	waiting := slices.DeleteFunc(slices.Clone(list), func(p Standing) bool {
		return p.Name == folded || p.Waits < leastWaiting || p.Waits < leastWaitedShare*(p.Waits+p.Cores)
	})
	slices.SortStableFunc(waiting, func(a, b Standing) int {
		return cmp.Or(compareBool(a.Greedy, b.Greedy), cmp.Compare(b.slowdown(), a.slowdown()), strings.Compare(a.Name, b.Name))
	})
	for _, p := range waiting {
		s.Waiters = append(s.Waiters, Part{Name: p.Name, Value: p.Waits})
	}
	if len(waiting) > 0 {
		of.Process = waiting[0].Name
		c, err := Find(ctx, q, of)
		if err != nil {
			return s, err
		}
		if lead := c.Lead(); len(lead) > 0 && lead[0].Value > c.Own {
			s.Takers, s.Evidence = lead, c.Evidence(of.Process)
		}
	}
	if s.Takers == nil {
		slices.SortStableFunc(list, func(a, b Standing) int {
			return cmp.Or(cmp.Compare(b.Cores, a.Cores), strings.Compare(a.Name, b.Name))
		})
		var all []Part
		for _, p := range list {
			if p.Cores >= leastTaken {
				all = append(all, Part{Name: p.Name, Value: p.Cores, Unit: "cores"})
			}
		}
		if len(all) > 0 && all[0].Value >= leastNamed {
			s.Takers = Leading(all)
		}
		for _, p := range s.Takers {
			s.Evidence = append(s.Evidence, query.Evidence{Text: "CPU time of " + named(p.Name), Unit: "cores",
				Expr: query.SumRate(of.process(p.Name, "").Select(series), of.window())})
		}
	}
	return s, nil
}

// Sentence says who takes the CPUs, and who waits if that is known ("compile takes 97 % of a core; paysvc and 5 others wait.").
func (s Shortage) Sentence() string { return UsagePhrase(s.Takers, "takes") + s.waiting() }

// Counted is Sentence for takers that are counted in events: "paylog makes 489 synchronising calls a second; db waits."
// Where nothing says who waits, it is about the takers alone.
func (s Shortage) Counted(verb, what string, waits bool) string {
	out := phrase(s.Takers, verb, func(p Part) string { return metric.Count(p.Value) }) + " " + what
	if !waits {
		return out + "."
	}
	return out + s.waiting()
}

// waiting ends a sentence about the takers.
func (s Shortage) waiting() string {
	if len(s.Waiters) == 0 {
		return "."
	}
	others := slices.DeleteFunc(slices.Clone(s.Waiters), func(w Part) bool {
		return slices.ContainsFunc(s.Takers, func(t Part) bool { return t.Name == w.Name })
	})
	switch n := len(others); {
	case n == 0 && len(s.Takers) > 1:
		return "; their own threads wait."
	case n == 0:
		return "; its own threads wait."
	case n == 1:
		return "; " + others[0].Name + " waits."
	case n == 2:
		return "; " + others[0].Name + " and " + others[1].Name + " wait."
	default:
		return fmt.Sprintf("; %s and %d others wait.", others[0].Name, n-1)
	}
}

// Standing is what a process gets of the CPUs, and what it waits.
type Standing struct {
	Name   string
	Cores  float64 // CPU time per second
	Waits  float64 // threads that wait for a CPU, on average
	Greedy bool    // as in Contest
}

// slowdown is how many times as long its work takes as without waiting.
func (p Standing) slowdown() float64 { return (p.Cores + p.Waits) / max(p.Cores, 1e-6) }

// standings returns every process of the machine that ran or waited in the window, and the series of its CPU time.
func (of Question) standings(ctx context.Context, q query.Querier) (list []Standing, series string, err error) {
	known := map[string]*Standing{}
	read := func(expr string, put func(*Standing, metric.Point)) (int, error) {
		points, err := q.Query(ctx, expr, of.To)
		for _, p := range points {
			name := p.Labels["process"]
			if known[name] == nil {
				known[name] = &Standing{Name: name}
			}
			put(known[name], p)
		}
		return len(points), err
	}
	rate := func(series, matchers string) string {
		return of.machine(of.window()).Expand("sum by (process) ($rate(" + series + "{$here" + matchers + "})) > 0")
	}
	cores := func(s *Standing, p metric.Point) { s.Cores = p.Value }
	series = cpuTime
	n, err := read(rate(series, ""), cores)
	if err == nil && n == 0 {
		series = cpuSampled
		_, err = read(rate(series, ""), cores)
	}
	if err == nil {
		_, err = read(rate(waited, `,state="cpu"`), func(s *Standing, p metric.Point) { s.Waits = p.Value })
	}
	if err == nil {
		_, err = read(of.greedy(""), func(s *Standing, _ metric.Point) { s.Greedy = true })
	}
	for _, s := range known {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Standing) int { return strings.Compare(a.Name, b.Name) })
	return list, series, err
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
