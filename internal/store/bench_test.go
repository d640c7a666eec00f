package store_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// hours of synthetic data in the benchmarks that need a history; the budgets
// speak of 24, which takes minutes to load.
var hours = flag.Int("hours", 1, "hours of synthetic 5 s data")

const benchSeries = 5_000

// history is a round of 5,000 series: 50 processes, 100 calls.
func history(buf []metric.Sample, i int) []metric.Sample {
	buf = buf[:0]
	for p := range 50 {
		for c := range benchSeries / 50 {
			buf = append(buf, metric.Sample{Desc: calls, Labels: benchLabels[p*100+c], Value: float64(i*(p+1)*7 + i*i%13*c)})
		}
	}
	return buf
}

var benchLabels = func() (l [][]string) {
	for p := range 50 {
		for c := range benchSeries / 50 {
			l = append(l, []string{"process-" + strconv.Itoa(p), "call-" + strconv.Itoa(c)})
		}
	}
	return l
}()

func BenchmarkAppend(b *testing.B) {
	s := open(b, options(b))
	t := time.Now()
	var round []metric.Sample
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		round = history(round, i)
		must(b, s.Append(t.Add(time.Duration(i)*5*time.Second), round))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchSeries, "ns/sample")
}

// rss returns the resident memory of this process in bytes, and its anonymous part.
func rss(b *testing.B) (all, anon float64) {
	text, err := os.ReadFile("/proc/self/status")
	must(b, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		v, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			all = v * 1024
		case "RssAnon:":
			anon = v * 1024
		}
	}
	return all, anon
}

// BenchmarkHistory loads -hours of data as it would arrive, then reports the memory, the time of the overview's query
// over all of it, and the time to restart, also with a damaged log. GOMEMLIMIT is what the monitor sets.
func BenchmarkHistory(b *testing.B) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(120 << 20))
	o := options(b)
	o.RuleInterval = time.Hour // the rules would see no recent data
	s, err := store.Open(b.Context(), o)
	must(b, err)
	rounds := *hours * 3600 / 5
	start := time.Now().Add(-time.Duration(rounds) * 5 * time.Second)
	var round []metric.Sample
	recorded := &metric.Desc{Name: "recorded", Kind: metric.Gauge, Labels: []string{"process"}, Help: "As a recording rule leaves it."}
	for i := range rounds {
		round = history(round, i)
		if i%6 == 0 {
			for p := range 50 {
				round = append(round, metric.Sample{Desc: recorded, Labels: []string{strconv.Itoa(p)}, Value: float64(i * p)})
			}
		}
		must(b, s.Append(start.Add(time.Duration(i)*5*time.Second), round))
		if i%12 == 0 {
			s.EachMinute()
		}
	}
	srv := httptest.NewServer(s.Handler())
	end := time.Now()
	overview := func() {
		var v any
		get(b, srv.URL, fmt.Sprintf("query_range?query=recorded&start=%d&end=%d&step=%d", start.Unix(), end.Unix(), max(30, *hours*3600/500)), &v)
	}
	overview()
	resident, anon := rss(b)
	for b.Loop() {
		overview()
	}
	after, afterAnon := rss(b)
	b.ReportMetric(resident/(1<<20), "MiB-rss")
	b.ReportMetric(anon/(1<<20), "MiB-anon")
	b.ReportMetric(after/(1<<20), "MiB-rss-queried")
	b.ReportMetric(afterAnon/(1<<20), "MiB-anon-queried")
	srv.Close()
	must(b, s.Close())
	runtime.GC()
	again := time.Now()
	s, err = store.Open(b.Context(), o)
	must(b, err)
	b.ReportMetric(time.Since(again).Seconds(), "s-reopen")
	must(b, s.Close())
	all := segments(b, o.Dir)
	damage(b, all[len(all)/2], 1000)
	again = time.Now()
	s, err = store.Open(b.Context(), o)
	must(b, err)
	b.ReportMetric(time.Since(again).Seconds(), "s-reopen-damaged")
	must(b, s.Close())
}
