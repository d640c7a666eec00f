//go:build linux

package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// Alone is a monitor in the process of one command: the same sources, rules and explanations, without a port, a socket, a
// data folder, a configuration and anybody to notify. It leaves nothing behind, whatever ends the process: samples are in
// memory, and the kernel detaches programs and closes maps whose last user is gone.
type Alone struct {
	*monitor
	begun  chan struct{} // closed when the first rates are known
	opened chan struct{} // closed when all sources have been read twice; then analysis is set
	read   chan struct{} // closed when all sources have been read for WatchedOnce
	ended  chan struct{} // closed when the work is over; then failed is set
	times  locked.Value[readingTimes]
	failed error
	told   bool // failed was returned
	drop   func() error
	stop   context.CancelFunc
}

// readingTimes are when sources were read, on the wall clock.
type readingTimes struct {
	first time.Time // of any sources
	all   time.Time // first of all sources, as first until it is set
	last  time.Time
}

const (
	// remembered is how long samples are kept: three times the long window of the rules.
	remembered = 15 * time.Minute
	// WatchedOnce is how long a command that prints once watches.
	WatchedOnce = 10 * time.Second
	// eager is the time in which readings and rules come often, because somebody waits for the first of them;
	// EagerInterval and eagerRules are the times between two then.
	eager         = 20 * time.Second
	EagerInterval = time.Second
	eagerRules    = 4 * time.Second
	// firstReadings is the time between the first two.
	firstReadings = 250 * time.Millisecond
	// leastExplained is the shortest window of rules and explanations: it has four eager readings.
	leastExplained = 5 * time.Second
	// pricing is how long measuring what events cost may delay the sources in the kernel.
	pricing = 3 * time.Second
)

// WatchAlone starts a monitor in this process, which reads the sources after each interval, at first more often. Of the
// settings, the folder (for what events cost) and the judging count. If it runs on, rules are evaluated in the background;
// otherwise only when they are asked for. Close ends it.
func WatchAlone(ctx context.Context, s Settings, interval time.Duration, runsOn bool) (*Alone, error) {
	s.Interval = interval
	a, err := newAlone(ctx, observedAlone(), s)
	if err == nil {
		a.start(ctx, runsOn)
	}
	return a, err
}

// observedAlone says what a monitor in the process of a command observes.
func observedAlone() observe.Settings {
	return observe.Settings{NoPort: true, Probes: observe.ProbesFolder, Root: "/", Budget: observe.DefaultBudget, Privileges: observe.Least, Read: config.Reader(false)}
}

// newAlone opens the sources that do not work in the kernel, and reads none.
func newAlone(ctx context.Context, observed observe.Settings, s Settings) (*Alone, error) {
	o, err := observed.Observe(ctx, io.Discard) // a log would tear the screen
	if err != nil {
		return nil, err
	}
	limitMemory()
	opts := store.DefaultOptions()
	opts.Retention, opts.Instance, opts.Version, opts.Interval, opts.Sources = remembered, o.Platform.Hostname, build.Version(), s.Interval, probe.SourceNames(o.Sources)
	memory, err := store.OpenMemory(opts)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	m := newMonitor(o, s)
	m.keeper, m.series, m.least = memory, memory, leastExplained
	m.Platform.Interval = s.Interval.Seconds()
	m.Open()
	on := true
	if err := m.Engine.Set("process_times", probe.Setting{On: &on}); err != nil { // the others take a while, and privileges
		return nil, errors.Join(err, o.Close(), memory.Close())
	}
	a := &Alone{monitor: m, begun: make(chan struct{}), opened: make(chan struct{}), read: make(chan struct{}), ended: make(chan struct{})}
	a.drop = func() error { return a.Drop(io.Discard, "") }
	return a, nil
}

// start begins to read.
func (a *Alone) start(ctx context.Context, runsOn bool) {
	ctx, a.stop = context.WithCancel(ctx)
	go func() {
		defer close(a.ended)
		a.failed = a.work(ctx, runsOn)
	}()
}

// Close ends the readings, detaches the sources and forgets the samples. It returns why the work failed if await has not.
func (a *Alone) Close() error {
	a.stop()
	<-a.ended
	err := a.failed
	if a.told {
		err = nil
	}
	return errors.Join(err, a.Observer.Close(), a.keeper.Close())
}

// work reads the sources until ctx ends. Those that only read files are there at once. What events cost is measured before
// the others are attached, as in a monitor, but only once the first rates are known: it keeps CPUs busy, and somebody waits.
func (a *Alone) work(ctx context.Context, runsOn bool) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop() // so that there is an end to wait for
	measured := make(chan observe.UnitCosts, 1)
	tick := time.NewTicker(firstReadings)
	defer tick.Stop()
	for n := 1; a.costs.Load() == nil; n++ {
		a.store(a.Engine.Collect(ctx))
		if n == 2 {
			close(a.begun)
			tick.Reset(EagerInterval)
			all.Go(func() { measured <- a.lentCosts(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case c := <-measured:
			a.costs.Store(&c)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	all.Go(func() { a.Govern(ctx) })
	a.OpenKernel()
	observe.Settle("")
	if err := a.drop(); err != nil {
		return err
	}
	tick.Reset(EagerInterval)
	first := true
	for calm := false; ; first = false {
		a.store(a.Engine.Collect(ctx))
		switch since := a.watched(); {
		case first:
			a.allRead()
		case !a.isOpen(): // its rates are known now
			from, _ := a.span()
			a.analyse(a.every(eagerRules, EagerInterval), from)
			close(a.opened)
			if runsOn {
				all.Go(func() { _ = a.analysis.Run(ctx) })
			}
		case since >= eager && !calm:
			calm = true
			a.spare()
			tick.Reset(a.Interval)
			a.analysis.Reconfigure(a.config.Analysis.Enabled(), a.every(findings.DefaultOptions().Every, a.Interval))
		case since >= WatchedOnce:
			a.tellRead()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// store keeps a round. If the clock was set back, the earlier rounds are forgotten, as the memory forgets them.
func (a *Alone) store(at time.Time, samples []metric.Sample) {
	a.storeRound(at, samples)
	at = time.UnixMilli(at.UnixMilli()) // as it is stored, and without the clock that nobody sets
	t := a.times.Lock()
	defer a.times.Unlock()
	if t.last.IsZero() || at.Before(t.last) {
		t.first, t.all = at, at
	}
	t.last = at
}

// allRead makes the last reading the first of all sources.
func (a *Alone) allRead() {
	t := a.times.Lock()
	defer a.times.Unlock()
	t.all = t.last
}

// span is from the first reading, of all sources once these have been read twice, until the last one.
func (a *Alone) span() (from, until time.Time) {
	t := a.times.Lock()
	defer a.times.Unlock()
	if a.isOpen() {
		return t.all, t.last
	}
	return t.first, t.last
}

// watched is how long all sources have been read.
func (a *Alone) watched() time.Duration {
	t := a.times.Lock()
	defer a.times.Unlock()
	return t.last.Sub(t.all)
}

// spare switches the source off that another one has replaced by now.
func (a *Alone) spare() {
	off := false
	if slices.ContainsFunc(a.Engine.Status(), func(s probe.Status) bool { return s.Source.Name == "switches" && s.State == probe.Available }) {
		_ = a.Engine.Set("process_times", probe.Setting{On: &off}) // both are known
	}
}

// tellRead tells that all sources have been read for WatchedOnce.
func (a *Alone) tellRead() {
	select {
	case <-a.read:
	default:
		close(a.read)
	}
}

// every are the options of rules that are evaluated, and of sources that are read, so often.
func (a *Alone) every(evaluated, read time.Duration) findings.Options {
	o := a.rulesOptions(a.config)
	o.Every, o.Interval, o.LeastObserved = evaluated, read, leastExplained
	return o
}

// lentCosts are the unit costs that a monitor has stored here, or new ones, which are not stored.
func (a *Alone) lentCosts(ctx context.Context) observe.UnitCosts {
	now := machine.Identify(a.Host, observe.Protection(a.Found))
	if c, err := prices.Load(a.Host, a.Data); err == nil && c.Stale(now) == "" {
		return observe.UnitCosts{Calibration: c}
	}
	c, err := prices.MeasureWithin(ctx, a.Host, now, observe.Traced(), pricing)
	return observe.UnitCosts{Calibration: c, Err: err}
}

// WaitForRates waits until the first rates are known. The error is why the work failed, or the context's.
func (a *Alone) WaitForRates(ctx context.Context) error { return a.await(ctx, a.begun) }

// await waits for an event, which does not come if the work fails.
func (a *Alone) await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.ended:
		a.told = true
		return a.stopReason()
	}
}

// stopReason is why nothing is read any more; nil while the work goes on.
func (a *Alone) stopReason() error {
	select {
	case <-a.ended:
		return cmp.Or(a.failed, context.Canceled)
	default:
		return nil
	}
}

// WatchOnce waits until all sources have been read for WatchedOnce, and then evaluates the rules.
func (a *Alone) WatchOnce(ctx context.Context) error {
	if err := a.await(ctx, a.read); err != nil {
		return err
	}
	a.analysis.Evaluate(ctx)
	return ctx.Err()
}

// isOpen reports whether all sources have been read twice.
func (a *Alone) isOpen() bool {
	select {
	case <-a.opened:
		return true
	default:
		return false
	}
}

// findings are those of all rules that have been evaluated.
func (a *Alone) findings(ctx context.Context) (f web.Findings, err error) {
	if err := a.stopReason(); err != nil {
		return f, err
	}
	if a.isOpen() {
		f, err = a.findingsOf(ctx, query.Machine{})
	} else {
		f = web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: a.Host.Now()}.WithSummary(a.PlatformNow().Started)
	}
	if s := &f.Summary; s.Youth != "" { // a monitor's words
		words := fmt.Sprintf("teescope has watched for %s; the first answers take a few seconds.", metric.Length(max(1, f.At.Sub(a.PlatformNow().Started).Seconds())))
		if s.Headline == s.Youth {
			s.Headline = words
		}
		s.Youth = words
	}
	return f, err
}

// explained says where the time of a process goes. lack is what is not read here, "" for nothing; told is that the user knows it.
func (a *Alone) explained(ctx context.Context, q explain.Question, lack string, told bool) (e web.Explanation, err error) {
	from, _ := a.span()
	if !a.isOpen() || q.To.Sub(from) < leastExplained {
		return e, &explain.Refusal{Reason: fmt.Sprintf("the first explanation needs readings of %s, and teescope has not run that long yet", metric.Length(leastExplained.Seconds()))}
	}
	if q.From.Before(from) {
		q.From = from
	}
	e, err = a.explain(ctx, q)
	var no *explain.Refusal
	if !errors.As(err, &no) || !no.NotFound || lack == "" {
		return e, err
	}
	reason := fmt.Sprintf("teescope saw no process %q", q.Process)
	if as := runsAs(a.Host, q.Process); as != "" {
		reason += "; " + as
	}
	if a.runs(ctx, q) {
		reason = "no source that works here shows where the process's time goes"
		if !told {
			reason += ". " + strings.TrimSuffix(lack, ".")
		}
	}
	return e, &explain.Refusal{NotFound: true, Reason: reason}
}

// runs reports whether there is a process of the name that a question is about.
func (a *Alone) runs(ctx context.Context, q explain.Question) bool {
	points, err := a.series.Query(ctx, fmt.Sprintf("tee_process_stat_cpu_seconds_total{process=%q}", q.Process), q.To)
	if err == nil && len(points) > 0 {
		return true
	}
	list, err := running(a.Host, q.Process, false)
	return err == nil && len(list) > 0
}

// Backend answers from this process, to a command, whose user has been told what is lacking, or not. Its CPU time counts as that
// of a page: looking at a measurement must not coarsen it.
func (a *Alone) Backend(command string, told bool) client.Backend {
	return client.Backend{
		Where: "in this process",
		Findings: func(ctx context.Context) (f web.Findings, err error) {
			a.Host.Pages.Run(func() { f, err = a.findings(ctx) })
			return f, err
		},
		Platform: func(ctx context.Context) (web.Platform, error) { return a.platformOf(ctx, query.Machine{}) },
		Overhead: func(ctx context.Context) (o web.Overhead, err error) {
			from, until := a.span()
			a.Host.Pages.Run(func() {
				o, err = a.overheadIn(ctx, query.Machine{}, min(time.Minute, until.Sub(from)+client.SpanMargin), until)
			})
			return o, err
		},
		Query: func(ctx context.Context, expr string, at time.Time) (points []metric.Point, err error) {
			a.Host.Pages.Run(func() { points, err = a.series.Query(ctx, expr, at) })
			return points, err
		},
		Lines: func(ctx context.Context, expr string, from, to time.Time, step time.Duration) (lines []metric.Series, err error) {
			a.Host.Pages.Run(func() { lines, err = a.series.QueryRange(ctx, expr, from, to, step) })
			return lines, err
		},
		Tree: func(ctx context.Context, s client.Subject, per string, from, to time.Time) (e web.Explanation, err error) {
			lack := a.Lacks(command)
			a.Host.Pages.Run(func() {
				e, err = a.explained(ctx, explain.Question{Process: s.Process, Instance: s.Instance, From: from, To: to, PerRequest: per == "request"}, lack, told)
			})
			return e, err
		},
		Span:  func(web.Platform) (from, until time.Time) { return a.span() },
		Draw:  a.Host.Pages.Run,
		Lacks: func() string { return a.Lacks(command) },
	}
}

// shownBy says what the sources show that tell processes apart.
var shownBy = []shownSource{
	{"syscalls", "system calls"}, {"faults", "page faults"}, {"switches", "context switches"}, {"samples", "CPU time by use"}, {"waits", "waiting time by cause"},
}

// ShowsProcesses reports whether a source tells processes apart.
func ShowsProcesses(source string) bool {
	return slices.ContainsFunc(shownBy, func(s shownSource) bool { return s.source == source })
}

// shownSource is a source with what it shows of a process.
type shownSource struct{ source, what string }

// Lacks says what is not known of a process here, why, and what would help a command; "" for nothing.
func (a *Alone) Lacks(command string) string {
	if !a.isOpen() {
		return ""
	}
	status := a.Engine.Status()
	var lacks []string
	why := ""
	for _, s := range shownBy {
		i := slices.IndexFunc(status, func(st probe.Status) bool { return st.Source.Name == s.source && st.State == probe.Unavailable })
		if i >= 0 {
			lacks, why = append(lacks, s.what), cmp.Or(why, status[i].Reason)
		}
	}
	switch {
	case len(lacks) == 0:
		return ""
	case os.Geteuid() != 0:
		return fmt.Sprintf("Without root, teescope cannot show these values of a process: %s. `sudo teescope %s` shows these values.", strings.Join(lacks, ", "), command)
	}
	return fmt.Sprintf("On this machine, teescope cannot show these values of a process: %s (%s). `teescope doctor` says what would help.", strings.Join(lacks, ", "), why)
}
