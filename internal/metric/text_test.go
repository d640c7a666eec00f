package metric

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// page has one of everything that the text format treats apart.
func page() []Sample {
	plain := &Desc{Name: "b_plain_total", Help: "A counter without labels."}
	labelled := &Desc{Name: "a_labelled", Help: "A gauge, with \\ and\na line feed in its \"help\".", Kind: Gauge, Labels: []string{"x", "y"}}
	untyped := &Desc{Name: "d_untyped", Help: "From who knows where.", Kind: Untyped}
	hist := &Desc{Name: "c_seconds", Help: "A histogram.", Kind: Histogram, Labels: []string{"op"}}
	return []Sample{
		{Desc: plain, Value: 1 << 52},
		{Desc: labelled, Labels: []string{`back\slash`, "line\nfeed"}, Value: 0.1},
		{Desc: hist, Labels: []string{"read"}, Hist: &Hist{Bounds: []float64{0.001, 0.5, 2}, Counts: []uint64{1, 0, 3, 2}, Sum: 12.25}},
		{Desc: labelled, Labels: []string{`"quoted"`, "grüße"}, Value: math.Inf(1)},
		{Desc: labelled, Labels: []string{"", "minus"}, Value: math.Inf(-1)},
		{Desc: labelled, Labels: []string{"nan", ""}, Value: math.NaN()},
		{Desc: untyped, Value: -3},
		{Desc: untyped, Value: 1e300},
		{Desc: untyped, Value: 1 << 53},
		{Desc: untyped, Value: math.Copysign(0, -1)},
	}
}

func TestAppendText(t *testing.T) {
	samples := page()
	SortByName(samples)
	got := AppendText([]byte("kept\n"), samples)
	const golden = "testdata/page.txt"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestAppendTextParses reads the page back with Prometheus' own parser.
func TestAppendTextParses(t *testing.T) {
	samples := page()[:6] // without the last metric, which repeats a series on purpose
	SortByName(samples)
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(AppendText(nil, samples)))
	if err != nil {
		t.Fatal(err)
	}
	if v := families["b_plain_total"].GetMetric()[0].GetCounter().GetValue(); v != 1<<52 {
		t.Errorf("b_plain_total is %v", v)
	}
	a := families["a_labelled"]
	if a.GetHelp() != samples[0].Desc.Help {
		t.Errorf("help is %q", a.GetHelp())
	}
	for i, m := range a.GetMetric() {
		for j, l := range m.GetLabel() {
			if l.GetValue() != samples[i].Labels[j] {
				t.Errorf("label %s is %q, want %q", l.GetName(), l.GetValue(), samples[i].Labels[j])
			}
		}
	}
	h := families["c_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 6 || h.GetSampleSum() != 12.25 || len(h.GetBucket()) != 4 || h.GetBucket()[2].GetCumulativeCount() != 4 {
		t.Errorf("histogram is %v", h)
	}
}

func TestAppendTextAllocates(t *testing.T) {
	d := &Desc{Name: "tee_syscalls_total", Help: "System calls.", Labels: []string{"process", "syscall"}}
	samples := make([]Sample, 5000)
	for i := range samples {
		samples[i] = Sample{Desc: d, Labels: []string{fmt.Sprint("process", i), "read"}, Value: float64(i)}
	}
	b := AppendText(nil, samples)
	if n := testing.AllocsPerRun(10, func() { b = AppendText(b[:0], samples) }); n != 0 {
		t.Errorf("%v allocations for %d series in a buffer that is large enough", n, len(samples))
	}
}

func TestSortByNameKeepsOrder(t *testing.T) {
	a, b := &Desc{Name: "a"}, &Desc{Name: "b"}
	s := []Sample{{Desc: b, Value: 1}, {Desc: a, Value: 2}, {Desc: b, Value: 3}, {Desc: a, Value: 4}}
	SortByName(s)
	got := fmt.Sprint(s[0].Value, s[1].Value, s[2].Value, s[3].Value)
	if got != "2 4 1 3" {
		t.Errorf("order is %s", got)
	}
}

func TestCheck(t *testing.T) {
	good := []Desc{
		{Name: "tee_x_total", Help: "A."},
		{Name: "node_memory_HugePages_Total", Help: "A.", Kind: Gauge},
		{Name: "tee_x_seconds", Help: "A.", Kind: Histogram, Labels: []string{"process"}},
		{Name: "node_vmstat_pgfault", Help: "A.", Kind: Untyped},
	}
	for _, d := range good {
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	}
	bad := []Desc{
		{Name: "", Help: "A."},
		{Name: "tee-x", Help: "A.", Kind: Gauge},
		{Name: "tee_x", Help: "A."},
		{Name: "tee_x_total", Help: "A.", Kind: Gauge},
		{Name: "tee_x_total", Help: "A.", Kind: Untyped},
		{Name: "tee_x_total", Help: "no sentence"},
		{Name: "tee_x_total", Help: "A.", Labels: []string{"a", "a"}},
		{Name: "tee_x_total", Help: "A.", Labels: []string{"le"}},
		{Name: "tee_x_total", Help: "A.", Labels: []string{"instance"}},
	}
	for _, d := range bad {
		if d.Check() == nil {
			t.Errorf("no error for %+v", d)
		}
	}
}

func BenchmarkAppendText(b *testing.B) {
	samples := page()
	SortByName(samples)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendText(buf[:0], samples)
	}
}
