package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

func openQueue(t *testing.T, o store.Options, c *store.ScrapeConfig) *store.Queue {
	t.Helper()
	q, err := store.OpenQueue(t.Context(), o, c)
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// TestQueue: without a store, the receiver gets the rounds and what is scraped, also after it was away and after a write
// to the log failed; nothing else is kept.
func TestQueue(t *testing.T) {
	r, whole := newReceiver(t, 0), open(t, options(t))
	o := options(t)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "app_up 7") }))
	defer target.Close()
	c := sendTo(t, r.URL, "")
	q := openQueue(t, o, c)
	both := func(from time.Time, n int) time.Time {
		t.Helper()
		rounds(t, whole, from, n)
		return rounds(t, q, from, n)
	}
	end := both(time.Now().Add(ahead), 10)
	arrives(t, r, q, whole, end)
	r.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	end = both(end, 10)
	await.Event(t, "samples are sent again", func() error {
		if own(q, "prometheus_remote_storage_samples_retried_total") == 0 {
			return errors.New("none")
		}
		return nil
	})
	r.instead.Store(nil)
	arrives(t, r, q, whole, end)
	q.Tear()
	end = both(end, 10)
	arrives(t, r, q, whole, end)
	if n := own(q, "teescope_store_wal_errors_total"); n != 1 || q.Err() != nil {
		t.Errorf("%v failed writes, trouble %v", n, q.Err())
	}
	must(t, q.ApplyConfig(parsed(t, "global: {external_labels: {cluster: north}, scrape_interval: 1s}\nremote_write: [{url: '"+r.URL+"', queue_config: {batch_send_deadline: 10ms}}]\n"+
		"scrape_configs: [{job_name: app, static_configs: [{targets: ['"+strings.TrimPrefix(target.URL, "http://")+"']}]}]\n")))
	await.Event(t, "what is scraped arrives", func() error {
		if p := r.query(t, `app_up{job="app",cluster="north"}`, time.Now()); len(p) != 1 || p[0].Value != 7 {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
	if lost := own(q, "teescope_store_lost_samples_total"); lost != 0 {
		t.Errorf("%v samples are lost", lost)
	}
	files, err := os.ReadDir(o.Dir)
	must(t, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	if got := strings.Join(names, " "); got != "lock remote_write" {
		t.Errorf("in the folder are %s", got)
	}
}

// TestQueueAgain: what an earlier process left in the log does no harm, and neither does the clock being set back.
func TestQueueAgain(t *testing.T) {
	r, o := newReceiver(t, time.Hour), options(t)
	q := openQueue(t, o, sendTo(t, r.URL, ""))
	end := rounds(t, q, time.Now().Add(ahead), 3)
	must(t, q.Close())
	q = openQueue(t, o, sendTo(t, r.URL, ""))
	back := end.Add(-time.Minute)
	if err := q.Append(back, []metric.Sample{call("nginx", "accept", 1), call("redis", "read", 5)}); err != nil {
		t.Errorf("after the clock went back: %v", err)
	}
	await.Event(t, "the receiver has the later round", func() error {
		q.Poke()
		if p := r.query(t, `sort(tee_syscalls_total)`, back); len(p) != 2 || p[0].Labels["process"] != "nginx" || p[1].Value != 5 {
			return fmt.Errorf("%v", p)
		}
		return nil
	})
}

// TestQueueRefuses: samples for nobody are not kept, and two programs do not share a folder.
func TestQueueRefuses(t *testing.T) {
	o := options(t)
	if _, err := store.OpenQueue(t.Context(), o, parsed(t, "scrape_configs: []")); !errors.Is(err, store.ErrNoReceiver) {
		t.Errorf("without remote_write: %v", err)
	}
	if _, err := store.OpenQueue(t.Context(), o, nil); !errors.Is(err, store.ErrNoReceiver) {
		t.Errorf("without a configuration: %v", err)
	}
	q := openQueue(t, o, sendTo(t, "http://127.0.0.1:1", ""))
	if err := q.ApplyConfig(parsed(t, "")); !errors.Is(err, store.ErrNoReceiver) {
		t.Errorf("a reload without remote_write: %v", err)
	}
	if _, err := store.OpenQueue(t.Context(), o, sendTo(t, "http://127.0.0.1:1", "")); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second one in the folder: %v", err)
	}
	o.MinFree = 1 << 62
	full := options(t)
	full.MinFree = 1 << 62
	q = openQueue(t, full, sendTo(t, "http://127.0.0.1:1", ""))
	if err := q.Append(time.Now(), []metric.Sample{call("redis", "read", 1)}); err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("on a full disk: %v", err)
	}
	if n := own(q, "teescope_store_lost_samples_total"); n != 1 {
		t.Errorf("%v samples are counted as lost", n)
	}
}

// TestNothing: without a place for samples, a configuration that needs one is refused.
func TestNothing(t *testing.T) {
	o := options(t)
	n, err := store.OpenNothing(o)
	must(t, err)
	for text, want := range map[string]string{
		"global: {scrape_interval: 5s}":         "",
		"scrape_configs: [{job_name: a}]":       "scrape_configs: nothing is stored here",
		"remote_write: [{url: 'http://x/api'}]": "remote_write: nothing is stored here",
	} {
		t.Run(text, func(t *testing.T) {
			if err := n.ApplyConfig(parsed(t, text)); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		})
	}
	if _, err := store.Open(t.Context(), o); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a store in the folder: %v", err)
	}
	must(t, n.Close())
	if _, err := os.Stat(filepath.Join(o.Dir, "wal")); !os.IsNotExist(err) {
		t.Errorf("the folder has a log: %v", err)
	}
}
