package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"

	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
)

// Append stores one round of samples with the labels job and instance. A series of the previous
// round that this one lacks ends here, so queries show a gap and not its last value. A series that is new since the
// previous round gets a 0 at that round's time, so its first value counts as growth; if that round was not stored,
// the time of the 0 is unknown.
//
// When Append returns nil, every sample survives a crash of the process. A [Refused] names samples that are not stored,
// while all others are. After any other error the round is not stored. Both count as lost. After a failed write
// Append waits for the repair of the log, which replays it, and tries once more. If the clock went back, it first sets
// aside what is later than t.
func (s *Store) Append(t time.Time, samples []metric.Sample) error {
	start := time.Now()
	r := s.local.rounds.Lock()
	defer s.local.rounds.Unlock()
	at := t.UnixMilli()
	s.bringBack(at)
	next := at + s.opts.Interval.Milliseconds()
	stored, err := r.append(s, at, next, samples)
	switch {
	case errors.Is(err, errWentBack):
		if err = s.rewind(at); err == nil {
			r.last = 0 // it was later than t
			stored, err = r.append(s, at, next, samples)
		}
	case err != nil && s.isTorn() && s.putInOrder() == nil:
		stored, err = r.append(s, at, next, samples)
	}
	var some *Refused
	if r.last = at; err != nil && !errors.As(err, &some) {
		r.last = 0
		s.local.target.Report(t, time.Since(start), err)
	} else {
		s.local.target.Report(t, time.Since(start), nil)
	}
	if some != nil {
		s.refusals.add(some.byReason)
	}
	s.appended.Add(uint64(stored))
	s.lost.Add(uint64(valuesOf(samples) - stored))
	s.send.wrote(stored, at)
	s.trouble.set("append", err)
	return err
}

// writer takes transactions.
type writer interface {
	begin() (opening, error)
	finish(opening, storage.Appender) error
	undo(opening, storage.Appender) error
}

// opening is one opening of a database, until it is given back. Its references to series mean nothing in another.
type opening interface {
	Appender(context.Context) storage.Appender
	unlease()
	ordinal() uint64 // its number among all of this process
}

func (s *Store) begin() (opening, error) {
	db, err := s.leaseToWrite()
	if err != nil {
		return nil, err
	}
	return db, nil
}

func (s *Store) finish(o opening, a storage.Appender) error { return s.commit(o.(*database), a) }

func (s *Store) undo(o opening, a storage.Appender) error { return s.rollback(o.(*database), a) }

// valuesOf returns the number of values in a round; a histogram has several.
func valuesOf(samples []metric.Sample) (n int) {
	for i := range samples {
		if h := samples[i].Hist; h != nil {
			n += len(h.Counts) + 2
		} else {
			n++
		}
	}
	return n
}

// local is the built-in target.
type local struct {
	job    string
	target *scrape.Target
	meta   families
	rounds locked.Value[rounds]
}

// rounds holds the series of Append, by declaration and label values, with the references that make appending cheap.
type rounds struct {
	job      string
	instance string
	meta     *families
	families map[*metric.Desc]map[string]*series
	db       opening            // the one of the references
	named    map[string]*series // by name and labels: what differs in families may be one series here
	attempt  uint64
	last     int64 // the previous round, in Unix milliseconds; 0 if it was not stored
	begun    []*series
	ending   []*series
	key      []byte
}

// series is one label set, with several parts for a histogram.
type series struct {
	name   string // of its first part, with its labels
	parts  []part
	bounds []float64
	seen   uint64 // last attempt to store a round that had it
	stored bool
	ended  bool // marked as stale
}

type part struct {
	ref  storage.SeriesRef
	lset labels.Labels
}

func newLocal(o Options) *local {
	lset := labels.FromStrings(
		model.AddressLabel, o.Instance,
		model.SchemeLabel, "local",
		model.MetricsPathLabel, "/metrics",
		model.ScrapeIntervalLabel, o.Interval.String(),
		model.ScrapeTimeoutLabel, o.Interval.String(),
		model.InstanceLabel, o.Instance,
		model.JobLabel, o.Job,
	)
	l := &local{
		job:    o.Job,
		target: scrape.NewTarget(lset, &config.ScrapeConfig{JobName: o.Job}, model.LabelSet{model.AddressLabel: model.LabelValue(o.Instance)}, nil),
	}
	l.target.SetMetadataStore(&l.meta)
	l.rounds = locked.New(rounds{job: o.Job, instance: o.Instance, meta: &l.meta,
		families: map[*metric.Desc]map[string]*series{}, named: map[string]*series{}})
	return l
}

// append writes a round in one transaction and returns the number of stored values. It writes nothing if the clock
// went back so far that the next round would be refused too.
func (r *rounds) append(w writer, t, next int64, samples []metric.Sample) (int, error) {
	db, err := w.begin()
	if err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	defer db.unlease()
	if r.db != db {
		r.forgetRefs()
		r.db = db
	}
	r.attempt++
	r.begun = r.begun[:0]
	app := db.Appender(context.Background())
	n := 0
	no := Refused{Of: len(samples)}
	for i := range samples {
		m := &samples[i]
		e, err := r.find(m)
		switch {
		case err != nil:
		case e.seen == r.attempt:
			err = fmt.Errorf("%s: %w", e.parts[0].lset, errTwice)
		default:
			var k int
			if !e.stored && r.last > 0 && m.Began.UnixMilli() > r.last {
				e.begin(app, t, r.last)
			}
			k, err = e.append(app, t, m)
			n += k
			e.seen = r.attempt
			if err == nil && (!e.stored || e.ended) {
				r.begun = append(r.begun, e)
			}
			if late(err) && e.blocked(db, k, next) {
				return 0, errors.Join(errWentBack, w.undo(db, app))
			}
		}
		if err != nil {
			no.add(err)
		}
	}
	r.endVanished(app, t)
	if err := w.finish(db, app); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	for _, e := range r.begun {
		e.stored, e.ended = true, false
	}
	for _, e := range r.ending {
		e.ended = true
	}
	if no.Samples > 0 {
		return n, &no
	}
	return n, nil
}

// blocked reports whether a part's sample of a time would be refused, because there is one of that time or later.
func (e *series) blocked(db opening, part int, t int64) bool {
	app := db.Appender(context.Background())
	defer func() { _ = app.Rollback() }() // it has nothing to write
	_, err := app.Append(e.parts[part].ref, e.parts[part].lset, t, math.NaN())
	return err != nil
}

// late reports whether a sample was refused because there are later ones.
func late(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrOutOfBounds)
}

// begin gives a new series a 0 at an earlier time.
func (e *series) begin(app storage.Appender, t, at int64) {
	for i := range e.parts {
		// An error means that there is a sample of that time or later.
		if ref, err := app.AppendSTZeroSample(e.parts[i].ref, e.parts[i].lset, t, at); err == nil {
			e.parts[i].ref = ref
		}
	}
}

// append adds the values of one sample and returns the number of accepted ones.
func (e *series) append(app storage.Appender, t int64, m *metric.Sample) (n int, err error) {
	put := func(v float64) {
		if err != nil {
			return
		}
		p := &e.parts[n]
		ref, aerr := app.Append(p.ref, p.lset, t, v)
		if aerr != nil {
			err = fmt.Errorf("%s: %w", p.lset, aerr)
			if late(aerr) {
				err = fmt.Errorf("%w (the clock went back)", err)
			}
			return
		}
		p.ref = ref
		n++
	}
	if m.Hist == nil {
		put(m.Value)
		return n, err
	}
	var sum uint64
	for _, c := range m.Hist.Counts {
		sum += c
		put(float64(sum))
	}
	put(m.Hist.Sum)
	put(float64(sum))
	return n, err
}

// endVanished marks series that this round lacks as stale and forgets those that have been absent for long.
func (r *rounds) endVanished(app storage.Appender, t int64) {
	const keep = 720 // rounds: an hour at 5 s
	r.ending = r.ending[:0]
	for _, f := range r.families {
		for key, e := range f {
			switch {
			case e.seen == r.attempt:
			case !e.ended:
				for i := range e.parts {
					// An error would mean that the series has no sample before t to end.
					_, _ = app.Append(e.parts[i].ref, e.parts[i].lset, t, math.Float64frombits(value.StaleNaN))
				}
				r.ending = append(r.ending, e)
			case e.seen+keep < r.attempt:
				delete(f, key)
				delete(r.named, e.name)
			}
		}
	}
}

// find returns the series of a sample, creating it if it is new.
func (r *rounds) find(m *metric.Sample) (*series, error) {
	if m.Desc == nil || len(m.Labels) != len(m.Desc.Labels) {
		return nil, fmt.Errorf("sample %v: %w", m.Labels, errLabels)
	}
	if (m.Hist != nil) != (m.Desc.Kind == metric.Histogram) || m.Hist != nil && len(m.Hist.Counts) != len(m.Hist.Bounds)+1 {
		return nil, fmt.Errorf("sample of %s: %w %s", m.Desc.Name, errNotWhole, m.Desc.Kind)
	}
	f := r.families[m.Desc]
	if f == nil {
		f = map[string]*series{}
		r.families[m.Desc] = f
		r.meta.add(m.Desc)
	}
	r.key = r.key[:0]
	for _, v := range m.Labels {
		r.key = append(append(r.key, v...), 0xff)
	}
	e := f[string(r.key)]
	if e == nil || m.Hist != nil && !slices.Equal(e.bounds, m.Hist.Bounds) {
		var err error
		if e, err = r.build(m); err != nil {
			return nil, err
		}
		f[string(r.key)] = e
	}
	return e, nil
}

// build makes the label sets of a sample: one, or those of a classic histogram. If another sample has the same, it
// returns that one's series.
func (r *rounds) build(m *metric.Sample) (*series, error) {
	for _, name := range m.Desc.Labels {
		if !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel {
			return nil, fmt.Errorf("sample of %s: %w: %q", m.Desc.Name, errLabelName, name)
		}
	}
	if i := slices.IndexFunc(m.Labels, func(v string) bool { return !utf8.ValidString(v) }); i >= 0 {
		return nil, fmt.Errorf("sample of %s: its label %s is not UTF-8: %q", m.Desc.Name, m.Desc.Labels[i], m.Labels[i])
	}
	if !model.UTF8Validation.IsValidMetricName(m.Desc.Name) {
		return nil, fmt.Errorf("sample of %q: %w", m.Desc.Name, errLabelName)
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	lset := func(name, le string) part {
		b.Reset(labels.EmptyLabels())
		b.Set(model.JobLabel, r.job)
		b.Set(model.InstanceLabel, r.instance)
		for i, v := range m.Labels {
			b.Set(m.Desc.Labels[i], v)
		}
		b.Set(model.BucketLabel, le)
		b.Set(model.MetricNameLabel, name)
		return part{lset: b.Labels()}
	}
	e := &series{}
	if m.Hist == nil {
		e.parts = append(e.parts, lset(m.Desc.Name, ""))
	} else {
		e.bounds = slices.Clone(m.Hist.Bounds)
		for _, le := range m.Hist.Bounds {
			e.parts = append(e.parts, lset(m.Desc.Name+"_bucket", labels.FormatOpenMetricsFloat(le))) // formatted as in a scrape
		}
		e.parts = append(e.parts, lset(m.Desc.Name+"_bucket", "+Inf"), lset(m.Desc.Name+"_sum", ""), lset(m.Desc.Name+"_count", ""))
	}
	e.name = e.parts[0].lset.String()
	if same := r.named[e.name]; same != nil && slices.Equal(same.bounds, e.bounds) {
		return same, nil
	}
	r.named[e.name] = e
	return e, nil
}

// forgetRefs drops the references, which belong to one opening of the database.
func (r *rounds) forgetRefs() {
	for _, f := range r.families {
		for _, e := range f {
			for i := range e.parts {
				e.parts[i].ref = 0
			}
		}
	}
}

// families is the metadata of the local series for /api/v1/metadata.
type families struct {
	mu sync.RWMutex
	m  map[string]scrape.MetricMetadata
}

func (m *families) add(d *metric.Desc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]scrape.MetricMetadata{}
	}
	m.m[d.Name] = scrape.MetricMetadata{MetricFamily: d.Name, Type: model.MetricType(d.Kind.String()), Help: d.Help}
}

// ListMetadata returns the metadata of all families, as the target of a scrape does; so do GetMetadata, SizeMetadata
// and LengthMetadata.
func (m *families) ListMetadata() []scrape.MetricMetadata {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]scrape.MetricMetadata, 0, len(m.m))
	for _, md := range m.m {
		out = append(out, md)
	}
	return out
}

// GetMetadata returns one family's type and help.
func (m *families) GetMetadata(family string) (scrape.MetricMetadata, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	md, ok := m.m[family]
	return md, ok
}

// SizeMetadata is the text's size in bytes.
func (m *families) SizeMetadata() (n int) {
	for _, md := range m.ListMetadata() {
		n += len(md.Help) + len(md.Type)
	}
	return n
}

// LengthMetadata is the number of families.
func (m *families) LengthMetadata() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.m)
}
