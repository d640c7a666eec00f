// Package notify tells others of findings: an Alertmanager, or whoever takes a
// webhook. Each receiver has a queue on disk, so that neither its absence nor a
// restart loses anything; what is told is told in order and at least once.
//
// Whether a finding is worth telling is decided by its severity and by silences,
// when it is first seen and not while it waits. One that has been told of as open
// is told of as closed, whatever became of its severity or silence since.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/metric"
)

// Receiver is someone to be told.
type Receiver struct {
	// Name is unique; it names the queue's file, and the receiver in metrics and log.
	Name   string
	Format *Format
	URL    string
	// Client speaks to it; nil is http.DefaultClient. Its timeout and its way with
	// redirects are replaced.
	Client *http.Client
}

// Options of a Notifier. Start from DefaultOptions; Dir, Now and Log are needed.
type Options struct {
	// Dir is the folder of the queues.
	Dir string
	Now func() time.Time
	Log *slog.Logger
	// Instance is this machine's name, for the readers.
	Instance string
	// Max is how many messages wait for a receiver at most; the oldest make room.
	Max int
	// Repeat is how often open findings are told again to a receiver whose format
	// wants that.
	Repeat time.Duration
	// Timeout is how long one request may take.
	Timeout time.Duration
	// Wait is how long to wait after the first failure, doubled with each further
	// one up to WaitMost. Each wait is drawn between half and all of it, so that
	// many monitors do not come back at once.
	Wait, WaitMost time.Duration
}

// DefaultOptions are all options that have a default.
func DefaultOptions() Options {
	return Options{Max: 5000, Repeat: time.Minute, Timeout: 10 * time.Second, Wait: time.Second, WaitMost: time.Minute}
}

// The metrics of the notifier.
var (
	sentDesc = &metric.Desc{Name: "teescope_notifications_total", Kind: metric.Counter, Labels: []string{"receiver", "outcome"},
		Help: "Requests to a receiver of findings, by outcome: sent, failed (to be tried again) and refused (by the receiver, and given up); and messages dropped from a full queue."}
	queueDesc = &metric.Desc{Name: "teescope_notification_queue_length", Kind: metric.Gauge, Labels: []string{"receiver"}, Better: metric.Lower,
		Help: "Messages about findings that wait for a receiver."}
)

// Metrics lists what Collect emits.
var Metrics = []*metric.Desc{sentDesc, queueDesc}

// outcome of a message or of an attempt to send it.
type outcome int

const (
	sent outcome = iota
	failed
	rejected
	dropped
)

func (o outcome) String() string { return [...]string{"sent", "failed", "refused", "dropped"}[o] }

// counts are a receiver's, by outcome.
type counts [dropped + 1]atomic.Uint64

// Notifier tells receivers. Its methods may be called from several goroutines.
type Notifier struct {
	opts Options

	mu      sync.Mutex // guards what follows
	least   analysis.Severity
	senders []*sender
	counts  map[string]*counts // by receiver; they outlive a change of settings
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a notifier without receivers.
func New(o Options) *Notifier {
	return &Notifier{opts: o, counts: map[string]*counts{}, stop: func() {}}
}

// Settings are what may change while a notifier runs.
type Settings struct {
	Receivers []Receiver
	// Least is the severity from which on a finding is told.
	Least analysis.Severity
	// Page is the URL of the page, for links; "" gives none.
	Page string
}

// Use puts settings into force. What waits for a receiver goes on waiting for the
// one of the same name. A receiver whose queue cannot be opened is in the error, and
// the others are told.
func (n *Notifier) Use(set Settings) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	errs := []error{n.halt()}
	ctx, stop := context.WithCancel(context.Background())
	n.least, n.stop = set.Least, stop
	for _, r := range set.Receivers {
		q, err := openQueue(filepath.Join(n.opts.Dir, r.Name+".jsonl"), n.opts.Max)
		if err != nil {
			errs = append(errs, fmt.Errorf("queue of receiver %s: %w", r.Name, err))
			continue
		}
		if q.damaged > 0 {
			n.opts.Log.Warn("lines of a queue of notifications cannot be read and are left out", "receiver", r.Name, "lines", q.damaged)
		}
		if n.counts[r.Name] == nil {
			n.counts[r.Name] = new(counts)
		}
		s := newSender(r, n.opts, set.Page, q, n.counts[r.Name])
		n.senders = append(n.senders, s)
		n.running.Go(func() { s.run(ctx) })
	}
	return errors.Join(errs...)
}

// halt stops the senders and closes their queues.
func (n *Notifier) halt() error {
	n.stop()
	n.running.Wait()
	var errs []error
	for _, s := range n.senders {
		errs = append(errs, s.queue.close())
	}
	n.senders = nil
	return errors.Join(errs...)
}

// Close stops telling; what waits is told after the next start.
func (n *Notifier) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.halt()
}

// Tell takes what an evaluation changed and all findings that are open after it.
// It returns when what is to be told is on disk, and does not wait for receivers.
func (n *Notifier) Tell(changed, open []analysis.Record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	closed := map[string]analysis.Record{}
	for _, r := range changed {
		if r.State == analysis.Closed {
			closed[r.ID] = r
		}
	}
	now := map[string]analysis.Record{}
	for _, r := range open {
		now[r.ID] = r
	}
	for _, s := range n.senders {
		told := s.queue.isTold()
		for _, r := range open {
			last, known := told[r.ID]
			news := !known && r.Severity.AtLeast(n.least) || known && last.Severity != r.Severity
			if !news || r.Silenced != "" {
				continue
			}
			if known && s.Format.labelled {
				last.State, last.Until = analysis.Closed, &r.LastSeen
				s.put(last)
			}
			s.put(r)
		}
		for _, id := range slices.Sorted(maps.Keys(told)) {
			if _, still := now[id]; still {
				continue
			}
			r, ok := closed[id]
			if !ok { // it closed while nobody could say so
				r = told[id]
				until := r.LastSeen
				r.State, r.Until = analysis.Closed, &until
			}
			s.put(r)
		}
		s.keepTelling(open)
	}
}

// Collect emits the metrics.
func (n *Notifier) Collect(emit func(metric.Sample)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(n.counts)) {
		for o := range n.counts[name] {
			emit(metric.Sample{Desc: sentDesc, Labels: []string{name, outcome(o).String()}, Value: float64(n.counts[name][o].Load())})
		}
	}
	for _, s := range n.senders {
		emit(metric.Sample{Desc: queueDesc, Labels: []string{s.Name}, Value: float64(s.queue.length())})
	}
}
