package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

// stopping is a receiver that is asked while the monitor stops.
type stopping struct{ stop context.CancelFunc }

func (s stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	s.stop()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStopping: a request that the end of the monitor cuts is no fault of its receiver; the message stays.
func TestStopping(t *testing.T) {
	for name, begin := range map[string]func(*sender){
		"a message":    func(s *sender) { s.enqueue(findings.Record{ID: "1"}) },
		"a repetition": func(s *sender) { s.state.Lock().open = []findings.Record{{ID: "1"}}; s.state.Unlock() },
	} {
		t.Run(name, func(t *testing.T) {
			q, err := openQueue(filepath.Join(t.TempDir(), "q"), 10)
			if err != nil {
				t.Fatal(err)
			}
			var log safe
			o := DefaultOptions()
			o.Now, o.Repeat, o.Log = time.Now, time.Millisecond, slog.New(slog.NewTextHandler(&log, nil))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var c counts
			s := newSender(Receiver{Name: "r", URL: "http://receiver", Format: Alertmanager, Client: &http.Client{Transport: stopping{stop}}}, o, "", q, &c)
			begin(s)
			s.run(ctx)
			if n := c[failed].Load(); n != 0 || strings.Contains(log.String(), "receiver") {
				t.Errorf("%d failures are counted, log: %s", n, &log)
			}
			if _, waits := q.head(); waits != (name == "a message") {
				t.Errorf("a message waits: %v", waits)
			}
		})
	}
}

// TestOutcome: an answer is a refusal, or a request for a later try, however deep it is in its error.
func TestOutcome(t *testing.T) {
	var c counts
	o := DefaultOptions()
	o.Log = slog.New(slog.DiscardHandler)
	s := newSender(Receiver{Name: "r", Format: Webhook, Client: http.DefaultClient}, o, "", nil, &c)
	twice := func(err error) error { return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err)) }
	if got := s.outcome(twice(refusal{errors.New("400")})); got != rejected {
		t.Errorf("a refusal is %v", got)
	}
	if got := s.outcome(twice(busy{errors.New("503"), time.Minute})); got != failed {
		t.Errorf("busy is %v", got)
	}
	if got := s.pause(twice(busy{errors.New("503"), time.Minute})); got != time.Minute {
		t.Errorf("the receiver wants a minute, got %v", got)
	}
	if got := s.outcome(nil); got != sent {
		t.Errorf("an answer is %v", got)
	}
}
