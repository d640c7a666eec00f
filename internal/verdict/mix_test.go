package verdict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
)

// written parses an event in PromQL's notation.
func written(counter string) explain.Event {
	name, _, _ := strings.Cut(counter, "{")
	labels := map[string]string{}
	for _, m := range labelled.FindAllStringSubmatch(counter, -1) {
		labels[m[1]] = m[2]
	}
	return explain.EventOf(name, labels)
}

// read makes a point's counters from lines "name median min max runs".
func read(t *testing.T, text string) map[explain.Event]explain.Count {
	t.Helper()
	out := map[explain.Event]explain.Count{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name string
		var c explain.Count
		if _, err := fmt.Sscan(line, &name, &c.Median, &c.Min, &c.Max, &c.Runs); err != nil {
			t.Fatal(err)
		}
		out[written(name)] = c
	}
	return out
}

func TestMixChanges(t *testing.T) {
	const base = `
		calls{syscall="read"} 100 99 101 5
		calls{syscall="write"} 100 99 101 5
		calls{syscall="brk"} 1 1 1 5`
	for _, c := range []struct{ name, before, after, want string }{
		{"the same", base, base, ""},
		{"a new call", base, base + "\ncalls{syscall=\"clock_gettime\"} 1000 998 1004 5", `1: calls{syscall="clock_gettime"} 0 1000`},
		{"a call that is gone", base, strings.Replace(base, `calls{syscall="write"} 100 99 101 5`, "", 1), `1: calls{syscall="write"} 100 0`},
		{"a rare call twice as often", base, strings.Replace(base, "1 1 1", "2 2 2", 1), ""},
		{"ranges that overlap", base, strings.Replace(base, `"read"} 100 99 101`, `"read"} 150 100 160`, 1), ""},
		{"less than a fifth", base, strings.Replace(base, `"read"} 100 99 101`, `"read"} 115 114 116`, 1), ""},
		{"too few runs", base, strings.ReplaceAll(strings.Replace(base, `"read"} 100 99 101`, `"read"} 300 299 301`, 1), " 5", " 2"), ""},
		{"two, the larger difference first", base, strings.NewReplacer(`"read"} 100 99 101`, `"read"} 50 50 50`, `"write"} 100 99 101`, `"write"} 300 290 310`).Replace(base),
			`1: calls{syscall="write"} 100 300, calls{syscall="read"} 100 50`},
		{"a metric that was not counted before", base, base + "\nfaults 9 9 9 5", ""},
		{"nothing counted at all", base, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, m := range mixChanges([]Point{{Counters: read(t, c.before)}, {Counters: read(t, c.after)}}) {
				var list []string
				for _, s := range m.Shifts {
					list = append(list, fmt.Sprintf("%s %g %g", s.Event, s.Before.Median, s.After.Median))
				}
				got = append(got, fmt.Sprintf("%d: %s", m.Index, strings.Join(list, ", ")))
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	// A point without counters is skipped, not read as zeros.
	x := read(t, base)
	if got := mixChanges([]Point{{Counters: x}, {}, {Counters: x}}); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestMixOfFewEvents: one additional fault in a run is chance if a run is many operations.
func TestMixOfFewEvents(t *testing.T) {
	counted := func(value, operations float64) map[explain.Event]explain.Count {
		per := value / operations
		l := redis().each("native", func(r *result.Run) {
			r.Counters = []result.Counter{{Name: "calls", Value: &value, PerOperation: &per, Trust: result.Full}}
		})
		return explain.Counts(newPass(l.Experiment, Options{}).runs(l.Cases[0].ID, "native"))
	}
	for _, c := range []struct {
		before, after, operations float64
		want                      int
	}{
		{0, 2, 40_000, 0},
		{5, 9, 40_000, 0},
		{5, 40, 40_000, 1},
		{3, 4, 1, 1},
		{0, 2, 2, 1},
	} {
		if got := explain.Shifts(counted(c.before, c.operations), counted(c.after, c.operations)); len(got) != c.want {
			t.Errorf("%g and %g events in %g operations: %v, want %d shifts", c.before, c.after, c.operations, got, c.want)
		}
	}
}

// TestCountersOfPartsOfRuns: a run in which a metric was not counted says nothing about it. A call that such a run
// does not name is not a call that was never made.
func TestCountersOfPartsOfRuns(t *testing.T) {
	one := 1.0
	n := 0
	l := redis().each("native", func(r *result.Run) {
		r.Counters = []result.Counter{{Name: "calls", Labels: map[string]string{"syscall": "read"}, PerOperation: &one, Trust: result.Full}}
		if n++; n%2 == 0 {
			r.Counters = append(r.Counters, result.Counter{Name: "faults", Labels: map[string]string{"cause": "write"}, PerOperation: &one, Trust: result.Full})
		}
	})
	p := Point{Counters: explain.Counts(newPass(l.Experiment, Options{}).runs(l.Cases[0].ID, "native"))}
	faults, ok := p.Count(written(`faults{cause="write"}`))
	if calls, _ := p.Count(written(`calls{syscall="read"}`)); !ok || faults.Min != 1 || faults.Median != 1 || faults.Runs != calls.Runs/2 {
		t.Errorf("faults %+v beside calls %+v", faults, calls)
	}
	if c, ok := p.Count(written(`calls{syscall="write"}`)); !ok || c.Median != 0 {
		t.Errorf("a call that was never made: %+v, %v", c, ok)
	}
	if c, ok := p.Count(written("switches")); ok {
		t.Errorf("a metric that was not counted: %+v", c)
	}
}
