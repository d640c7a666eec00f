// Package fleet lists the machines whose series are in the store: the monitor's own, and those of agents elsewhere
// that it scrapes. A machine is a job and an instance, the labels that all its series have. Each column of the list is
// one query for all machines. It knows neither the store nor the web.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// Health is the state of a machine in a word.
type Health string

// The states, the worst first: Gone has no reading now, Unknown has readings but no check could judge it.
const (
	Gone     Health = "gone"
	Critical Health = "critical"
	Warning  Health = "warning"
	Unknown  Health = "unknown"
	Good     Health = "good"
)

// Healths are in the order of severity.
var Healths = []Health{Gone, Critical, Warning, Unknown, Good}

// ErrNoMachine is wrapped by the error for a machine that is not in the list.
var ErrNoMachine = errors.New("no such machine")

// TEE is what a machine says of one of its TEEs.
type TEE struct {
	Kind    string `json:"kind"`
	Variant string `json:"variant,omitempty"`
	Role    string `json:"role"`
	Active  bool   `json:"active"`
	Debug   bool   `json:"debug,omitempty"`
}

// Worst is the finding that says most about a machine.
type Worst struct {
	ID       string            `json:"id"`
	Rule     string            `json:"rule"`
	Title    string            `json:"title"`
	Severity findings.Severity `json:"severity"`
	Since    time.Time         `json:"since"`
}

// Row is a machine. What is unknown is absent.
type Row struct {
	query.Machine
	// Own: it is the machine that the monitor runs on.
	Own bool `json:"own,omitempty"`
	// Name is its host name, or its instance where that is unknown.
	Name string `json:"name"`
	// Agents is how many agents have these labels, where it is more than one: their numbers cannot be told apart.
	Agents int `json:"agents,omitempty"`
	// Labels are further labels of its target, such as node and pod.
	Labels  map[string]string `json:"labels,omitempty"`
	Version string            `json:"version,omitempty"`
	Health  Health            `json:"health"`
	// LastSeen is the time of its last reading; absent for a target that never answered.
	LastSeen time.Time `json:"lastSeen,omitzero"`
	// TEE is the kind and role of the TEE that protects it or that it offers, as "sev-snp guest"; or "none",
	// "inactive" or "unknown".
	TEE  string `json:"tee"`
	TEEs []TEE  `json:"tees,omitempty"`
	// Findings is the number of open findings that are at least a warning; Worst is the worst of them.
	Findings int    `json:"findings"`
	Worst    *Worst `json:"worst,omitempty"`
	// Rules are those of all its open findings.
	Rules []string `json:"rules,omitempty"`
	// Share is the largest share of a subject's time that an open finding explains, as the interval of a ratio.
	Share *[2]float64 `json:"share,omitempty"`
	// Cost is the CPU time that teescope uses there, in cores, without answers to pages.
	Cost *float64 `json:"cost,omitempty"`
	// Waiting is the share of time in which a task waited for a CPU.
	Waiting *float64 `json:"waiting,omitempty"`
	// Sources is the number of its sources, Up of those that delivered values in the last reading, Blind of those
	// whose values are hidden.
	Sources int `json:"sources"`
	Up      int `json:"up"`
	Blind   int `json:"blind,omitempty"`
	// Coverage is the lowest share of events that a source counted, Error the largest standard error of a source.
	Coverage *float64 `json:"coverage,omitempty"`
	Error    *float64 `json:"error,omitempty"`

	looked bool   // its TEEs were detected
	unsure string // kinds of TEE that could not be told
	told   bool   // unsure is known
	worst  *findings.Record
}

// Options of a fleet; all but Meter are needed.
type Options struct {
	// Own is the machine that the monitor runs on, Version the monitor's. TEEs are those detected on it, Unsure the kinds
	// of which that could not be told, separated by commas.
	Own     query.Machine
	Version string
	TEEs    []TEE
	Unsure  string
	Now     func() time.Time
	// Meter runs a function and adds its CPU time to that of pages; nil only runs it.
	Meter func(func())
	// Interval returns the longest time between two readings.
	Interval func() time.Duration
	// Open returns the open findings of all machines, Rules the checks with their last answers.
	Open  func() []findings.Record
	Rules func() []findings.RuleStat
}

// Fleet is the list of machines.
type Fleet struct {
	q     query.Querier
	o     Options
	state locked.Value[state]
	seen  map[query.Machine]time.Time // the last reading of each machine of the last day; of the list in the making
	wait  time.Duration               // patience
	until context.Context             // ends what is in the making
	stop  context.CancelFunc
	work  sync.WaitGroup
}

type state struct {
	last *listing // nil before the first that was made without an error
	next *listing // in the making; nil while none is
}

// listing is all rows as of a time.
type listing struct {
	at   time.Time
	done chan struct{} // closed when rows or err is set
	rows []Row
	err  error
}

const (
	// fresh is how long rows are shown again, and longer by perRow for each: that of thousands of machines costs most of
	// a second of CPU time.
	fresh  = 5 * time.Second
	perRow = 2 * time.Millisecond
	// patience is how long an answer waits for a new list where an older one may be shown: until it is older by stale
	// than usual.
	patience = 300 * time.Millisecond
	stale    = time.Minute
	// making is how long a list may be in the making.
	making = 2 * time.Minute
	// past is how long a machine without readings stays in the list.
	past = 24 * time.Hour
	// lookback is how far before a moment PromQL finds a reading.
	lookback = 5 * time.Minute
)

// New returns the fleet of a store. It ends with Close.
func New(q query.Querier, o Options) *Fleet {
	if o.Meter == nil {
		o.Meter = func(f func()) { f() }
	}
	f := &Fleet{q: q, o: o, wait: patience, seen: map[query.Machine]time.Time{}}
	f.until, f.stop = context.WithCancel(context.Background())
	return f
}

// Close stops the list that is being made. No list is made after that, even for requests still waiting.
func (f *Fleet) Close() {
	f.state.Lock()
	f.stop()
	f.state.Unlock()
	f.work.Wait()
}

// Rows returns all machines, the monitor's own first and the others by name.
func (f *Fleet) Rows(ctx context.Context) ([]Row, error) {
	rows, _, err := f.list(ctx, true)
	return rows, err
}

// list returns the rows, and the time they are of. A list is made once for all who ask, and goes on when they give up.
// With older, an answer that takes long is the last list.
func (f *Fleet) list(ctx context.Context, older bool) ([]Row, time.Time, error) {
	last, next := f.listings()
	if next == nil {
		return last.rows, last.at, nil
	}
	var enough <-chan time.Time
	if last != nil && older {
		enough = time.After(f.wait)
	}
	select {
	case <-next.done:
		return next.rows, next.at, next.err
	case <-enough:
		return last.rows, last.at, nil
	case <-ctx.Done():
		return nil, time.Time{}, fmt.Errorf("wait for the list of machines: %w; ask again, because the list is not ready yet", ctx.Err())
	}
}

// listings returns the last list, nil where it is too old to be shown, and the next one, nil where the last is fresh.
func (f *Fleet) listings() (last, next *listing) {
	s := f.state.Lock()
	defer f.state.Unlock()
	now := f.o.Now()
	if l := s.last; l != nil {
		usual := fresh + time.Duration(len(l.rows))*perRow
		switch age := now.Sub(l.at); {
		case age < 0: // the clock was set back
		case age < usual:
			return l, nil
		case age < usual+stale:
			last = l
		}
	}
	if s.next == nil {
		var before time.Time
		if s.last != nil {
			before = s.last.at
		}
		l := &listing{at: now, done: make(chan struct{}), err: f.until.Err()}
		if l.err != nil { // it is closed
			close(l.done)
			return last, l
		}
		s.next = l
		f.work.Go(func() { f.o.Meter(func() { f.buildListing(l, before) }) })
	}
	return last, s.next
}

// buildListing makes a list; the one before is of another time, or there is none.
func (f *Fleet) buildListing(l *listing, before time.Time) {
	ctx, stop := context.WithTimeout(f.until, making)
	defer stop()
	l.err = contain.Call("list of machines", func() (err error) {
		t := table{f: f, ctx: ctx, now: l.at, rows: map[query.Machine]*Row{}}
		l.rows, err = t.fill(f.seen, before)
		return err
	})
	if l.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		l.err = fmt.Errorf("make the list of machines within %v: %w; the monitor has too little CPU time, or its engine is slow", making, l.err)
	}
	s := f.state.Lock()
	if s.next = nil; l.err == nil {
		s.last = l
	}
	f.state.Unlock()
	close(l.done)
}

// Row returns a machine.
func (f *Fleet) Row(ctx context.Context, m query.Machine) (Row, error) {
	for _, older := range []bool{true, false} { // an older list may lack a new machine
		rows, _, err := f.list(ctx, older)
		if err != nil {
			return Row{}, err
		}
		if i := slices.IndexFunc(rows, func(r Row) bool { return r.Machine == m }); i >= 0 {
			return rows[i], nil
		}
	}
	return Row{}, fmt.Errorf("%w: no series with job %q and instance %q in the last day; GET machines lists those there are", ErrNoMachine, m.Job, m.Instance)
}

// Owner returns a function that names the machine to which a finding belongs: the one with its labels; otherwise the
// only one with its instance, as for another exporter on that machine; otherwise the monitor's own.
func (f *Fleet) Owner(ctx context.Context) (func(query.Machine) query.Machine, error) {
	rows, err := f.Rows(ctx)
	if err != nil {
		return nil, err
	}
	return owner(f.o.Own, rows), nil
}

func owner(own query.Machine, rows []Row) func(query.Machine) query.Machine {
	known := map[query.Machine]bool{}
	called := map[string][]query.Machine{}
	for _, r := range rows {
		known[r.Machine] = true
		called[r.Instance] = append(called[r.Instance], r.Machine)
	}
	return func(m query.Machine) query.Machine {
		switch {
		case known[m]:
			return m
		case len(called[m.Instance]) == 1:
			return called[m.Instance][0]
		}
		return own
	}
}

// table is a list in the making. The first error stays in err, and later queries do nothing.
type table struct {
	f    *Fleet
	ctx  context.Context
	now  time.Time
	rows map[query.Machine]*Row
	err  error
}

func (t *table) query(expr string) []metric.Point {
	if t.err != nil {
		return nil
	}
	points, err := t.f.q.Query(t.ctx, expr, t.now)
	t.err = err
	return points
}

// row returns the row of a machine, which it makes.
func (t *table) row(m query.Machine) *Row {
	r := t.rows[m]
	if r == nil {
		r = &Row{Machine: m, Own: m == t.f.o.Own, Name: m.Instance}
		t.rows[m] = r
	}
	return r
}

// each passes the points of known machines to set.
func (t *table) each(points []metric.Point, set func(*Row, metric.Point)) {
	for _, p := range points {
		if r := t.rows[query.MachineOf(p.Labels)]; r != nil {
			set(r, p)
		}
	}
}

const by = "by (job, instance) "

// columns are the numbers of a row, over t.over().
var columns = []struct {
	expr string
	set  func(*Row, float64)
}{
	{"count " + by + "(teescope_source_blind == 1)", func(r *Row, v float64) { r.Blind = int(v) }},
	{"min " + by + "(teescope_source_coverage_ratio)", func(r *Row, v float64) { r.Coverage = &v }},
	{"max " + by + "(teescope_source_standard_error_ratio)", func(r *Row, v float64) { r.Error = &v }},
	{findings.OwnCPUTime, func(r *Row, v float64) { r.Cost = &v }},
	{"clamp_max(max " + by + "($rate(node_pressure_cpu_waiting_seconds_total)), 1)", func(r *Row, v float64) { r.Waiting = &v }},
	{"max " + by + `(teescope_source_up{source="tee"})`, func(r *Row, v float64) { r.looked = v == 1 }},
}

// InfoLabels are the labels of teescope_info that its machine gives; further ones are those of a target.
var InfoLabels = []string{"version", "hostname", "kernel", "arch", "os", "cpu_model", "lockdown", "privileged", "tee_unknown"}

// further returns the labels of a target besides job and instance; nil without any.
func further(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	maps.DeleteFunc(out, func(name, _ string) bool {
		return name == "__name__" || name == "job" || name == "instance" || slices.Contains(InfoLabels, name)
	})
	if len(out) == 0 {
		return nil
	}
	return out
}

// fill makes the rows; seen holds what was known at the time before, and is brought up to date.
func (t *table) fill(seen map[query.Machine]time.Time, before time.Time) ([]Row, error) {
	t.recall(seen, before)
	sources := t.query("count_values " + by + `("up", teescope_source_up)`) // their series are the most, so one pass gives both numbers
	present := map[query.Machine]bool{}
	last := func(metric string) {
		for _, p := range t.query("max " + by + "(timestamp(" + metric + "))") {
			m := query.MachineOf(p.Labels)
			seen[m], present[m] = instant(p.Value), true
		}
	}
	last("teescope_info")
	// The series of sources are many, so their times are asked only where there is no other.
	if slices.ContainsFunc(sources, func(p metric.Point) bool { return !present[query.MachineOf(p.Labels)] }) {
		last("teescope_source_up")
	}
	info := t.query("teescope_info")
	maps.DeleteFunc(seen, func(_ query.Machine, at time.Time) bool { return t.now.Sub(at) > past })
	jobs := map[string]bool{}
	for m, at := range seen {
		t.row(m).LastSeen = at
		jobs[m.Job] = true
	}
	t.each(sources, func(r *Row, p metric.Point) {
		r.Sources += int(p.Value)
		if p.Labels["up"] == "1" {
			r.Up += int(p.Value)
		}
	})
	t.each(info, func(r *Row, p metric.Point) {
		if r.Agents++; r.Agents > 1 { // what they have in common is left
			maps.DeleteFunc(r.Labels, func(name, v string) bool { return p.Labels[name] != v })
			if r.Version != p.Labels["version"] {
				r.Version = ""
			}
			return
		}
		r.Version, r.unsure, r.told, r.Labels = p.Labels["version"], p.Labels["tee_unknown"], true, further(p.Labels)
		if name := p.Labels["hostname"]; name != "" {
			r.Name = name
		}
	})
	// A target that never answered is a machine, too, where other targets of its job are.
	for _, p := range t.query("up == 0") {
		if m := query.MachineOf(p.Labels); jobs[m.Job] {
			t.row(m).Labels = further(p.Labels)
		}
	}
	t.each(t.query("tee_info"), func(r *Row, p metric.Point) {
		r.TEEs = append(r.TEEs, TEE{Kind: p.Labels["kind"], Variant: p.Labels["variant"], Role: p.Labels["role"], Active: p.Labels["active"] == "true", Debug: p.Labels["debug"] == "true"})
	})
	for _, c := range columns {
		points := t.query(query.Scope{Over: query.PromDuration(t.rateWindow())}.Expand(c.expr))
		t.each(points, func(r *Row, p metric.Point) { c.set(r, p.Value) })
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.judged(), nil
}

// recall looks for machines that had readings since a time, but may have none now. One that a failed scrape ended is
// seen up to a moment before its last reading.
func (t *table) recall(seen map[query.Machine]time.Time, before time.Time) {
	gap := min(t.now.Sub(before), past)
	if gap < 0 { // the clock was set back
		gap = past
	}
	if gap <= time.Minute {
		return
	}
	// The last hour matters most. A query holds at most 120 values of each machine.
	recent := min(gap.Round(time.Second), time.Hour)
	t.findReadings(seen, recent, max(recent/120, 15*time.Second).Round(time.Second), 0)
	for ago := recent; ago < gap; ago += 6 * time.Hour {
		t.findReadings(seen, 6*time.Hour, lookback, ago)
	}
}

// findReadings finds readings in a span of time that ended so long ago, at every step.
func (t *table) findReadings(seen map[query.Machine]time.Time, span, step, ago time.Duration) {
	for _, p := range t.query(fmt.Sprintf("max %s(max_over_time(timestamp(teescope_info)[%s:%s] offset %s))", by, query.PromDuration(span), query.PromDuration(step), query.PromDuration(ago))) {
		if m, at := query.MachineOf(p.Labels), instant(p.Value); at.After(seen[m]) {
			seen[m] = at
		}
	}
}

// rateWindow is the time of rates: it holds four readings, and a minute at least.
func (t *table) rateWindow() time.Duration { return max(time.Minute, 4*t.f.o.Interval()) }

func instant(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)) }

// judged completes the rows with findings and health.
func (t *table) judged() []Row {
	out := make([]Row, 0, len(t.rows))
	for _, r := range t.rows {
		if r.Own { // its series may be those of an earlier version, and of fewer sources
			r.Agents, r.Version = 0, t.f.o.Version
			r.TEEs, r.unsure, r.looked, r.told = slices.Clone(t.f.o.TEEs), t.f.o.Unsure, true, true
		}
		if r.Agents == 1 {
			r.Agents = 0
		}
		slices.SortFunc(r.TEEs, compareTEEs)
		r.TEE = r.protection()
		out = append(out, *r)
	}
	slices.SortFunc(out, Row.byName)
	at := map[query.Machine]*Row{}
	for i := range out {
		at[out[i].Machine] = &out[i]
	}
	of := owner(t.f.o.Own, out)
	for _, rec := range t.f.o.Open() {
		if r := at[of(rec.Machine)]; r != nil {
			r.add(rec)
		}
	}
	checked := slices.ContainsFunc(t.f.o.Rules(), func(s findings.RuleStat) bool { return s.Answer != findings.CannotTell })
	for i := range out {
		out[i].Health = out[i].health(checked, t.now, t.rateWindow())
	}
	return out
}

func (r *Row) add(rec findings.Record) {
	if !slices.Contains(r.Rules, rec.Rule) {
		r.Rules = append(r.Rules, rec.Rule)
	}
	if rec.Ended != nil || !rec.IsProblem() {
		return
	}
	r.Findings++
	if r.worst == nil || findings.CompareWeight(&rec, r.worst) < 0 {
		r.worst, r.Worst = &rec, &Worst{rec.ID, rec.Rule, cmp.Or(rec.Sentence, rec.Title), rec.Severity, rec.Since}
	}
	if s := rec.Share; s != nil && (r.Share == nil || s[0]+s[1] > r.Share[0]+r.Share[1]) {
		r.Share = s
	}
}

func (r *Row) health(checked bool, now time.Time, late time.Duration) Health {
	switch {
	case r.LastSeen.IsZero() || now.Sub(r.LastSeen) > late:
		return Gone
	case r.Worst != nil && r.Worst.Severity == findings.Critical:
		return Critical
	case r.Worst != nil:
		return Warning
	case !checked || r.Up == 0:
		return Unknown
	}
	return Good
}

// roles are in the order of importance: a guest is protected itself.
var roles = []string{"guest", "host", "device"}

func compareTEEs(a, b TEE) int {
	rank := func(t TEE) int {
		n := slices.Index(roles, t.Role)
		if !t.Active {
			n += 10
		}
		return n
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a.Kind+a.Variant, b.Kind+b.Variant)
}

// protection returns the machine's TEE in words; "none" only where all kinds were looked for, with an answer.
func (r *Row) protection() string {
	switch {
	case len(r.TEEs) > 0 && r.TEEs[0].Active:
		t := r.TEEs[0]
		name := strings.TrimSuffix(t.Kind, "-host")
		if strings.HasPrefix(t.Variant, name+"-") {
			name = t.Variant // sev-snp and sev-es; other variants are of drivers
		}
		return name + " " + t.Role
	case !r.looked || !r.told || r.unsure != "":
		return "unknown"
	case len(r.TEEs) > 0:
		return "inactive"
	}
	return "none"
}

// Unsure returns the kinds of TEE of which the machine could not tell whether it has them.
func (r Row) Unsure() []string {
	return strings.FieldsFunc(r.unsure, func(c rune) bool { return c == ',' })
}

// TEEsKnown reports whether the machine's TEEs were looked for, and the answers are known.
func (r Row) TEEsKnown() bool { return r.looked && r.told }
