package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/store/storetest"
)

// burst is a time in which a task always waits for a CPU; it is for 5 % of the time otherwise.
type burst struct{ from, length float64 }

// waited returns the value of the kernel's counter at a second.
func waited(at float64, bursts []burst) float64 {
	sum := 0.05 * at
	for _, b := range bursts {
		sum += 0.95 * min(max(0, at-b.from), b.length)
	}
	return sum
}

// watched is what a monitor shows at a time.
type watched struct {
	at   float64 // in seconds
	list []findings.Record
}

// watchBursts plays a machine with bursts back to a monitor that starts with it, and returns what it shows after each
// reading.
func watchBursts(t *testing.T, length float64, bursts []burst) (out []watched) {
	t.Helper()
	var text strings.Builder
	text.WriteString("  node_pressure_cpu_waiting_seconds_total{job=\"teescope\",instance=\"vm1\"}")
	for s := 0.0; s <= length; s += 5 {
		fmt.Fprintf(&text, " %g", waited(s, bursts))
	}
	fmt.Fprintf(&text, "\n  node_pressure_memory_waiting_seconds_total{job=\"teescope\",instance=\"vm1\"} 0x%d\n", int(length/5))
	return watchRule(t, "pressure", 5, length, text.String())
}

// watchRule plays series back to a monitor that starts with them and has one rule, and returns what it shows after each
// reading. Readings and series are step seconds apart, evaluations three readings.
func watchRule(t *testing.T, rule string, step int, length float64, series string) (out []watched) {
	t.Helper()
	of := map[string]string{}
	for _, s := range sources.All {
		for _, d := range s.Metrics {
			of[d.Name] = s.Name
		}
	}
	at := time.Unix(0, 0)
	o := findings.DefaultOptions()
	o.Now, o.Started, o.Interval = func() time.Time { return at }, at, time.Duration(step)*time.Second
	o.LeastObserved = min(20*time.Second, 5*o.Interval)
	o.Source = func(metric string) string { return of[metric] }
	i := slices.IndexFunc(All, func(r *findings.Rule) bool { return r.Name == rule })
	e := findings.New([]*findings.Rule{All[i]}, storetest.Load(t, fmt.Sprintf("load %ds\n%s", step, series)), o)
	for s := 0; float64(s) <= length; s += step {
		at = time.Unix(int64(s), 0)
		if s/step%3 == 0 {
			e.Evaluate(t.Context())
		} else {
			e.CheckSubjects(t.Context())
		}
		out = append(out, watched{float64(s), e.Records()})
	}
	return out
}

// labelled returns a series of one machine that grows by so much each step, and then by another amount.
func labelled(series string, calm float64, before int, each float64, steps int) string {
	from := calm * float64(before)
	return fmt.Sprintf("  %s 0+%gx%d %g+%gx%d\n", strings.Replace(series, "{", `{job="teescope",instance="vm1",`, 1), calm, before, from+each, each, steps-1)
}

// TestEarlyStarvation: a busy process of an old monitor that begins to starve has an early finding within 30 s. One that waits
// a little less than the early limit has none in that time, and neither has one that is starved for 15 s.
func TestEarlyStarvation(t *testing.T) {
	const quiet = 240 // readings, 20 minutes
	for name, c := range map[string]struct {
		waits, runs float64 // threads and cores
		steps       int
		early       bool
	}{
		"starved":         {3, 0.2, 40, true},
		"a short burst":   {3, 0.2, 3, false},
		"near the limit":  {1.5, 0.7, 6, false},
		"too few threads": {0.1, 0.005, 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			series := labelled(`tee_sampled_wait_seconds_total{process="paysvc",state="cpu",call=""}`, 0, quiet, 5*c.waits, c.steps) +
				labelled(`tee_sampled_cpu_seconds_total{process="paysvc",mode="user",call=""}`, 2.5, quiet, 5*c.runs, c.steps) +
				fmt.Sprintf("  tee_sample_interval_seconds{job=\"teescope\",instance=\"vm1\",clock=\"wait\"} 0.05x%d\n", quiet+c.steps) +
				fmt.Sprintf("  tee_process_start_time_seconds{job=\"teescope\",instance=\"vm1\",process=\"paysvc\"} 0x%d\n", quiet+c.steps)
			opened := 0.0
			for _, w := range watchRule(t, "cpu_starvation", 5, float64(5*(quiet+c.steps)), series) {
				if len(w.list) == 0 || opened > 0 {
					continue
				}
				opened = w.at - 5*quiet
				if r := w.list[0]; !r.Early || !strings.HasSuffix(r.Sentence, " s).") {
					t.Errorf("%s: after %g s: %+v", name, opened, r)
				}
			}
			if found := opened > 0; found != c.early || opened > 30 {
				t.Errorf("%s: opened after %g s", name, opened)
			}
		})
	}
}

// TestEarlyStarvationOfUnit: a unit that begins to starve has one finding, first an early one and then one of the windows.
// Neither later short looks change its numbers, nor does the name, which meets the limits as well, have one beside it.
func TestEarlyStarvationOfUnit(t *testing.T) {
	const quiet, steps = 240, 80
	at := func(unit, state string) string {
		return fmt.Sprintf(`tee_sampled_unit_seconds_total{process="paysvc",unit=%q,state=%q}`, unit, state)
	}
	series := labelled(`tee_sampled_wait_seconds_total{process="paysvc",state="cpu",call=""}`, 0, quiet, 15, steps) +
		labelled(`tee_sampled_cpu_seconds_total{process="paysvc",mode="user",call=""}`, 2.5, quiet, 2.5, steps) +
		labelled(at("a.service", "running"), 1.25, quiet, 2, steps) +
		labelled(at("b.service", "running"), 1.25, quiet, 0.5, steps) +
		labelled(at("b.service", "cpu"), 0, quiet, 15, steps) +
		fmt.Sprintf("  tee_sample_interval_seconds{job=\"teescope\",instance=\"vm1\",clock=\"wait\"} 0.05x%d\n", quiet+steps) +
		fmt.Sprintf("  tee_process_start_time_seconds{job=\"teescope\",instance=\"vm1\",process=\"paysvc\"} 0x%d\n", quiet+steps)
	early, met := false, false
	for _, w := range watchRule(t, "cpu_starvation", 5, 5*(quiet+steps), series) {
		if len(w.list) == 0 {
			continue
		}
		if r := w.list[0]; len(w.list) > 1 || r.Unit != "b.service" || met && r.Early {
			t.Fatalf("at %g s: %+v, want one finding about b.service", w.at, w.list)
		}
		early, met = early || w.list[0].Early, !w.list[0].Early
		for _, ev := range w.list[0].Evidence {
			if met && strings.Contains(ev.Text, "25s") {
				t.Fatalf("at %g s its windows are met, and it shows %q", w.at, ev.Text)
			}
		}
	}
	if !early || !met {
		t.Errorf("early: %v, windows met: %v", early, met)
	}
}

// TestEarlyStorm: a monitor whose readings come each second names a storm far above the limit after its first five, and one
// near the limit not.
func TestEarlyStorm(t *testing.T) {
	for _, c := range []struct {
		rule, call string
		rate       float64
		within     float64
	}{
		{"vdso_bypass", "clock_gettime", 300_000, 8},
		{"syscall_storm", "getppid", 300_000, 8},
		{"syscall_storm", "getppid", 50_000, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			series := labelled(fmt.Sprintf(`tee_syscalls_total{process="clockhog",syscall=%q}`, c.call), 0, 0, c.rate, 10) +
				labelled(`tee_syscalls_total{process="clockhog",syscall="write"}`, 0, 0, 1000, 10)
			opened := 0.0
			for _, w := range watchRule(t, c.rule, 1, 10, series) {
				if len(w.list) > 0 && opened == 0 {
					opened = w.at
					if r := w.list[0]; !r.Early || r.Subject != "clockhog" {
						t.Errorf("%s: %+v", c.rule, r)
					}
				}
			}
			if found := opened > 0; found != (c.within > 0) || opened > c.within {
				t.Errorf("%s of %g/s: opened after %g s, want at most %g", c.rule, c.rate, opened, c.within)
			}
		})
	}
}

// TestEarly: on a monitor that has watched a calm machine for 20 minutes, a shortage that begins opens a finding within
// 25 s, which says for how long it has been so. Once both windows are met, it is the same finding, and says that no
// more.
func TestEarly(t *testing.T) {
	const begin = 1202.0
	opened, met := 0.0, 0.0
	var first findings.Record
	for _, w := range watchBursts(t, 1600, []burst{{begin, 1000}}) {
		switch {
		case len(w.list) == 0:
			continue
		case len(w.list) > 1 || w.list[0].State != findings.Open:
			t.Fatalf("at %g s: %+v", w.at, w.list)
		}
		r := w.list[0]
		if opened == 0 {
			opened, first = w.at, r
		}
		if r.ID != first.ID || !r.Since.Equal(first.Since) {
			t.Fatalf("at %g s the finding is %s since %v, was %s since %v", w.at, r.ID, r.Since, first.ID, first.Since)
		}
		so := fmt.Sprintf("(so far for %s).", metric.Length(w.at-float64(first.Since.Unix())))
		switch {
		case !r.Early && met == 0:
			met = w.at
			fallthrough
		case !r.Early:
			if strings.Contains(r.Sentence, "so far") {
				t.Errorf("at %g s the windows are met: %s", w.at, r.Sentence)
			}
		case met > 0:
			t.Errorf("at %g s it is early again", w.at)
		case !strings.HasSuffix(r.Sentence, so):
			t.Errorf("at %g s: %s, want %s", w.at, r.Sentence, so)
		}
	}
	if late := opened - begin; late < 15 || late > 25 {
		t.Errorf("it opened after %g s, want 15 to 25", late)
	}
	// 90 % of the long window, with 5 % before: after 268 s, and up to an evaluation later.
	if late := met - begin; late < 260 || late > 290 {
		t.Errorf("its windows are met after %g s, want 260 to 290", late)
	}
}

// TestPause: a shortage that pauses for less than the short window is one finding, before its windows are met and after.
func TestPause(t *testing.T) {
	for _, before := range []float64{60, 900} {
		var first findings.Record
		for _, w := range watchBursts(t, 1600+before, []burst{{1202, before}, {1222 + before, 1000}}) {
			if len(w.list) == 0 && first.ID == "" {
				continue
			}
			if first.ID == "" {
				first = w.list[0]
			}
			if len(w.list) != 1 || w.list[0].ID != first.ID || w.list[0].State != findings.Open {
				t.Fatalf("%g s of shortage and a pause of 20 s: at %g s %+v, want one finding, %s", before, w.at, w.list, first.ID)
			}
			if before == 900 && w.at > 1202+before && w.list[0].Early {
				t.Fatalf("at %g s it is early again", w.at)
			}
		}
		if first.ID == "" {
			t.Fatal("no finding opened")
		}
	}
}

// TestBursts: a burst of less than 19 s opens no early finding, one of 24 s does, whenever it begins between two
// readings. A machine with usual bursts, of 3 s each minute, 15 s each ten minutes and 40 s each hour, opens one an
// hour, for the last.
func TestBursts(t *testing.T) {
	count := func(length float64, bursts []burst) map[string]findings.Record {
		seen := map[string]findings.Record{}
		for _, w := range watchBursts(t, length, bursts) {
			for _, r := range w.list {
				seen[r.ID] = r
			}
		}
		return seen
	}
	for _, tt := range []struct{ length, want float64 }{{18.9, 0}, {24, 5}} {
		var bursts []burst
		for phase := range 5 {
			bursts = append(bursts, burst{float64(600 + 300*phase + phase), tt.length})
		}
		if got := count(2400, bursts); len(got) != int(tt.want) {
			t.Errorf("5 bursts of %g s open %d findings, want %g", tt.length, len(got), tt.want)
		}
	}
	var usual []burst
	for s := 400.0; s < 7600; s += 60 {
		switch {
		case int(s)%3600 == 1000:
			usual = append(usual, burst{s + 2, 40})
		case int(s)%600 == 0+400:
			usual = append(usual, burst{s + 1, 15})
		default:
			usual = append(usual, burst{s + 3, 3})
		}
	}
	got := count(7600, usual)
	if len(got) != 2 {
		t.Errorf("two hours of usual bursts open %d findings, want 2", len(got))
	}
	for _, r := range got {
		if !r.Early || r.State != findings.Closed {
			t.Errorf("%+v, want an early finding that closed", r)
		}
	}
}
