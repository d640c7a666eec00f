package probe

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

var (
	depth = &metric.Desc{Name: "tee_depth", Kind: metric.Gauge, Help: "Depth.", Labels: []string{"queue"}}
	share = &metric.Desc{Name: "tee_share_ratio", Kind: metric.Gauge, Help: "Share."}
	times = &metric.Desc{Name: "tee_times_seconds", Kind: metric.Histogram, Help: "Times."}
)

// TestNamesStayApart: names that are no text become text once, and different ones stay different.
func TestNamesStayApart(t *testing.T) {
	own := []string{"cass\xe8"}
	f := &fake{samples: []metric.Sample{{Desc: calls, Labels: own, Value: 7}, {Desc: calls, Labels: []string{"cass\xe9"}, Value: 8},
		{Desc: calls, Labels: []string{`cass\xe9`}, Value: 9}, {Desc: calls, Labels: []string{"caf\u00e9 \ufffd"}, Value: 10}}}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	got := text(t, e)
	for _, want := range []string{`{process="cass\\xe8"} 7`, `{process="cass\\xe9"} 8`, `{process="cass\\x5cxe9"} 9`, `{process="café \\xef\\xbf\\xbd"} 10`} {
		t.Run(want, func(t *testing.T) {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		})
	}
	if own[0] != "cass\xe8" {
		t.Errorf("the reader's own labels became %q", own)
	}
	if s := e.Status()[0]; s.State != Available {
		t.Errorf("state %s: %s", s.State, s.Reason)
	}
}

// TestTidy: what cannot be shown is refused with the reason, and nothing else is lost.
func TestTidy(t *testing.T) {
	good := metric.Sample{Desc: calls, Labels: []string{"good"}, Value: 1}
	hist := func(sum float64, n ...uint64) metric.Sample {
		return metric.Sample{Desc: times, Hist: &metric.Hist{Bounds: []float64{1}, Counts: n, Sum: sum}}
	}
	for name, c := range map[string]struct {
		samples    []metric.Sample
		want, fail string
	}{
		"counters are added": {[]metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: 3}, {Desc: calls, Labels: []string{"a"}, Value: 4}},
			`tee_calls_total{process="a"} 7`, "added up"},
		"histograms are added": {[]metric.Sample{hist(1, 2, 3), hist(4, 5, 6)}, "tee_times_seconds_count 16", "added up"},
		"a gauge is not": {[]metric.Sample{{Desc: depth, Labels: []string{"q"}, Value: 3}, {Desc: depth, Labels: []string{"q"}, Value: 4}},
			`tee_depth{queue="q"} 3`, "the first value counts"},
		"negative":    {[]metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: -1}}, "", `tee_calls_total{process="a"} is -1, less than 0`},
		"wrapped":     {[]metric.Sample{{Desc: depth, Labels: []string{"q"}, Value: 1<<64 - 1}}, "", "has wrapped below 0"},
		"NaN":         {[]metric.Sample{{Desc: share, Value: math.NaN()}}, "", "is not a number"},
		"a share":     {[]metric.Sample{{Desc: share, Value: 1.1}}, "", "more than 1"},
		"coverage":    {[]metric.Sample{{Desc: Coverage, Value: 2}}, "", "teescope_source_coverage_ratio"},
		"a sum":       {[]metric.Sample{hist(-1, 2, 3)}, "", "tee_times_seconds is -1"},
		"labels":      {[]metric.Sample{{Desc: calls, Value: 1}}, "", "want 1 labels"},
		"not a whole": {[]metric.Sample{hist(1, 2)}, "", "not a whole histogram"},
		"no metric":   {[]metric.Sample{{Value: 1}}, "", "without a metric"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Tidy(append(append([]metric.Sample{good}, c.samples...), metric.Sample{Desc: Missed, Value: 5}))
			page := string(metric.AppendText(nil, got))
			if !strings.Contains(page, `{process="good"} 1`) || got[len(got)-1].Desc != Missed {
				t.Errorf("%s: a good sample is lost:\n%s", name, page)
			}
			if want := 2 + min(1, len(c.want)); len(got) != want || !strings.Contains(page, c.want) {
				t.Errorf("%s: want %q, not\n%s", name, c.want, page)
			}
			if err == nil || !strings.Contains(err.Error(), c.fail) {
				t.Errorf("%s: error %v, want %q", name, err, c.fail)
			}
		})
	}
}

// TestOneSourceEach: a series is one source's. The state of the other says so.
func TestOneSourceEach(t *testing.T) {
	x := &fake{samples: []metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: 3}}}
	y := &fake{samples: []metric.Sample{{Desc: calls, Labels: []string{"a"}, Value: 4}, {Desc: calls, Labels: []string{"b"}, Value: 5}}}
	e := Open(clock(), nil, []*Source{x.source("x"), y.source("y")}, nil)
	for range 2 {
		got := text(t, e)
		if !strings.Contains(got, `{process="a"} 3`) || strings.Contains(got, `{process="a"} 4`) || !strings.Contains(got, `{process="b"} 5`) {
			t.Errorf("samples\n%s", got)
		}
		if s := e.Status(); s[0].State != Available || s[1].State != Degraded || !strings.Contains(s[1].Reason, "another source has") {
			t.Errorf("%s and %s: %s", s[0].State, s[1].State, s[1].Reason)
		}
	}
}

// breaking is a reader that panics in the call of that name.
type breaking struct{ in string }

func (b *breaking) maybe(call string) {
	if b.in == call {
		var none []int
		none[len(call)] = 1
	}
}

func (b *breaking) Read(_ context.Context, emit func(metric.Sample)) error {
	emit(metric.Sample{Desc: calls, Labels: []string{"before"}, Value: 1})
	b.maybe("Read")
	return nil
}

func (b *breaking) Close() error                 { b.maybe("Close"); return nil }
func (b *breaking) Attach() error                { b.maybe("Attach"); return nil }
func (b *breaking) Detach() error                { b.maybe("Detach"); return nil }
func (b *breaking) Limit([]float64, func()) bool { b.maybe("Limit"); return false }
func (b *breaking) Spent() (float64, []float64)  { b.maybe("Spent"); return 0, nil }
func (b *breaking) Adjust(string, Scope) error   { b.maybe("Adjust"); return nil }
func (b *breaking) Follow([]string) error        { b.maybe("Follow"); return nil }

// TestPanics: a panic of a source is its error, in whichever call. The others go on, and what it emitted before counts.
func TestPanics(t *testing.T) {
	for _, call := range []string{"Open", "Read", "Close", "Attach", "Detach", "Spent", "Limit", "Adjust", "Follow"} {
		t.Run(call, func(t *testing.T) {
			b := &breaking{in: call}
			bad := &Source{Name: "bad", Doc: "Breaks.", Metrics: []*metric.Desc{calls}, Files: &Files{Example: "/x"}, Open: func(*host.Host, []tee.Facts) (Reader, error) {
				b.maybe("Open")
				return b, nil
			}}
			good := &fake{samples: []metric.Sample{{Desc: depth, Labels: []string{"q"}, Value: 1}}}
			e := Open(clock(), nil, []*Source{bad, good.source("good")}, nil)
			files := []string{"/x"}
			_ = e.Set("bad", Setting{Files: &files})
			for range 2 {
				got := text(t, e)
				if !strings.Contains(got, `tee_depth{queue="q"} 1`) || call != "Open" && !strings.Contains(got, `{process="before"} 1`) {
					t.Errorf("%s: samples\n%s", call, got)
				}
			}
			s := e.Status()
			if call == "Read" && (s[0].State != Degraded || !strings.Contains(s[0].Reason, "reading source bad crashed: runtime error: index out of range [4] with length 0 (samples_test.go:")) ||
				call == "Open" && s[0].State != Unavailable || s[1].State != Available {
				t.Errorf("%s: %s: %s; %s", call, s[0].State, s[0].Reason, s[1].State)
			}
			if err := e.Close(); (err != nil) != (call == "Close") {
				t.Errorf("%s: close: %v", call, err)
			}
		})
	}
}
