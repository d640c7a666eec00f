package report

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestPanicInFormat: a format that panics is an error with its name, and nothing is written.
func TestPanicInFormat(t *testing.T) {
	f := &Format{Name: "planted", Print: func(w io.Writer, d Document) error {
		fmt.Fprintln(w, "half of it")
		_ = d.Experiments[0]
		return nil
	}}
	var b bytes.Buffer
	err := f.Write(&b, Document{})
	if want := "writing the format planted crashed: runtime error: index out of range"; err == nil || !strings.HasPrefix(err.Error(), want) || b.Len() > 0 {
		t.Errorf("%v, and %q is written", err, b.String())
	}
}

func TestMissingHasReason(t *testing.T) {
	nan := math.NaN()
	for _, c := range []Cell{ValueOrMissing(nil, "seconds", "the tool did not say"), ValueOrMissing(&nan, "seconds", "the tool did not say"), Text(" ", "the tool did not say")} {
		if c.Text != "missing" || c.Reason != "the tool did not say" {
			t.Errorf("%+v", c)
		}
	}
	if c := Missing(""); c.Reason == "" {
		t.Error("no reason for having no reason")
	}
}

// TestOriginIsSaid: the source of an experiment and its corrections are facts of the report.
func TestOriginIsSaid(t *testing.T) {
	said := func(e *result.Experiment) (texts []string) {
		for _, f := range designFacts(e) {
			texts = append(texts, f.Text)
		}
		return texts
	}
	published := said(&result.Experiment{Origin: &result.Origin{Source: "a paper of 2020", Corrects: "Its clock misleads."}})
	for _, want := range []string{"a paper of 2020", "Its clock misleads."} {
		t.Run(want, func(t *testing.T) {
			if !slices.Contains(published, want) {
				t.Errorf("%q is not said in %q", want, published)
			}
		})
	}
	if own := said(&result.Experiment{}); len(own) != len(published)-2 {
		t.Errorf("without an origin %q", own)
	}
}

// TestServersAreSaid: each server that answered is named once.
func TestServersAreSaid(t *testing.T) {
	of := func(v string) result.Software {
		return result.Software{Versions: map[string]string{"fio": "3", result.ServerVersion: v}}
	}
	facts := designFacts(&result.Experiment{Environments: []result.Environment{{Software: of("A 12")}, {Software: of("B 2")}, {}, {Software: of("A 1")}, {Software: of("A 12")}}})
	if !slices.Contains(facts, Fact{"Server, in its own words", "A 12; B 2; A 1"}) {
		t.Errorf("%q", facts)
	}
}

// TestTicks: a few round values inside the axis, whatever its span.
func TestTicks(t *testing.T) {
	for _, v := range [][]float64{{0.0124, 0.0391}, {1e-9, 1e9}, {5, 5}, {0, 0}, {-3, 4}, {1, 12}, {99.9, 100.1}, {1e-90, 1e90}, {1e-300, 1e300}, {-1e308, 1e308}, nil, {math.NaN()}} {
		a := newAxis(v, 0, 500)
		ticks := a.ticks(6)
		if len(ticks) < 2 || len(ticks) > 9 {
			t.Errorf("%v gives the ticks %v", v, ticks)
		}
		for _, x := range ticks {
			if px := a.at(x); !finite(px) || px < -0.01 || px > 500.01 {
				t.Errorf("%v: tick %v stands at %v", v, x, px)
			}
		}
		if !slices.IsSorted(ticks) {
			t.Errorf("%v: %v", v, ticks)
		}
	}
	a := ratioAxis([]float64{0.97, 1.05}, 0.03, 0, 300)
	if got := ratioLabels(a)(1); got != "same" {
		t.Errorf("1 is called %q", got)
	}
}

func TestTicksOfBytes(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{{[]float64{1 << 30, 38e9}, "[1 GiB 2 GiB 4 GiB 8 GiB 16 GiB 32 GiB]"}, {[]float64{1.2e9, 3.4e9}, "[1 GiB 1.5 GiB 2 GiB 2.5 GiB 3 GiB]"}, {[]float64{1, 1e15}, "[1 B 512 B 256 KiB 128 MiB 64 GiB 32 TiB]"}} {
		t.Run(c.want, func(t *testing.T) {
			var got []string
			for _, v := range newAxis(c.values, 0, 1).ticksOf("bytes", 6) {
				got = append(got, metric.Value(v, "bytes"))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v: %v, want %s", c.values, got, c.want)
			}
		})
	}
}

func TestSweeps(t *testing.T) {
	e := &result.Experiment{}
	for _, rw := range []string{"read", "write"} {
		for _, bs := range []string{"64k", "4k", "1M"} {
			e.Cases = append(e.Cases, result.Case{ID: "rw=" + rw + ",bs=" + bs, Params: map[string]string{"rw": rw, "bs": bs, "depth": "32"}})
		}
	}
	got := fmt.Sprint(sweeps(e))
	want := "[{bs rw=read [4096 65536 1.048576e+06] [rw=read,bs=4k rw=read,bs=64k rw=read,bs=1M]} {bs rw=write [4096 65536 1.048576e+06] [rw=write,bs=4k rw=write,bs=64k rw=write,bs=1M]}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, none := range [][]result.Case{nil, {{ID: "default"}}, {{ID: "a", Params: map[string]string{"rw": "read"}}, {ID: "b", Params: map[string]string{"rw": "write"}}}} {
		if s := sweeps(&result.Experiment{Cases: none}); s != nil {
			t.Errorf("%v has the sweeps %v", none, s)
		}
	}
}

// TestTellingCase: a refused ratio, however large, does not select the drawn case.
func TestTellingCase(t *testing.T) {
	cost := func(kase string, v float64, verdict stats.Verdict) result.Comparison {
		return result.Comparison{Primary: true, Case: kase, Cost: &v, Verdict: verdict}
	}
	e := &result.Experiment{Cases: []result.Case{{ID: "first"}, {ID: "small"}, {ID: "large"}, {ID: "refused"}}}
	e.Comparisons = []result.Comparison{cost("refused", 99, stats.Invalid)}
	if got := tellingCase(e); got != "first" {
		t.Errorf("with nothing but a refused ratio it is %s", got)
	}
	e.Comparisons = append(e.Comparisons, cost("small", 1.1, stats.Cost), cost("large", 2, stats.Inconclusive))
	if got := tellingCase(e); got != "large" {
		t.Errorf("it is %s", got)
	}
}

// TestBoundOfCost: where higher is better the cost is the inverse, and so is its bound.
func TestBoundOfCost(t *testing.T) {
	e := &result.Experiment{Workload: result.Workload{Metrics: []result.MetricDesc{{Name: "rate", Better: "higher"}, {Name: "time", Better: "lower"}}}}
	for _, c := range []struct {
		metric string
		bound  result.Bound
		want   string
	}{{"time", result.AtMost, "≤ "}, {"rate", result.AtMost, "≥ "}, {"rate", result.AtLeast, "≤ "}, {"time", result.Exact, ""}, {"unknown", result.AtLeast, "≥ "}} {
		t.Run(c.metric, func(t *testing.T) {
			if got := bound(e, &result.Comparison{Metric: c.metric, Bound: c.bound}); got != c.want {
				t.Errorf("%s of %s is %q, want %q", c.bound, c.metric, got, c.want)
			}
		})
	}
}

// TestLadderChains: steps between neighbours stand on each other, steps against
// the baseline all begin at 1, and a chain with a gap is not drawn.
func TestLadderChains(t *testing.T) {
	two, three, six := 2.0, 3.0, 6.2
	step := func(base, treat string, cost *float64, n int) result.Comparison {
		return result.Comparison{Baseline: base, Treatment: treat, Primary: true, Cost: cost, Rung: n}
	}
	envs := []result.Environment{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	for name, c := range map[string]struct {
		comparisons []result.Comparison
		want        string
	}{
		"neighbours": {[]result.Comparison{step("b", "c", &three, 2), step("a", "b", &two, 1), step("a", "c", &six, 0)}, "1-2 2-6 1-6.2"},
		"baseline":   {[]result.Comparison{step("a", "b", &two, 1), step("a", "c", &six, 2)}, "1-2 1-6.2"},
		"gap":        {[]result.Comparison{step("a", "b", nil, 1), step("b", "c", &three, 2)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range rungsOf(&result.Experiment{Environments: envs, Comparisons: c.comparisons}, "") {
				got = append(got, fmt.Sprintf("%v-%v", r.from, r.to))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%s: %q, want %q", name, s, c.want)
			}
		})
	}
}

// TestRasterIsTheDrawing: fills, overlapping strokes and dashes appear in their colours where the scene has them, and
// nowhere else.
func TestRasterIsTheDrawing(t *testing.T) {
	s := &scene{w: 60, h: 40}
	s.rect(10, 10, 20, 20, bad)
	s.path([]point{{35, 5}, {50, 20}, {35, 35}}, 4, accent)
	s.line(0, 38, 60, 38, 2, good).dashed = true
	b, err := s.png()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x, y int
		want ink
	}{{20, 20, bad}, {5, 5, surface}, {42, 12, accent}, {50, 20, accent}, {2, 38, good}, {7, 38, surface}} {
		r, g, b, _ := img.At(c.x*2, c.y*2).RGBA()
		w := light.rgba(c.want)
		if uint8(r>>8) != w.R || uint8(g>>8) != w.G || uint8(b>>8) != w.B {
			t.Errorf("at %d,%d is %02x%02x%02x, want %s", c.x, c.y, r>>8, g>>8, b>>8, light.hex(c.want))
		}
	}
}

// TestColoursOfThePage: the report and the web page look alike.
func TestColoursOfThePage(t *testing.T) {
	css, err := os.ReadFile("../../ui/src/tokens.css")
	if err != nil {
		t.Fatal(err)
	}
	lightCSS, darkCSS, ok := strings.Cut(string(css), `[data-mantine-color-scheme="dark"]`)
	if !ok {
		t.Fatal("tokens.css has no dark theme")
	}
	for _, c := range []struct {
		theme theme
		css   string
	}{{light, lightCSS}, {dark, darkCSS}} {
		t.Run(c.css, func(t *testing.T) {
			for _, i := range roles {
				if want := fmt.Sprintf("--%s: %s;", i, c.theme.hex(i)); !strings.Contains(c.css, want) {
					t.Errorf("tokens.css does not say %s", want)
				}
			}
			if len(c.theme) != len(roles) {
				t.Errorf("%d colours for %d roles", len(c.theme), len(roles))
			}
		})
	}
}

func TestShellLine(t *testing.T) {
	if got, want := shellLine([]string{"teescope", "--param", "threads=1 2", "it's", ""}), `teescope --param 'threads=1 2' 'it'\''s' ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestCountersAddUp: a counter is the sum over the processes of a run, and a kind of event that a run's total does
// not name counts as 0 in it.
func TestCountersAddUp(t *testing.T) {
	run := func(env string, counts ...result.Counter) result.Run {
		total := 0.0
		for _, c := range counts {
			total += *c.Value
		}
		all := result.Counter{Name: "tee_syscalls_total", Value: &total, Scope: "process", Trust: result.Full}
		return result.Run{Env: env, Case: "default", Status: result.OK, Counters: append(counts, all)}
	}
	count := func(process, call string, v float64) result.Counter {
		c := result.Counter{Name: "tee_syscalls_total", Labels: map[string]string{"process": process}, Value: &v, Scope: "process", Trust: result.Full}
		if call != "" {
			c.Labels["syscall"] = call
		}
		return c
	}
	e := &result.Experiment{Environments: []result.Environment{{ID: "base"}, {ID: "treat"}}, Runs: []result.Run{
		run("base", count("micro", "read", 9)), run("base", count("micro", "read", 9), count("micro", "getppid", 500)), run("base", count("micro", "read", 9)),
		run("treat", count("exe", "read", 8), count("runsc", "read", 3)), run("treat", count("exe", "read", 8), count("runsc", "read", 3), count("exe", "", 0)),
	}}
	got := map[string]string{}
	for _, k := range counters(e, "default") {
		text := ""
		for _, a := range k.arms {
			if a.value == nil {
				text += a.reason + "; "
			} else {
				text += fmt.Sprint(*a.value) + "; "
			}
		}
		if got[k.name()] != "" {
			t.Errorf("%s is there twice", k.name())
		}
		got[k.name()] = text
	}
	want := map[string]string{"syscalls": "9; 11; ", "syscalls, read": "9; 11; ", "syscalls, getppid": "0; this counter has no reading in this arm; "}
	for name, text := range want {
		t.Run(name, func(t *testing.T) {
			if got[name] != text {
				t.Errorf("%s: %q, want %q", name, got[name], text)
			}
		})
	}
	if len(got) != len(want) {
		t.Errorf("counters: %v", got)
	}
}

// TestRangeOfADearerCall: the additional cost of a call is shown with its interval.
func TestRangeOfADearerCall(t *testing.T) {
	p := func(v float64) *float64 { return &v }
	e := &result.Experiment{
		Design:      result.Design{Primary: "x_seconds"},
		Comparisons: []result.Comparison{{Baseline: "native", Treatment: "runsc", Case: "default", Metric: "x_seconds", Primary: true, Verdict: stats.Cost, CostLow: p(1.5), CostHigh: p(2)}},
		Attribution: []result.Attribution{
			{Baseline: "native", Treatment: "runsc", Case: "default", Counter: result.Dearer, Metric: explain.CallCount, Labels: map[string]string{"each": "dearer"}, Delta: 2, UnitCost: p(1e-6), UnitLow: p(8e-7), UnitHigh: p(1.3e-6), Seconds: p(2e-6), Share: p(0.5)},
			{Baseline: "native", Treatment: "runsc", Case: "default", Counter: `tee_syscalls_total{syscall="read"}`, Metric: explain.CallCount, Labels: map[string]string{"syscall": "read"}, Delta: 2, UnitCost: p(1e-7), Seconds: p(2e-7), Share: p(0.3), Unexplained: p(0.2)},
		},
	}
	var costs []string
	for _, row := range attribution(Document{}, e).Rows {
		costs = append(costs, row[2].Text)
	}
	if want := []string{"1 µs (800 ns to 1.3 µs)", "100 ns", "–"}; !slices.Equal(costs, want) {
		t.Errorf("costs of one %q, want %q", costs, want)
	}
	if said := strings.Join(costReasons(Document{}, e, &e.Comparisons[0]), " "); !strings.Contains(said, "2 per operation at 1 µs more each (800 ns to 1.3 µs)") {
		t.Errorf("said %q", said)
	}
}
