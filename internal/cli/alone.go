//go:build linux

package cli

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
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// alone is a monitor in the process of one command: the same sources, rules and explanations, without a port, a socket, a
// data folder, a configuration and anybody to notify. It leaves nothing behind, whatever ends the process: samples are in
// memory, and the kernel detaches programs and closes maps whose last user is gone.
type alone struct {
	*monitor
	begun  chan struct{} // closed when the first rates are known
	opened chan struct{} // closed when all sources have been read twice; then analysis is set
	read   chan struct{} // closed when all sources have been read for watchedOnce
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
	// watchedOnce is how long a command that prints once watches.
	watchedOnce = 10 * time.Second
	// eager is the time in which readings and rules come often, because somebody waits for the first of them;
	// eagerReading and eagerRules are the times between two then.
	eager        = 20 * time.Second
	eagerReading = time.Second
	eagerRules   = 4 * time.Second
	// firstReadings is the time between the first two.
	firstReadings = 250 * time.Millisecond
	// leastExplained is the shortest window of rules and explanations: it has four eager readings.
	leastExplained = 5 * time.Second
	// pricing is how long measuring what events cost may delay the sources in the kernel.
	pricing = 3 * time.Second
)

// watchAlone starts a monitor in this process. If it runs on, rules are evaluated in the background; otherwise only when
// they are asked for. Close ends it.
func watchAlone(ctx context.Context, interval time.Duration, runsOn bool) (*alone, error) {
	a, err := newAlone(ctx, aloneSettings(), interval)
	if err == nil {
		a.start(ctx, runsOn)
	}
	return a, err
}

// aloneSettings are the settings of a monitor in the process of a command.
func aloneSettings() observe.Settings {
	return observe.Settings{NoPort: true, Probes: observe.ProbesFolder, Root: "/", Budget: observe.DefaultBudget, Privileges: observe.Least, Read: configReader(false)}
}

// newAlone opens the sources that do not work in the kernel, and reads none.
func newAlone(ctx context.Context, s observe.Settings, interval time.Duration) (*alone, error) {
	o, err := s.Observe(ctx, io.Discard) // a log would tear the screen
	if err != nil {
		return nil, err
	}
	limitMemory()
	opts := store.DefaultOptions()
	opts.Retention, opts.Instance, opts.Version, opts.Interval, opts.Sources = remembered, o.Platform.Hostname, build.Version(), interval, sourceOf(o.Sources)
	memory, err := store.OpenMemory(opts)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	m := &monitor{interval: interval, keeper: memory, series: memory, least: leastExplained}
	m.watches(o)
	m.Platform.Interval = interval.Seconds()
	m.Open()
	on := true
	if err := m.Engine.Set("process_times", probe.Setting{On: &on}); err != nil { // the others take a while, and privileges
		return nil, errors.Join(err, o.Close(), memory.Close())
	}
	a := &alone{monitor: m, begun: make(chan struct{}), opened: make(chan struct{}), read: make(chan struct{}), ended: make(chan struct{})}
	a.drop = func() error { return a.Drop(io.Discard, "") }
	return a, nil
}

// start begins to read.
func (a *alone) start(ctx context.Context, runsOn bool) {
	ctx, a.stop = context.WithCancel(ctx)
	go func() {
		defer close(a.ended)
		a.failed = a.work(ctx, runsOn)
	}()
}

// Close ends the readings, detaches the sources and forgets the samples. It returns why the work failed if await has not.
func (a *alone) Close() error {
	a.stop()
	<-a.ended
	err := a.failed
	if a.told {
		err = nil
	}
	return errors.Join(err, a.Observer.Close(), a.keeper.Close())
}

// work reads the sources until ctx ends. Those that only read files are there at once. What events cost is measured before
// the others are attached, as in a monitor.
func (a *alone) work(ctx context.Context, runsOn bool) error {
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop() // so that there is an end to wait for
	measured := make(chan observe.UnitCosts, 1)
	all.Go(func() { measured <- a.lentCosts(ctx) })
	tick := time.NewTicker(firstReadings)
	defer tick.Stop()
	for n, costs := 1, (chan observe.UnitCosts)(nil); a.costs.Load() == nil; n++ {
		a.store(a.Engine.Collect(ctx))
		if n == 2 {
			close(a.begun)
			tick.Reset(eagerReading)
			costs = measured
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case c := <-costs:
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
	tick.Reset(eagerReading)
	first := true
	for calm := false; ; first = false {
		a.store(a.Engine.Collect(ctx))
		switch since := a.watched(); {
		case first:
			a.allRead()
		case !a.isOpen(): // its rates are known now
			from, _ := a.span()
			a.analyse(a.every(eagerRules, eagerReading), from)
			close(a.opened)
			if runsOn {
				all.Go(func() { _ = a.analysis.Run(ctx) })
			}
		case since >= eager && !calm:
			calm = true
			a.spare()
			tick.Reset(a.interval)
			a.analysis.Use(a.config.Analysis.rules(), a.every(findings.DefaultOptions().Every, a.interval))
		case since >= watchedOnce:
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
func (a *alone) store(at time.Time, samples []metric.Sample) {
	a.keep(at, samples)
	at = time.UnixMilli(at.UnixMilli()) // as it is stored, and without the clock that nobody sets
	t := a.times.Lock()
	defer a.times.Unlock()
	if t.last.IsZero() || at.Before(t.last) {
		t.first, t.all = at, at
	}
	t.last = at
}

// allRead makes the last reading the first of all sources.
func (a *alone) allRead() {
	t := a.times.Lock()
	defer a.times.Unlock()
	t.all = t.last
}

// span is from the first reading, of all sources once these have been read twice, until the last one.
func (a *alone) span() (from, until time.Time) {
	t := a.times.Lock()
	defer a.times.Unlock()
	if a.isOpen() {
		return t.all, t.last
	}
	return t.first, t.last
}

// watched is how long all sources have been read.
func (a *alone) watched() time.Duration {
	t := a.times.Lock()
	defer a.times.Unlock()
	return t.last.Sub(t.all)
}

// spare switches the source off that another one has replaced by now.
func (a *alone) spare() {
	off := false
	if slices.ContainsFunc(a.Engine.Status(), func(s probe.Status) bool { return s.Source.Name == "switches" && s.State == probe.Available }) {
		_ = a.Engine.Set("process_times", probe.Setting{On: &off}) // both are known
	}
}

// tellRead tells that all sources have been read for watchedOnce.
func (a *alone) tellRead() {
	select {
	case <-a.read:
	default:
		close(a.read)
	}
}

// every are the options of rules that are evaluated, and of sources that are read, so often.
func (a *alone) every(evaluated, read time.Duration) findings.Options {
	o := a.rulesOptions(a.config)
	o.Every, o.Interval, o.LeastObserved = evaluated, read, leastExplained
	return o
}

// lentCosts are the unit costs that a monitor has stored here, or new ones, which are not stored.
func (a *alone) lentCosts(ctx context.Context) observe.UnitCosts {
	now := machine.Identify(a.Host, observe.Protection(a.Found))
	if c, err := prices.Load(a.Host, dataDir()); err == nil && c.Stale(now) == "" {
		return observe.UnitCosts{Calibration: c}
	}
	c, err := prices.MeasureWithin(ctx, a.Host, now, observe.Traced(), pricing)
	return observe.UnitCosts{Calibration: c, Err: err}
}

// await waits for an event, which does not come if the work fails.
func (a *alone) await(ctx context.Context, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.ended:
		a.told = true
		return a.over()
	}
}

// over is why nothing is read any more; nil while the work goes on.
func (a *alone) over() error {
	select {
	case <-a.ended:
		return cmp.Or(a.failed, context.Canceled)
	default:
		return nil
	}
}

// once waits until all sources have been read for watchedOnce, and then evaluates the rules.
func (a *alone) once(ctx context.Context) error {
	if err := a.await(ctx, a.read); err != nil {
		return err
	}
	a.analysis.Evaluate(ctx)
	return ctx.Err()
}

// isOpen reports whether all sources have been read twice.
func (a *alone) isOpen() bool {
	select {
	case <-a.opened:
		return true
	default:
		return false
	}
}

// findings are those of all rules that have been evaluated.
func (a *alone) findings(ctx context.Context) (f web.Findings, err error) {
	if err := a.over(); err != nil {
		return f, err
	}
	if a.isOpen() {
		f, err = a.findingsOf(ctx, findings.Machine{})
	} else {
		f = summarized(web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: a.Host.Now()}, a.PlatformNow().Started)
	}
	if s := &f.Summary; s.Youth != "" { // a monitor's words
		words := fmt.Sprintf("This process has watched for %s; the first answers take some seconds.", metric.Length(max(1, f.At.Sub(a.PlatformNow().Started).Seconds())))
		if s.Headline == s.Youth {
			s.Headline = words
		}
		s.Youth = words
	}
	return f, err
}

// explained says where the time of a process goes. lack is what is not read here, "" for nothing; told is that the user knows it.
func (a *alone) explained(ctx context.Context, q explain.Question, lack string, told bool) (e web.Explanation, err error) {
	from, _ := a.span()
	if !a.isOpen() || q.To.Sub(from) < leastExplained {
		return e, &explain.Refusal{Reason: fmt.Sprintf("the first one needs readings of %s, and there are fewer yet", metric.Length(leastExplained.Seconds()))}
	}
	if q.From.Before(from) {
		q.From = from
	}
	e, err = a.explain(ctx, q)
	var no *explain.Refusal
	if !errors.As(err, &no) || !no.NotFound || lack == "" {
		return e, err
	}
	reason := fmt.Sprintf("no process %q was seen here", q.Process)
	if as := runsAs(a.Host, q.Process); as != "" {
		reason += "; " + as
	}
	if a.runs(ctx, q) {
		reason = "nothing that is read here shows where its time goes"
		if !told {
			reason += ". " + strings.TrimSuffix(lack, ".")
		}
	}
	return e, &explain.Refusal{NotFound: true, Reason: reason}
}

// runs reports whether there is a process of the name that a question is about.
func (a *alone) runs(ctx context.Context, q explain.Question) bool {
	points, err := a.series.Query(ctx, fmt.Sprintf("tee_process_stat_cpu_seconds_total{process=%q}", q.Process), q.To)
	if err == nil && len(points) > 0 {
		return true
	}
	list, err := running(a.Host, q.Process, false)
	return err == nil && len(list) > 0
}

// witness answers from this process, to a command, whose user has been told what is lacking, or not. Its CPU time counts as that
// of a page: looking at a measurement must not coarsen it.
func (a *alone) witness(command string, told bool) witness {
	return witness{
		where: "in this process",
		findings: func(ctx context.Context) (f web.Findings, err error) {
			a.Host.Pages.Run(func() { f, err = a.findings(ctx) })
			return f, err
		},
		platform: func(ctx context.Context) (web.Platform, error) { return a.platformOf(ctx, findings.Machine{}) },
		overhead: func(ctx context.Context) (o web.Overhead, err error) {
			from, until := a.span()
			a.Host.Pages.Run(func() {
				o, err = a.overheadIn(ctx, findings.Machine{}, min(time.Minute, until.Sub(from)+spanMargin), until)
			})
			return o, err
		},
		query: func(ctx context.Context, expr string, at time.Time) (points []metric.Point, err error) {
			a.Host.Pages.Run(func() { points, err = a.series.Query(ctx, expr, at) })
			return points, err
		},
		lines: func(ctx context.Context, expr string, from, to time.Time, step time.Duration) (lines []metric.Series, err error) {
			a.Host.Pages.Run(func() { lines, err = a.series.QueryRange(ctx, expr, from, to, step) })
			return lines, err
		},
		tree: func(ctx context.Context, s subject, per string, from, to time.Time) (e web.Explanation, err error) {
			lack := a.lacks(command)
			a.Host.Pages.Run(func() {
				e, err = a.explained(ctx, explain.Question{Process: s.process, Instance: s.instance, From: from, To: to, PerRequest: per == "request"}, lack, told)
			})
			return e, err
		},
		span:  func(web.Platform) (from, until time.Time) { return a.span() },
		draw:  a.Host.Pages.Run,
		lacks: func() string { return a.lacks(command) },
	}
}

// shownBy says what the sources show that tell processes apart.
var shownBy = []shownSource{
	{"syscalls", "system calls"}, {"faults", "page faults"}, {"switches", "context switches"}, {"samples", "what the CPU time is used for"}, {"waits", "what it waits for"},
}

// shownSource is a source with what it shows of a process.
type shownSource struct{ source, what string }

// lacks says what is not known of a process here, why, and what would help a command.
func (a *alone) lacks(command string) string {
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
		return fmt.Sprintf("Not root, so of a process it is not known: %s. `sudo teescope %s` shows them.", strings.Join(lacks, ", "), command)
	}
	return fmt.Sprintf("Of a process it is not known here: %s (%s). `teescope doctor` says what would help.", strings.Join(lacks, ", "), why)
}
