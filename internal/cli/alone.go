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
	opened chan struct{} // closed when all sources have been read twice; then analysis and from are set
	read   chan struct{} // closed when all sources have been read for watchedOnce
	ended  chan struct{} // closed when the work is over; then failed is set
	from   time.Time     // of the first reading of all sources
	failed error
	stop   context.CancelFunc
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
	s := observe.Settings{Probes: observe.ProbesFolder, Root: "/", Budget: observe.DefaultBudget, Privileges: observe.Least, Read: configReader(false)}
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
	ctx, a.stop = context.WithCancel(ctx)
	go func() {
		defer close(a.ended)
		a.failed = a.work(ctx, runsOn)
	}()
	return a, nil
}

// Close ends the readings, detaches the sources and forgets the samples.
func (a *alone) Close() error {
	a.stop()
	<-a.ended
	return errors.Join(a.failed, a.Observer.Close(), a.keeper.Close())
}

// work reads the sources until ctx ends. Those that only read files are there at once. What events cost is measured before
// the others are attached, as in a monitor.
func (a *alone) work(ctx context.Context, runsOn bool) error {
	var all sync.WaitGroup
	defer all.Wait()
	measured := make(chan observe.UnitCosts, 1)
	all.Go(func() { measured <- a.lentCosts(ctx) })
	tick := time.NewTicker(firstReadings)
	defer tick.Stop()
	for n, costs := 1, (chan observe.UnitCosts)(nil); a.costs.Load() == nil; n++ {
		a.keep(a.Engine.Collect(ctx))
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
	all.Go(func() { a.Govern(ctx) })
	a.OpenKernel()
	observe.Settle("")
	if err := a.Drop(io.Discard, ""); err != nil {
		return err
	}
	tick.Reset(eagerReading)
	for calm := false; ; {
		at, samples := a.Engine.Collect(ctx)
		a.keep(at, samples)
		switch since := at.Sub(a.from); {
		case a.from.IsZero():
			a.from = at
		case !a.isOpen(): // its rates are known now
			a.analyse(a.every(eagerRules, eagerReading), a.from)
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
		return cmp.Or(a.failed, context.Canceled)
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

// witness answers from this process, to a command. Its CPU time counts as that of a page: looking at a measurement must not coarsen it.
func (a *alone) witness(command string) witness {
	return witness{
		where: "in this process",
		findings: func(ctx context.Context) (f web.Findings, err error) {
			if !a.isOpen() {
				return summarized(web.Findings{Findings: []findings.Record{}, Rules: []findings.RuleStat{}, At: a.Host.Now()}, a.Platform.Started), nil
			}
			a.Host.Pages.Run(func() { f, err = a.findingsOf(ctx, findings.Machine{}) })
			return f, err
		},
		platform: func(ctx context.Context) (web.Platform, error) { return a.platformOf(ctx, findings.Machine{}) },
		overhead: func(ctx context.Context) (o web.Overhead, err error) {
			a.Host.Pages.Run(func() { o, err = a.monitor.overhead(ctx, findings.Machine{}) })
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
			if !a.isOpen() || to.Sub(a.from) < leastExplained {
				return e, &explain.Refusal{Reason: fmt.Sprintf("the first one needs readings of %s, and there are fewer yet", metric.Length(leastExplained.Seconds()))}
			}
			if from.Before(a.from) {
				from = a.from
			}
			a.Host.Pages.Run(func() {
				e, err = a.explain(ctx, explain.Question{Process: s.process, Instance: s.instance, From: from, To: to, PerRequest: per == "request"})
			})
			var no *explain.Refusal
			if lack := a.lacks(command); lack != "" && errors.As(err, &no) && no.NotFound {
				err = &explain.Refusal{NotFound: true, Reason: "nothing that is read here shows where its time goes. " + strings.TrimSuffix(lack, ".")}
			}
			return e, err
		},
		since: func(p web.Platform) time.Time {
			if a.isOpen() {
				return a.from
			}
			return p.Started
		},
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
