package verdict

import (
	"fmt"
	"strings"
	"testing"
)

// read makes a point's counters of lines "name median min max runs".
func read(t *testing.T, text string) map[string]Count {
	t.Helper()
	out := map[string]Count{}
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name string
		var c Count
		if _, err := fmt.Sscan(line, &name, &c.Median, &c.Min, &c.Max, &c.Runs); err != nil {
			t.Fatal(err)
		}
		out[name] = c
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
					list = append(list, fmt.Sprintf("%s %g %g", s.Counter, s.Before.Median, s.After.Median))
				}
				got = append(got, fmt.Sprintf("%d: %s", m.Index, strings.Join(list, ", ")))
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
	// A point without counters is passed over, not taken for one that does nothing.
	x := read(t, base)
	if got := mixChanges([]Point{{Counters: x}, {}, {Counters: x}}); got != nil {
		t.Errorf("got %v", got)
	}
}
