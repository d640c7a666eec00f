//go:build linux

// Package monitor is the process of `teescope monitor` and of an agent that sends what it reads: it reads the sources, stores
// the readings, evaluates the rules and serves the page.
package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/monitor/config"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/verdict"
	"github.com/teescope/teescope/internal/web"
	"github.com/teescope/teescope/ui"
)

// Settings are what the flags of a monitor say.
type Settings struct {
	// Data is the folder for the store, the findings and the results, or for samples that wait for receivers.
	Data      string
	Retention time.Duration // of samples and findings
	Interval  time.Duration // between two readings
	// Baseline is a result of the workload memory with an unprotected arm, "" for none.
	Baseline string
	// Query is an engine that has the samples; without a URL they are stored here.
	Query client.Engine
	// AgentMode keeps samples only until the receivers of remote_write have them.
	AgentMode bool
	// Judging is how results are judged, with the causes and prices that explanations know.
	Judging verdict.Options
	// Stdout gets a few lines at the start.
	Stdout io.Writer
}

// UsualInterval is the default time between readings.
const UsualInterval = 5 * time.Second

// monitor is the main job.
type monitor struct {
	*observe.Observer
	Settings
	acting
	config config.Config   // at the start
	least  time.Duration   // the shortest window of an explanation; 0 is that of the default interval
	memory []metric.Sample // what memory costs against the baseline

	keeper   keeper
	series   series           // nil in agent mode: nothing answers queries
	served   served           // the same for pages; nil where nothing is served
	analysis *findings.Engine // nil without series
	places   *places          // nil where nothing asks
	boards   *dashboards
	costs    atomic.Pointer[observe.UnitCosts] // nil until they are known
	rounds   atomic.Int64                      // readings of all sources that were stored
	fleet    *fleet.Fleet
	pages    *feed.Feed   // what pages ask, evaluated once for all
	slowest  atomic.Int64 // the longest time between two readings of a target, in ns
	failing  atomic.Bool  // the last round could not be stored, and this was logged
	refusing atomic.Bool  // some samples of the last stored round were refused, and this was logged
}

// newMonitor returns a monitor of what is observed, whose configuration is a *config.Config.
func newMonitor(o *observe.Observer, s Settings) *monitor {
	return &monitor{Observer: o, Settings: s, config: *o.Config.(*config.Config)}
}

// Run runs a monitor of what is observed until ctx ends. The observer's configuration is a *config.Config. Errors of settings
// name the flag.
func Run(ctx context.Context, o *observe.Observer, s Settings) error {
	if s.Interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: want at least 100ms", s.Interval)
	}
	m := newMonitor(o, s)
	if m.Baseline != "" {
		var err error
		if m.memory, err = memoryBaseline(m.Baseline, machine.Identify(m.Host, observe.Protection(m.Found)), m.Judging); err != nil {
			return fmt.Errorf("--memory-baseline %w", err)
		}
	}
	if err := m.Query.Check(); err != nil {
		return err
	}
	limitMemory()
	opts := store.DefaultOptions()
	opts.Dir, opts.Retention, opts.Instance, opts.Version = m.Data, m.Retention, m.Platform.Hostname, build.Version()
	opts.Interval, opts.Built = m.Interval, build.Committed()
	opts.Sources = probe.SourceNames(m.Sources)
	opts.Query.Memory = quota.Own()
	opts.Logger = m.Log
	if err := m.openStore(ctx, opts); err != nil {
		return err
	}
	m.Platform.Interval = m.Interval.Seconds()
	var err error
	if m.Platform.Data, err = filepath.Abs(m.Data); err != nil {
		return errors.Join(err, m.keeper.Close())
	}
	run := m.watch
	if m.series == nil {
		run = m.forward
	}
	return errors.Join(run(ctx), m.keeper.Close())
}

// openStore opens what takes samples and what answers queries.
func (m *monitor) openStore(ctx context.Context, opts store.Options) error {
	if m.Query.URL == "" && !m.AgentMode {
		st, err := store.Open(ctx, opts)
		m.keeper, m.series, m.served = st, st, st
		return err
	}
	if m.Query.URL != "" {
		r, err := m.Query.Open(ctx, opts.Sources)
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			m.Log.Warn("the engine of --query-url does not answer yet; each query tries again", "error", contain.OneLine(err))
		}
		m.series, m.served = r, r
	}
	var err error
	if m.AgentMode {
		m.keeper, err = store.OpenQueue(ctx, opts, m.config.Scraping())
	} else {
		m.keeper, err = store.OpenNothing(opts)
	}
	return err
}

// watch runs the parts until ctx ends.
func (m *monitor) watch(ctx context.Context) (err error) {
	ao := m.rulesOptions(m.config)
	if err := m.act(&ao); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.acting.close()) }()
	if m.boards, err = openDashboards(filepath.Join(m.Data, "dashboards.json")); err != nil {
		m.Log.Warn("cannot read the dashboards made on the page; they are not shown", "error", contain.OneLine(err))
	}
	if err := m.configure(m.config); err != nil {
		return err
	}
	m.Open()
	m.analyse(ao, m.Platform.Started)

	page, err := fs.Sub(ui.Files, "dist")
	if err != nil {
		return err
	}
	wo := m.Options(m.collect)
	m.fleet = m.machines()
	defer m.fleet.Close()
	wo.Fleet = m.fleet
	wo.Platform, wo.Sources, wo.Findings, wo.Overhead = m.platformOf, m.sourcesOf, m.findingsOf, m.overhead
	wo.History, wo.Silences, wo.Dashboards = m.history, m.silences, m.boards
	wo.Processes = func(name string, files bool) ([]web.Process, error) { return running(m.Host, name, files) }
	wo.Explain = m.explain
	wo.Changes, wo.Boxes = m.changes, m.boxes
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Join(m.Data, "results")}, judging: m.Judging}
	wo.Results, wo.Origin = kept.summaries, kept.origins
	wo.ResultTrees = m.Judging.Catalog.Trees
	wo.Result = kept.document
	wo.Compare = kept.sideBySide
	wo.Prometheus = m.served.Handler()
	m.pages = m.shared()
	defer m.pages.Close()
	wo.Query = m.pages.AnswerQueries
	wo.Page, wo.Unlock = page, m.Unlock(true)
	wo.Requests = quota.Own().Requests

	fmt.Fprintf(m.Stdout, "teescope is watching %s (%s)\nTEE: %s\npage: %s/\n", cmp.Or(m.Platform.Hostname, "unknown"), m.Platform.Kernel, observe.Badge(m.Found), m.URL())
	return m.work(ctx, wo, m.reconfigure, func(ctx context.Context) { _ = m.analysis.Run(ctx) })
}

// analyse makes the engine of findings, with the options of the configuration, for what is observed from a time on.
func (m *monitor) analyse(ao findings.Options, from time.Time) {
	ao.Now, ao.Started, ao.Facts = m.Host.Now, from, tee.Found(m.Found)
	ao.Own, ao.Refusing = m.own(), m.keeper.Refusing
	ao.Absent, ao.Failure, ao.Slowed = m.absent, m.keeper.Failure, m.Engine.Slowed
	of := probe.SourceNames(m.Sources)
	ao.Source = func(metric string) string { return of[metric] }
	m.places = &places{host: m.Host}
	ao.Places = m.placesOn
	m.analysis = findings.New(m.config.Analysis.Enabled(), m.series, ao)
}

// forward runs the parts of agent mode until ctx ends.
func (m *monitor) forward(ctx context.Context) error {
	if m.config.NeedsStore() {
		m.Log.Warn("without a store there are no findings and no page: analysis, notify and dashboards in the configuration have no effect here")
	}
	m.Open()
	fmt.Fprintf(m.Stdout, "teescope sends the metrics of %s; TEE: %s; metrics: %s/metrics\n", cmp.Or(m.Platform.Hostname, "unknown"), observe.Badge(m.Found), m.URL())
	return m.work(ctx, m.Options(m.collect), func(c config.Config) error { return m.keeper.ApplyConfig(c.Scraping()) }, func(context.Context) {})
}

// work reads the sources, runs analyse and serves until ctx ends; reload applies a new configuration.
func (m *monitor) work(ctx context.Context, wo web.Options, reload func(config.Config) error, analyse func(context.Context)) error {
	wo.Ready = m.ready
	work, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() { m.Reload(work, func(c observe.Config) error { return reload(*c.(*config.Config)) }) })
	all.Go(func() {
		m.storeRound(m.Engine.Collect(work))
		if err := m.openKernel(work, func() { all.Go(func() { m.Govern(work) }) }); err != nil {
			stop(err)
			return
		}
		all.Go(func() { analyse(work) })
		_ = m.Engine.Run(work, m.Interval, m.storeRound)
	})
	err := m.Serve(work, web.Handler(wo))
	stop(nil)
	all.Wait()
	if cause := context.Cause(work); ctx.Err() == nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	return err
}

// openKernel measures what events cost here, unless that is known, then calls govern and opens the sources
// that make them cost more, and gives up the capabilities that only this needed.
func (m *monitor) openKernel(ctx context.Context, govern func()) error {
	costs := m.Calibrated(ctx, m.Data)
	m.costs.Store(&costs)
	if ctx.Err() != nil {
		return nil
	}
	govern() // it holds a load that is there already to the budget
	m.Observer.OpenKernel()
	observe.Settle(m.Data)
	return m.Drop(m.Stdout, m.Data)
}
