package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

func TestParseScrape(t *testing.T) {
	want := map[string]string{
		"good.yml":              "",
		"unknown-key.yml":       "line 5: unknown key scrape_intervall",
		"unknown-discovery.yml": "line 3: unknown key ec2_sd_configs",
		"not-ours.yml":          "line 3: unknown key remote_write",
		"own-job.yml":           "job_name teescope is the monitor's own",
		"bad-duration.yml":      `not a valid duration string: "often"`,
		"bad-yaml.yml":          "line 2: found unexpected end of stream",
		"list.yml":              "line 1: want keys and values",
		"twice.yml":             `multiple scrape configs with job name "a"`,
	}
	files, err := os.ReadDir("testdata/scrape")
	must(t, err)
	if len(files) != len(want) {
		t.Errorf("%d files, want %d", len(files), len(want))
	}
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata/scrape", name))
			must(t, err)
			c, err := store.ParseScrape(text, "testdata/scrape", "analysis")
			switch {
			case want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case want == "" && !slices.Equal(c.Jobs(), []string{"files", "http", "pods", "static"}):
				t.Errorf("jobs %v", c.Jobs())
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one line with %q", err, want)
			}
		})
	}
	if c, err := store.ParseScrape(nil, ""); err != nil || len(c.Jobs()) != 0 {
		t.Errorf("empty text: %v, %v", c, err)
	}
}

func FuzzParseScrape(f *testing.F) {
	files, err := filepath.Glob("testdata/scrape/*.yml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := store.ParseScrape(text, "", "analysis"); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

// eventually waits for the effect of another goroutine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await.Event(t, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestScrape: a target joins, is listed with its metadata, is kept within its
// limit, and leaves when the configuration no longer names it.
func TestScrape(t *testing.T) {
	var series atomic.Int64
	series.Store(2)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# HELP app_requests_total Requests.\n# TYPE app_requests_total counter")
		for i := range series.Load() {
			fmt.Fprintf(w, "app_requests_total{path=\"%d\"} 7\n", i)
		}
	}))
	defer target.Close()
	s := open(t, options(t))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	apply := func(text []byte) {
		t.Helper()
		c, err := store.ParseScrape(text, "")
		must(t, err)
		must(t, s.ApplyConfig(c))
	}
	apply(fmt.Appendf(nil, `
scrape_configs:
  - job_name: app
    scrape_interval: 500ms
    scrape_timeout: 500ms
    sample_limit: 3
    static_configs:
      - targets: [%q]
`, strings.TrimPrefix(target.URL, "http://")))
	must(t, s.Append(time.Now(), []metric.Sample{{Desc: load, Value: 1}}))

	eventually(t, "scraped series", func() bool {
		return len(query(t, s, `app_requests_total{job="app"} == 7`, time.Now())) == 2
	})
	var d struct {
		ActiveTargets []struct{ ScrapePool, Health, LastError string }
	}
	get(t, srv.URL, "targets", &d)
	if len(d.ActiveTargets) != 2 {
		t.Errorf("targets %+v, want app and teescope", d)
	}
	var md map[string][]struct{ Type string }
	get(t, srv.URL, "metadata", &md)
	if len(md["app_requests_total"]) != 1 || len(md["node_load1"]) != 1 {
		t.Errorf("metadata %v, want that of both targets", md)
	}

	series.Store(10)
	eventually(t, "a target past its limit is down", func() bool {
		p := query(t, s, `up{job="app"}`, time.Now())
		return len(p) == 1 && p[0].Value == 0
	})
	if p := query(t, s, `app_requests_total`, time.Now()); len(p) > 2 {
		t.Errorf("%d series of a target past its limit", len(p))
	}

	apply(nil)
	eventually(t, "the target leaves", func() bool {
		get(t, srv.URL, "targets", &d)
		return len(d.ActiveTargets) == 1
	})
}
