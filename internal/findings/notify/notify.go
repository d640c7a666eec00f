// Package notify sends findings to an Alertmanager or to webhooks. Each receiver has a
// queue on disk, so neither its absence nor a restart loses a message. Messages arrive
// in order and at least once.
//
// Severity, subject and silences decide whether a finding is sent when it is first seen, not
// while it waits. If its opening was sent, its closing is sent too, whatever its
// severity or silence is by then. Early findings are sent once their windows are met.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
)

// Receiver is one destination.
type Receiver struct {
	// Name is unique; it names the queue's file, and the receiver in metrics and log.
	Name   string
	Format *Format
	URL    string
	// Client sends to it; nil is http.DefaultClient. Its timeout and its handling of
	// redirects are replaced.
	Client *http.Client
	// Subjects are conditions that a finding's subject must all meet.
	Subjects []Subjects
}

// Subjects selects findings by their subjects, or by "SUBJECT of UNIT". The zero value selects all.
type Subjects struct{ Only, Not *regexp.Regexp }

// Selects reports whether a finding is about Only and not about Not; nil is no condition.
func (s Subjects) Selects(f *findings.Finding) bool {
	return (s.Only == nil || f.IsAbout(s.Only)) && (s.Not == nil || !f.IsAbout(s.Not))
}

// receives reports whether the receiver gets a finding.
func (r *Receiver) receives(f *findings.Finding) bool {
	return !slices.ContainsFunc(r.Subjects, func(s Subjects) bool { return !s.Selects(f) })
}

// Options of a Notifier. Start from DefaultOptions; Dir, Now and Log are needed.
type Options struct {
	// Dir is the folder of the queues.
	Dir string
	Now func() time.Time
	Log *slog.Logger
	// Instance is this machine's name, for the people who read the message.
	Instance string
	// Fresh is the age up to which a value is told in the present tense; 0 is any age.
	Fresh time.Duration
	// Max is the size of a receiver's queue; a full queue drops its oldest message.
	Max int
	// Repeat is how often open findings are sent again to receivers that need it.
	Repeat time.Duration
	// Timeout is how long one request may take.
	Timeout time.Duration
	// Wait is how long to wait after the first failure, doubled with each further one up to
	// WaitMost. Each wait is drawn between half and all of it, so many monitors do not retry at
	// once.
	Wait, WaitMost time.Duration
}

// DefaultOptions are all options that have a default.
func DefaultOptions() Options {
	return Options{Max: 5000, Repeat: time.Minute, Timeout: 10 * time.Second, Wait: time.Second, WaitMost: time.Minute}
}

// The metrics of the notifier.
var (
	sentDesc = &metric.Desc{Name: "teescope_notifications_total", Kind: metric.Counter, Labels: []string{"receiver", "outcome"},
		Help: "Requests to a receiver of findings, by outcome: sent, failed (retried) and refused (by the receiver, given up); and messages dropped from a full queue."}
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

// counts are the messages of a receiver, by outcome.
type counts [dropped + 1]atomic.Uint64

// Notifier sends findings to receivers. Its methods may be called from several goroutines.
type Notifier struct {
	opts      Options
	receiving locked.Value[receiving]
}

// receiving holds the senders of the current settings.
type receiving struct {
	least   findings.Severity
	senders []*sender
	counts  map[string]*counts // by receiver; they survive a change of settings
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a notifier without receivers.
func New(o Options) *Notifier {
	return &Notifier{opts: o, receiving: locked.New(receiving{counts: map[string]*counts{}, stop: func() {}})}
}

// Settings are what may change while a notifier runs.
type Settings struct {
	Receivers []Receiver
	// Least is the lowest severity that is sent.
	Least findings.Severity
	// Page is the URL of the page, for links; "" gives none.
	Page string
}

// ApplySettings applies settings. Messages keep waiting for the receiver of the same name. The
// error names receivers whose queue cannot be opened; the others work.
func (n *Notifier) ApplySettings(set Settings) error {
	current := n.receiving.Lock()
	defer n.receiving.Unlock()
	errs := []error{current.halt()}
	ctx, stop := context.WithCancel(context.Background())
	current.least, current.stop = set.Least, stop
	for _, r := range set.Receivers {
		q, err := openQueue(filepath.Join(n.opts.Dir, r.Name+".jsonl"), n.opts.Max)
		if err != nil {
			errs = append(errs, fmt.Errorf("open the queue of receiver %s: %w", r.Name, err))
			continue
		}
		if q.damaged > 0 || q.kept != "" {
			n.opts.Log.Error("a queue of notifications was damaged; messages of its other lines are sent", "receiver", r.Name, "lines", q.damaged, "kept", q.kept)
		} else if q.cut > 0 {
			n.opts.Log.Warn("the last line of a queue of notifications is incomplete and is left out: its write was interrupted, or the file was cut",
				"receiver", r.Name, "cut_bytes", q.cut)
		}
		if current.counts[r.Name] == nil {
			current.counts[r.Name] = new(counts)
		}
		s := newSender(r, n.opts, set.Page, q, current.counts[r.Name])
		current.senders = append(current.senders, s)
		current.running.Go(func() { s.run(ctx) })
	}
	return errors.Join(errs...)
}

// halt stops the senders and closes their queues.
func (r *receiving) halt() error {
	r.stop()
	r.running.Wait()
	var errs []error
	for _, s := range r.senders {
		errs = append(errs, s.queue.close())
	}
	r.senders = nil
	return errors.Join(errs...)
}

// Close stops sending; waiting messages are sent after the next start.
func (n *Notifier) Close() error {
	held := n.receiving.Lock()
	defer n.receiving.Unlock()
	return held.halt()
}

// QueueChanges queues messages about the changes of an evaluation and the findings open after it. It
// returns when they are on disk, and does not wait for receivers.
func (n *Notifier) QueueChanges(changed, open []findings.Record) {
	current := n.receiving.Lock()
	defer n.receiving.Unlock()
	closed := map[string]findings.Record{}
	for _, r := range changed {
		if r.State == findings.Closed {
			closed[r.ID] = r
		}
	}
	now := map[string]findings.Record{}
	for _, r := range open {
		now[r.ID] = r
	}
	for _, s := range current.senders {
		s.state.Lock().all = open // first: messages name the problems that are open
		s.state.Unlock()
		told := s.queue.isTold()
		for _, r := range open {
			last, known := told[r.ID]
			news := !known && r.Severity.AtLeast(current.least) && s.receives(&r.Finding) || known && last.Severity != r.Severity
			if !news || r.Silenced != "" || r.Early {
				continue
			}
			if known && s.Format.labelled {
				last.State, last.Until = findings.Closed, &r.LastSeen
				s.enqueue(last)
			}
			s.enqueue(r)
		}
		for _, id := range slices.Sorted(maps.Keys(told)) {
			if _, still := now[id]; still {
				continue
			}
			r, ok := closed[id]
			if !ok { // it closed while the monitor was down
				r = told[id]
				until := r.LastSeen
				r.State, r.Until = findings.Closed, &until
			}
			s.enqueue(r)
		}
		s.keepTelling(open)
	}
}

// Collect emits the metrics.
func (n *Notifier) Collect(emit func(metric.Sample)) {
	current := n.receiving.Lock()
	defer n.receiving.Unlock()
	for _, name := range slices.Sorted(maps.Keys(current.counts)) {
		for o := range current.counts[name] {
			emit(metric.Sample{Desc: sentDesc, Labels: []string{name, outcome(o).String()}, Value: float64(current.counts[name][o].Load())})
		}
	}
	for _, s := range current.senders {
		emit(metric.Sample{Desc: queueDesc, Labels: []string{s.Name}, Value: float64(s.queue.length())})
	}
}
