package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
)

// readings answers every question about readings with enough of them.
type readings struct{}

func (readings) Query(context.Context, string, time.Time) ([]metric.Point, error) {
	return []metric.Point{{Value: 2}}, nil
}

// flaky is a receiver that may be down, or answer late.
type flaky struct {
	mu   sync.Mutex
	down bool
	slow int      // requests that get no answer
	told []string // "subject state"
	ids  map[string]bool
}

func (h *flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slow > 0 {
		h.slow--
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if h.down {
		return nil, errors.New("connection refused")
	}
	var rec findings.Record
	if err := json.NewDecoder(r.Body).Decode(&rec); err != nil {
		return nil, err
	}
	h.told = append(h.told, rec.Subject+" "+string(rec.State))
	h.ids[rec.ID] = true
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// TestLifetime follows two findings through their lives, on a virtual clock: they open once, continue through a short
// gap and three restarts, one of them a kill, and close after the closing delay. The receiver, which is down at first,
// receives each change of the one once, and nothing of the silenced other.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		since := func(at time.Time) float64 { return at.Sub(began).Seconds() }
		// Both are hot from 100 s to 400 s, but for a gap of 20 s.
		hot := func(second int) bool { return second >= 100 && second < 160 || second >= 180 && second < 400 }
		rule := &findings.Rule{Name: "heat", Needs: []string{"temperature"}, Run: func(_ context.Context, p *findings.Pass) error {
			n, all := 0, int(p.To.Sub(p.From).Seconds())
			for s := range all {
				if hot(int(since(p.To)) - s) {
					n++
				}
			}
			if 2*n > all { // more than half of the window
				for _, subject := range []string{"loud", "quiet"} {
					p.Report(findings.Finding{Subject: subject, Severity: findings.Warning, Title: "Hot."})
				}
			}
			return nil
		}}
		silences, err := findings.NewSilences(nil, []*findings.Rule{rule}, time.Now, func([]findings.Silence) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := silences.Add(findings.Silence{Subject: "quiet", Until: began.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		receiver := &flaky{down: true, ids: map[string]bool{}}
		log := slog.New(slog.DiscardHandler)
		var changes []string
		// monitor runs on a folder until the returned function ends it.
		monitor := func(dir string) func() {
			history, past, err := findings.OpenHistory(findings.HistoryOptions{Path: filepath.Join(dir, "findings.jsonl"), Max: 100, Retention: time.Hour, Now: time.Now, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			o := DefaultOptions()
			o.Dir, o.Now, o.Log = dir, time.Now, log
			n := New(o)
			set := hookAt("http://receiver")
			set.Receivers[0].Client = &http.Client{Transport: receiver}
			if err := n.ApplySettings(set); err != nil {
				t.Fatal(err)
			}
			e := findings.DefaultOptions()
			e.Now, e.Started, e.Past, e.Silences, e.Interval = time.Now, time.Now(), past, silences, time.Second
			e.Windows, e.Every, e.CloseAfter = findings.Windows{Long: time.Minute, Short: 20 * time.Second}, 5*time.Second, 30*time.Second
			e.Observe = func(r findings.Record) {
				s := fmt.Sprintf("%v %s %s since %v", since(time.Now()), r.State, r.Subject, since(r.Since))
				if r.Until != nil {
					s += fmt.Sprintf(" until %v", since(*r.Until))
				}
				changes = append(changes, s)
				receiver.mu.Lock()
				defer receiver.mu.Unlock()
				receiver.ids[r.ID] = true
			}
			e.Evaluated = func(changed, open []findings.Record) {
				n.QueueChanges(changed, open)
				history.WriteChanges(changed, open)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- findings.New([]*findings.Rule{rule}, readings{}, e).Run(ctx) }()
			return func() {
				stop()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := errors.Join(n.Close(), history.Close()); err != nil {
					t.Error(err)
				}
			}
		}
		until := func(second int) { time.Sleep(time.Until(began.Add(time.Duration(second) * time.Second))) }
		told := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			receiver.mu.Lock()
			defer receiver.mu.Unlock()
			if !slices.Equal(receiver.told, want) {
				t.Errorf("%s: told %q, want %q", when, receiver.told, want)
			}
		}

		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		stop := monitor(first)
		until(230)
		synctest.Wait()
		if err := os.CopyFS(second, os.DirFS(first)); err != nil { // what a kill leaves
			t.Fatal(err)
		}
		stop()
		told("while the receiver is down")
		until(240)
		stop = monitor(second)
		until(250)
		receiver.mu.Lock()
		receiver.down = false
		receiver.mu.Unlock()
		until(350) // longer than the longest pause between attempts
		told("once the receiver is up", "loud open")
		stop()
		stop = monitor(second)
		until(434)
		told("before the closing delay is over", "loud open")
		until(500)
		told("at the end", "loud open", "loud closed")
		stop()
		stop = monitor(second)
		until(600)
		told("after one more start", "loud open", "loud closed")
		stop()

		// Evaluations are at 5.25 s, 10.25 s and so on. 11 of 20 seconds are hot at 110.25 s, and 31 of 60 at 130.25 s.
		// For the last time 14 of 20 are at 405.25 s; in the gap it was so at 165.25 s, and again at 190.25 s.
		want := []string{"130.25 open loud since 110.25", "130.25 open quiet since 110.25",
			"435.25 closed loud since 110.25 until 435.25", "435.25 closed quiet since 110.25 until 435.25"}
		if !slices.Equal(changes, want) {
			t.Errorf("changes\n%s\nwant\n%s", strings.Join(changes, "\n"), strings.Join(want, "\n"))
		}
		if len(receiver.ids) != 2 {
			t.Errorf("%d ids, want one for each finding", len(receiver.ids))
		}
	})
}
