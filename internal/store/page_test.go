package store_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/mutate"
	prompage "github.com/teescope/teescope/internal/store/page"
)

const (
	textPage = "text/plain; version=0.0.4; charset=utf-8"
	openPage = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// TestCounterAsScraped: pages of public reports have a counter of 41, which scraping stores and Pages returns.
func TestCounterAsScraped(t *testing.T) {
	files := []string{"help", "merged", "nonl", "om", "typelate"}
	types := map[string]string{"om": openPage}
	contentType := func(i int) string {
		if ct := types[files[i]]; ct != "" {
			return ct
		}
		return textPage
	}
	var pages [][]byte
	for _, f := range files {
		b, err := os.ReadFile("testdata/page/" + f)
		must(t, err)
		pages = append(pages, b)
	}
	s := scraped(t, contentType, pages, "")
	for i, f := range files {
		t.Run(f, func(t *testing.T) {
			eventually(t, f+" is stored", func() bool {
				p := query(t, s, fmt.Sprintf(`sum(shop_orders_total{instance="%d"})`, i), time.Now())
				return len(p) == 1 && p[0].Value == 41
			})
			if v, err := (prompage.Parser{}).Counter(pages[i], contentType(i), "shop_orders_total"); err != nil || v != 41 {
				t.Errorf("%s: got %v, %v, want 41", f, v, err)
			}
		})
	}
}

const metricsPage = `# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{code="200"} 1000
http_requests_total{code="500"} 5
untyped_total 7
# TYPE temperature gauge
temperature 20
# TYPE negative counter
negative -1
# TYPE nothing counter
nothing NaN
# TYPE latency histogram
latency_bucket{le="1"} 3
latency_bucket{le="+Inf"} 4
latency_sum 9
latency_count 4
# TYPE size summary
size_sum 9
size_count 11
{"odd.requests",code="200"} 3
{"odd.requests",code="500"} 1
`

func TestCounter(t *testing.T) {
	const orders = "# TYPE a_total counter\na_total 41\n"
	for _, c := range []struct{ name, contentType, page, counter, want string }{
		{"a counter", textPage, metricsPage, "http_requests_total", "1005"},
		{"without a type", textPage, metricsPage, "untyped_total", "7"},
		{"observations", textPage, metricsPage, "latency_count", "4"},
		{"a histogram", textPage, metricsPage, "latency", "4"},
		{"a summary", textPage, metricsPage, "size", "11"},
		{"a quoted name", textPage, metricsPage, "odd.requests", "4"},
		{"a gauge", textPage, metricsPage, "temperature", "its metric temperature is a gauge; want a counter"},
		{"below 0", textPage, metricsPage, "negative", "its counter negative is -1"},
		{"no number", textPage, metricsPage, "nothing", "its counter nothing is NaN"},
		{"not there", textPage, metricsPage, "other", "its page of metrics has no other"},
		{"no observations", textPage, metricsPage, "temperature_count", "its page of metrics has no temperature_count"},
		{"part of a name", textPage, "a_total_b 3\na_tota 4\n", "a_total", "its page of metrics has no a_total"},
		{"nothing", textPage, "", "a_total", "its page of metrics has no a_total"},

		{"no Content-Type", "", orders, "a_total", "41"},
		{"another Content-Type", "text/html", orders, "a_total", "41"},
		{"a byte order mark", textPage, "\ufeff" + orders, "a_total", "41"},
		{"a byte order mark before the sample", textPage, "\ufeffa_total 41\n", "a_total", "41"},
		{"the page twice", textPage, orders + orders, "a_total", "41"},
		{"a tab", textPage, "a_total\t41\n", "a_total", "41"},
		{"its time", textPage, "a_total 41 1700000000000\n", "a_total", "41"},
		{"two times", textPage, "a_total 41 1700000000000\na_total 40 1600000000000\n", "a_total", "41"},
		{"two values", textPage, "a_total 40\na_total 41\n", "a_total", `~it has {__name__=\"a_total\"} twice, as 40 and as 41`},
		{"two types", textPage, "# TYPE a_total gauge\n" + orders, "a_total", "~it says that a_total is a gauge and a counter"},
		{"a type of no format", textPage, "# TYPE a_total count\na_total 41\n", "a_total", `~invalid metric type \"count\"`},
		{"its own line is broken", textPage, "a_total{b=} 41\n", "a_total", "~its page of metrics: "},
		{"its own line is torn", textPage, "a_total{b=\"1\"} 41\na_total{b=\"2\n", "a_total", "~its page of metrics: "},
		{"another line is broken", textPage, "x{y= 1\n}\n" + orders + "\xff\n<html>\x00\n", "a_total", "41"},
		{"another metric twice", textPage, "x 1\nx 2\n# TYPE x gauge\n# TYPE x counter\n" + orders, "a_total", "41"},
		{"a byte 0", textPage, "a_total{b=\"1\"} 41\na_total{b=\"\x00\"} 1\n", "a_total", "~byte 0"},
		{"a control character", textPage, "a_total{b=\x1b} 1\n", "a_total", `~\x1b`},

		{"OpenMetrics", openPage, "# TYPE a counter\na_total 41\n# EOF\n", "a_total", "41"},
		{"OpenMetrics without line feed", openPage, "# TYPE a counter\na_total 41\n# EOF", "a_total", "41"},
		{"OpenMetrics, a type of its own", openPage, "# TYPE x stateset\nx{x=\"on\"} 1\n# TYPE a_total unknown\na_total 41\n# EOF\n", "a_total", "41"},
		{"OpenMetrics, torn", openPage, "# TYPE a counter\na_total 41\n", "a_total", "~EOF"},
		{"OpenMetrics, more after its end", openPage, "a_total{b=\"1\"} 41\n# EOF\na_total{b=\"2\"} 1\n", "a_total", "~EOF"},
		{"OpenMetrics said to be text", textPage, "a_total 41 # {b=\"1\"} 1\n", "a_total", "~timestamp"},
		{"protobuf that is none", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", orders, "a_total", "~its page of metrics"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := (prompage.Parser{}).Counter([]byte(c.page), c.contentType, c.counter)
			got := fmt.Sprint(v)
			if err != nil {
				got = err.Error()
			}
			if got != c.want && !(err != nil && strings.HasPrefix(c.want, "~") && strings.Contains(got, c.want[1:])) {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
			if strings.ContainsAny(got, "\x1b\x00") {
				t.Errorf("%s: %q is shown as it came", c.name, got)
			}
		})
	}
}

// TestDamagedCounter: damage to a line about something else changes nothing, and damage to a line of the counter costs no more
// than the counter.
func TestDamagedCounter(t *testing.T) {
	lines := strings.Split(metricsPage, "\n")
	mutate.Try(t, "page", []byte(metricsPage), " {}=,\"", func(m mutate.Mutation) error {
		v, err := (prompage.Parser{}).Counter(m.Data, textPage, "http_requests_total")
		switch {
		case err != nil && err.Error() == "":
			return fmt.Errorf("no reason")
		case err == nil && (!(v >= 0) || v >= 1<<63):
			return fmt.Errorf("%v requests", v)
		case (m.Same || m.Line >= 0 && !strings.Contains(lines[m.Line], "http_requests_total")) && (err != nil || v != 1005):
			return fmt.Errorf("%v requests, want 1005: %v", v, err)
		}
		return nil
	})
}

func FuzzCounter(f *testing.F) {
	f.Add(metricsPage, textPage)
	f.Add("# TYPE http_requests counter\nhttp_requests_total 41\n# EOF\n", openPage)
	f.Fuzz(func(t *testing.T, page, contentType string) {
		if v, err := (prompage.Parser{}).Counter([]byte(page), contentType, "http_requests_total"); err == nil && !(v >= 0) {
			t.Errorf("%g requests", v)
		}
	})
}
