package rivals_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
	"github.com/teescope/teescope/internal/store/storetest"
)

var vm1 = query.Machine{Job: "teescope", Instance: "vm1"}

// load writes series of vm1, a reading every 5 s; values is as in PromQL's test notation.
func load(series ...string) string {
	var out strings.Builder
	out.WriteString("load 5s\n")
	for _, s := range series {
		fmt.Fprintln(&out, "  "+strings.NewReplacer("cpu(", `tee_process_cpu_seconds_total{job="teescope",instance="vm1",process="`,
			"wait(", `tee_sampled_wait_seconds_total{job="teescope",instance="vm1",state="cpu",call="",process="`,
			"sampled(", `tee_sampled_cpu_seconds_total{job="teescope",instance="vm1",mode="user",call="",process="`,
			"recorded(", `process:tee_process_cpu_seconds:rate1m{job="teescope",instance="vm1",process="`,
			"busy(", `node_cpu_seconds_total{job="teescope",instance="vm1",mode="user",cpu="`,
			")", `"}`).Replace(s))
	}
	return out.String()
}

func ask(from, to int) rivals.Question {
	return rivals.Question{Process: "svc", Machine: vm1, From: time.Unix(int64(from), 0), To: time.Unix(int64(to), 0)}
}

// takers writes a contest's takers: "a=0.5 b<=0.2".
func takers(list []rivals.Part) string {
	var out []string
	for _, p := range list {
		sign := "="
		if p.AtMost {
			sign = "<="
		}
		out = append(out, fmt.Sprintf("%s%s%.3g", p.Name, sign, p.Value))
	}
	return strings.Join(out, " ")
}

// TestFind: only what ran while the process waited, in the window, on CPUs that it may use.
func TestFind(t *testing.T) {
	bound := map[string]rivals.Place{"svc": {CPUs: []int{1}}, "near": {CPUs: []int{1}}, "far": {CPUs: []int{0}}, "free": {}}
	for _, tt := range []struct {
		name     string
		series   []string
		from, to int
		places   map[string]rivals.Place
		want     string
		own      float64
		text     string
		notes    int
	}{
		{
			name:   "one that ended before the window, and one that ran while nothing waited, do not count",
			series: []string{"cpu(svc) 0+0.5x240", "wait(svc) 0+0x120 0+4x120", "cpu(now) 0+0x120 0+2.5x120", "cpu(early) 0+5x60", "cpu(quiet) 0+5x119 600+0x121"},
			from:   300, to: 1200, want: "now=0.497", own: 0.1, notes: 1,
			text: "While svc waited, now used 49.7 % of a core; it used 10 % of a core itself.",
		},
		{
			name:   "processes on other CPUs do not count, and those on all CPUs at most with what is left",
			series: []string{"cpu(svc) 0+0.5x60", "wait(svc) 0+4x60", "cpu(near) 0+3x60", "cpu(far) 0+5x60", "cpu(free) 0+4x60", "busy(0) 0+5x60", "busy(1) 0+5x60"},
			from:   0, to: 300, places: bound, want: "near=0.6 free<=0.3", own: 0.1,
			text: "While svc waited on CPU 1, near used 60 % of a core and free at most 30 % of a core; it used 10 % of a core itself.",
		},
		{
			name:   "without the kernel's account that of the samples counts",
			series: []string{"sampled(svc) 0+0.5x60", "wait(svc) 0+4x60", "sampled(a) 0+2x60"},
			from:   0, to: 300, want: "a=0.4", own: 0.1, notes: 1,
			text: "While svc waited, a used 40 % of a core; it used 10 % of a core itself.",
		},
		{
			name:   "when it waits is not known",
			series: []string{"cpu(svc) 0+0.5x60", "cpu(a) 0+2x60"},
			from:   0, to: 300, want: "a=0.4", own: 0.1, notes: 2,
			text: "While svc waited, a used 40 % of a core; it used 10 % of a core itself.",
		},
		{
			name:   "nobody",
			series: []string{"cpu(svc) 0+0.5x60", "wait(svc) 0+4x60"},
			from:   0, to: 300, want: "", own: 0.1, notes: 1,
			text: "No other process used 5 % of a core while svc waited: a quota, its own threads, or a host that takes the CPU away makes it wait.",
		},
		{
			name:   "a long window asks the recorded rates",
			series: []string{"wait(svc) 0+4x1440", "recorded(a) 0.25x1440", "cpu(a) 0+4x1440"},
			from:   0, to: 7200, want: "a=0.25", notes: 1,
			text: "While svc waited, a used 25 % of a core; it used 0 % of a core itself.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := storetest.Load(t, load(tt.series...))
			q := ask(tt.from, tt.to)
			q.Places = tt.places
			c, err := rivals.Find(t.Context(), st, q)
			if err != nil {
				t.Fatal(err)
			}
			if got := takers(c.Takers); got != tt.want || math.Abs(c.Own-tt.own) > 1e-6 || c.Text != tt.text || len(c.Notes) != tt.notes {
				t.Errorf("takers %q, own %v, %q, notes %q; want %q, %v, %q and %d notes", got, c.Own, c.Text, c.Notes, tt.want, tt.own, tt.text, tt.notes)
			}
			q.Job = "" // as an explanation that names no job
			if d, err := rivals.Find(t.Context(), st, q); err != nil || d.Text != c.Text {
				t.Errorf("without a job: %q, %v", d.Text, err)
			}
			for i, ev := range c.Evidence("svc") {
				points, err := st.Query(t.Context(), ev.Expr, q.To)
				if p := c.Lead()[i]; err != nil || len(points) != 1 || !p.AtMost && math.Abs(points[0].Value-p.Value) > 1e-9 {
					t.Errorf("%s: %s gives %v, %v, want %v", ev.Text, ev.Expr, points, err, p.Value)
				}
			}
		})
	}
}

// TestShort: of those that wait, one that gives CPUs back by itself comes before one that does not, and takers are not among
// those that wait in the sentence.
func TestShort(t *testing.T) {
	switches := func(process, kind, values string) string {
		return fmt.Sprintf("tee_context_switches_total{job=\"teescope\",instance=\"vm1\",process=%q,kind=%q} %s", process, kind, values)
	}
	st := storetest.Load(t, load("cpu(hog) 0+8x60", "wait(hog) 0+20x60", "cpu(batch) 0+0.5x60", "wait(batch) 0+4.5x60", "cpu(svc) 0+0.5x60", "wait(svc) 0+2x60",
		"cpu(idle) 0+0.05x60", "wait(idle) 0+0.02x60", "wait(other) 0+20x60")+
		"  "+switches("batch", "voluntary", "0x60")+"\n  "+switches("batch", "involuntary", "0+100x60")+"\n  "+switches("svc", "voluntary", "0+100x60")+"\n  "+switches("svc", "involuntary", "0+100x60")+"\n")
	s, err := rivals.Short(t.Context(), st, ask(0, 300))
	if want := "hog takes 160 % of a core; svc and batch wait."; err != nil || s.Sentence() != want {
		t.Errorf("%q, %v, want %q", s.Sentence(), err, want)
	}
	for _, tt := range []struct {
		s    rivals.Shortage
		want string
	}{
		{rivals.Shortage{Takers: []rivals.Part{{Name: "a", Value: 0.5, Unit: "cores"}}}, "a takes 50 % of a core."},
		{rivals.Shortage{Takers: []rivals.Part{{Name: "a", Value: 0.5, Unit: "cores"}}, Waiters: []rivals.Part{{Name: "a"}}}, "a takes 50 % of a core; its own threads wait."},
		{rivals.Shortage{Takers: []rivals.Part{{Name: "a", Value: 0.5, Unit: "cores"}, {Name: "other", Value: 0.4, Unit: "cores"}}, Waiters: []rivals.Part{{Name: "a"}}},
			"a takes 50 % of a core and processes without a name of their own 40 % of a core; their own threads wait."},
		{rivals.Shortage{Takers: []rivals.Part{{Name: "a", Value: 1, Unit: "cores"}}, Waiters: []rivals.Part{{Name: "b"}, {Name: "c"}, {Name: "d"}}}, "a takes 100 % of a core; b and 2 others wait."},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if got := tt.s.Sentence(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
