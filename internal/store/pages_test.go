package store_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/store"
)

// scraped serves pages at /0, /1 ... and returns a store that has scraped each of them.
func scraped(t *testing.T, contentType func(i int) string, pages [][]byte, config string) *store.Store {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil || i >= len(pages) {
			http.NotFound(w, r)
			return
		}
		w.Header()["Content-Type"] = nil // or else Go guesses one
		if ct := contentType(i); ct != "" {
			w.Header().Set("Content-Type", ct)
		}
		_, _ = w.Write(pages[i])
	}))
	t.Cleanup(srv.Close)
	var b strings.Builder
	fmt.Fprintf(&b, "scrape_configs:\n- job_name: pages\n  scrape_interval: 1s\n  scrape_timeout: 1s\n%s  static_configs:\n", config)
	for i := range pages {
		fmt.Fprintf(&b, "  - targets: [%q]\n    labels: {__metrics_path__: /%d, instance: \"%d\"}\n", strings.TrimPrefix(srv.URL, "http://"), i, i)
	}
	c, err := store.ParseScrape([]byte(b.String()), "")
	must(t, err)
	s := open(t, options(t))
	must(t, s.ApplyConfig(c))
	eventually(t, "every page is scraped", func() bool { return len(query(t, s, `count by (instance) (up)`, time.Now())) == len(pages) })
	return s
}

// TestPages: pages of targets in the field. They are taken or refused as by a Prometheus with the same configuration, and
// who is refused has a reason.
func TestPages(t *testing.T) {
	const (
		text = "text/plain; version=0.0.4"
		ok   = "# TYPE app_requests_total counter\napp_requests_total 5\n"
	)
	pages := []struct{ name, contentType, page, failure string }{
		{"sound", text, ok, ""},
		{"no content type", "", ok, "blank Content-Type"},
		{"other content type", "text/html", ok, "Content-Type"},
		{"long label", text, ok + `process_cpu{cmdline="` + strings.Repeat("x", 4478) + `"} 1` + "\n", ""},
		{"many labels, long names", text, ok + "m{" + strings.Repeat("n", 300) + `="1"` + "," + manyLabels(100) + "} 1\n", ""},
		{"exemplar in text", text, ok + `lat_bucket{le="+Inf"} 1 # {trace_id="6c10"} 0.006` + "\n", "expected"},
		{"label not UTF-8", text, ok + "vts_requests_total{host=\"\xfftest-api\"} 3\n", "UTF-8"},
		{"OpenMetrics", "application/openmetrics-text; version=1.0.0; charset=utf-8",
			"# TYPE app_requests counter\napp_requests_total 5 # {trace_id=\"6c10\"} 1\napp_requests_created 1.7e9\n# EOF\n", ""},
		{"one sample twice", text, ok + "m 1\nm 2\n", ""},
		{"one label twice", text, ok + `n{a="1",a="2"} 1` + "\n", "not unique"},
		{"labels of its target", text, ok + `o{job="x",instance="y"} 1` + "\n", ""},
		{"a clock that is an hour ahead", text, ok + fmt.Sprintf("early 1 %d\n", time.Now().Add(time.Hour).UnixMilli()), ""}, // clock: samples of now are stored beside
	}
	bytes := make([][]byte, len(pages))
	for i, p := range pages {
		bytes[i] = []byte(p.page)
	}
	s := scraped(t, func(i int) string { return pages[i].contentType }, bytes, "")
	api := httptest.NewServer(s.Handler())
	defer api.Close()
	var d struct {
		ActiveTargets []struct {
			Health, LastError, ScrapeInterval string
			Labels                            map[string]string
		}
	}
	get(t, api.URL, "targets", &d)
	for _, g := range d.ActiveTargets {
		if why := s.Failure("pages", g.Labels["instance"]); g.Labels["job"] == "pages" && (g.LastError != why || (g.Health == "up") != (why == "") || g.ScrapeInterval != "1s") {
			t.Errorf("the API says %+v, the error is %q", g, why)
		}
	}
	for i, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			up := one(t, s, fmt.Sprintf(`up{instance="%d"}`, i), time.Now())
			why := s.Failure("pages", strconv.Itoa(i))
			if (up == 1) != (p.failure == "") || !strings.Contains(why, p.failure) || p.failure == "" && why != "" {
				t.Errorf("%s: up is %v, the error %q, want one with %q", p.name, up, why, p.failure)
			}
			if up == 1 {
				if got := one(t, s, fmt.Sprintf(`app_requests_total{instance="%d"}`, i), time.Now()); got != 5 {
					t.Errorf("%s: the counter is %v", p.name, got)
				}
			}
		})
	}
	if got := one(t, s, `m{instance="8"}`, time.Now()); got != 1 {
		t.Errorf("of a sample that is there twice the value is %v, want that of the first", got)
	}
	if got := query(t, s, `o{job="pages",exported_job="x",exported_instance="y"}`, time.Now()); len(got) != 1 {
		t.Errorf("of a page with labels of its target: %v", query(t, s, "o", time.Now()))
	}
	if got := query(t, s, "early", time.Now().Add(time.Hour)); len(got) != 0 {
		t.Errorf("a sample of a clock that is ahead is stored: %v", got)
	}
	s = scraped(t, func(int) string { return "" }, bytes[:1], "  fallback_scrape_protocol: PrometheusText0.0.4\n")
	if got := one(t, s, "up", time.Now()); got != 1 {
		t.Errorf("with a fallback a page without content type is refused: %s", s.Failure("pages", "0"))
	}
}

func manyLabels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `l%d="x",`, i)
	}
	return b.String()
}

// TestDamagedPages: whatever is damaged, the lines of a page that is taken have their values, and a page that is refused
// has a reason.
func TestDamagedPages(t *testing.T) {
	for contentType, page := range map[string]string{
		"text/plain; version=0.0.4":                                  "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"1\",y=\"2\"} 11\na_total{x=\"2\"} 12\nb 13\nc{z=\"3\"} 14 \n",
		"application/openmetrics-text; version=1.0.0; charset=utf-8": "# TYPE a counter\na_total{x=\"1\",y=\"2\"} 11\na_total{x=\"2\"} 12\nb 13\nc{z=\"3\"} 14\n# EOF\n",
	} {
		t.Run(contentType, func(t *testing.T) {
			series := []string{`a_total{x="1",y="2"}`, `a_total{x="2",y=""}`, `b{x=""}`, `c{z="3"}`}
			var all []mutate.Mutation
			var pages [][]byte
			for m := range mutate.Lines([]byte(page), " {}=\",") {
				all, pages = append(all, m), append(pages, m.Data)
			}
			s := scraped(t, func(int) string { return contentType }, pages, "")
			lines := strings.Split(page, "\n")
			up, refused := map[string]float64{}, 0
			for _, p := range query(t, s, "up", time.Now()) {
				up[p.Labels["instance"]] = p.Value
			}
			values := map[string]map[string]float64{}
			for _, name := range series {
				values[name] = map[string]float64{}
				for _, p := range query(t, s, name, time.Now()) {
					values[name][p.Labels["instance"]] = p.Value
				}
			}
			for i, m := range all {
				id := strconv.Itoa(i)
				if up[id] != 1 {
					refused++
					if s.Failure("pages", id) == "" {
						t.Errorf("%s: refused without a reason", m.Name)
					}
					continue
				}
				if m.Line < 0 {
					continue
				}
				for k, name := range series {
					line := slices.IndexFunc(lines, func(l string) bool {
						return strings.HasPrefix(l, strings.SplitN(strings.NewReplacer(`,y=""`, "", `{x=""}`, "").Replace(name), "}", 2)[0])
					})
					if got, ok := values[name][id]; line != m.Line && (!ok || got != float64(11+k)) {
						t.Errorf("%s (%q): %s is %v, want %d", m.Name, m.Data, name, got, 11+k)
					}
				}
			}
			if refused == 0 || refused == len(all) {
				t.Errorf("%s: %d of %d pages are refused", contentType, refused, len(all))
			}
		})
	}
}
