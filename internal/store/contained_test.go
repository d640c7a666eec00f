package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/store"
)

// kept is a log that several goroutines write.
type kept struct{ locked.Value[bytes.Buffer] }

func (k *kept) Write(b []byte) (int, error) {
	held := k.Lock()
	defer k.Unlock()
	return held.Write(b)
}

func (k *kept) String() string {
	held := k.Lock()
	defer k.Unlock()
	return held.String()
}

// logged is what is logged during a test.
func logged(t *testing.T) *kept {
	log, old := new(kept), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(old) })
	return log
}

// TestPanicInScrape: a target on whose page Prometheus' own code panics is down, with the reason, and nothing of the page
// is stored. It is scraped again, and so are the others.
func TestPanicInScrape(t *testing.T) {
	log := logged(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, "app_requests_total 5\nother 6\n")
	}))
	defer srv.Close()
	instance := strings.TrimPrefix(srv.URL, "http://")
	s := open(t, options(t))
	apply := func(broken string) {
		t.Helper()
		var b strings.Builder
		fmt.Fprintln(&b, "scrape_configs:")
		for _, job := range []string{"broken", "sound"} {
			fmt.Fprintf(&b, "- {job_name: %s, scrape_interval: 500ms, scrape_timeout: 500ms, static_configs: [{targets: [%q]}]}\n", job, instance)
		}
		c, err := store.ParseScrape([]byte(b.String()), "")
		must(t, err)
		c.Break(broken)
		must(t, s.ApplyConfig(c))
	}
	has := func(expr string) func() bool {
		return func() bool { return len(query(t, s, expr, time.Now())) == 1 }
	}
	apply("broken")
	eventually(t, "a broken target is scraped again", has(`count_over_time(up{job="broken"}[1h]) >= 3`))
	eventually(t, "the other one too", has(`count_over_time(app_requests_total{job="sound"}[1h]) >= 3`))
	if got := one(t, s, `max_over_time(up{job="broken"}[1h])`, time.Now()); got != 0 {
		t.Errorf("up of a target whose scrapes panic was %v", got)
	}
	if p := query(t, s, `last_over_time({job="broken", __name__=~"app_.*|other"}[1h])`, time.Now()); len(p) > 0 {
		t.Errorf("of a page that was not read to its end %v is stored", p)
	}
	if why := s.Failure("broken", instance); !strings.HasPrefix(why, `scraping job broken crashed: relabel: unknown relabel action type "planted" (relabel.go:`) {
		t.Errorf("the reason is %q", why)
	}
	if why := s.Failure("sound", instance); why != "" {
		t.Errorf("the sound target has the reason %q", why)
	}
	if n := strings.Count(log.String(), "planted"); n == 0 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "scrapeAndReport") {
		t.Errorf("want one trace, not %q", log.String())
	}

	apply("none")
	eventually(t, "a target that was broken is up", has(`up{job="broken"} == 1 and on () app_requests_total{job="broken"} == 5`))
	eventually(t, "its reason is gone", func() bool { return s.Failure("broken", instance) == "" })
}

// flaky finds one target, but panics first.
type flaky struct {
	discovery.StaticConfig
	runs int
}

func (f *flaky) NewDiscoverer(discovery.DiscovererOptions) (discovery.Discoverer, error) {
	return f, nil
}

func (f *flaky) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	if f.runs++; f.runs == 1 {
		panic("planted in a discovery")
	}
	select {
	case up <- []*targetgroup.Group{{Targets: []model.LabelSet{{model.AddressLabel: "localhost:1"}}}}:
	case <-ctx.Done():
	}
}

// TestPanicInDiscovery: it begins anew, unless it is to end.
func TestPanicInDiscovery(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		d, err := store.Discovered(f).NewDiscoverer(discovery.DiscovererOptions{})
		must(t, err)
		up := make(chan []*targetgroup.Group)
		go d.Run(t.Context(), up)
		if got := <-up; len(got) != 1 || f.runs != 2 {
			t.Errorf("found %v in %d runs", got, f.runs)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.runs = 0
		d.Run(ctx, up)
		if f.runs != 1 {
			t.Errorf("%d runs of a discovery that is to end", f.runs)
		}
	})
	if n := strings.Count(log.String(), "discovering targets (static) crashed: planted in a discovery"); n != 1 {
		t.Errorf("want one trace, not %q", log.String())
	}
}

// TestPanicInRule: an evaluation that panics ends, and no more.
func TestPanicInRule(t *testing.T) {
	log := logged(t)
	store.Evaluate(t.Context(), nil, time.Time{})
	if !strings.Contains(log.String(), "recording rules crashed") {
		t.Errorf("the log is %q", log.String())
	}
}

// TestNoTighterLimits: a job that sets no limit has none, but for the memory of a page.
func TestNoTighterLimits(t *testing.T) {
	for text, want := range map[string][4]int{
		"": {int(store.BodyLimit(quota.Own()))},
		", body_size_limit: 1MB, sample_limit: 2, target_limit: 3, keep_dropped_targets: 4": {1 << 20, 2, 3, 4},
		", body_size_limit: 10GB": {10 << 30},
	} {
		t.Run(text, func(t *testing.T) {
			c, err := store.ParseScrape([]byte("scrape_configs: [{job_name: a"+text+"}]"), "")
			must(t, err)
			if got := c.Limits(); got != want {
				t.Errorf("%q: the limits are %v, want %v", text, got, want)
			}
		})
	}
	c, err := store.ParseScrape([]byte("global: {body_size_limit: 5MiB}\nscrape_configs: [{job_name: a}]"), "")
	must(t, err)
	if got := c.Limits()[0]; got != 5<<20 {
		t.Errorf("the limit for all jobs is %v", got)
	}
}
