//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
	"github.com/teescope/teescope/ui"
)

func monitorCommand(env Env) *cobra.Command {
	s := observe.Settings{Read: configReader(false)}
	var m monitor
	c := &cobra.Command{
		Use: "monitor",
		Long: `Monitor reads the sources every --interval, stores the readings, evaluates the rules
and serves the page. Findings go to the page, to the log, and to the receivers of --config.

With --query-url it stores no samples: page, rules and explanations ask an engine that
has them. With --agent-mode it has no page either, and sends every sample to the
receivers of remote_write in --config; the two can be combined. docs/scale.md has the
layouts for many machines.`,
		Short: "Watch this machine: store, findings, page and API in one process",
		Example: "  teescope monitor\n" +
			"  teescope monitor --process 'redis|nginx' --data /var/lib/teescope --retention 30d",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.Observe(c.Context(), env.Stderr)
			if err != nil {
				return err
			}
			defer o.Close()
			m.watches(o)
			return m.run(c.Context(), env)
		},
	}
	f := c.Flags()
	s.Flags(f, "127.0.0.1:9780")
	m.queueFlags(c, "folder for the store, the findings and the results")
	m.retention = duration(15 * 24 * time.Hour)
	f.Var(&m.retention, "retention", "how long to keep samples (like 36h or 15d)")
	m.at.flags(c, "that has the samples: the page, the rules and explanations ask it, and nothing is stored here")
	f.BoolVar(&m.agentMode, "agent-mode", false, "keep samples only until the receivers of remote_write have them: no local store")
	f.StringVar(&m.baseline, "memory-baseline", "", "`RESULT.json` of bench run memory, of an unprotected arm and this machine: explanations say what encrypting memory costs at most")
	return c
}

// usualReading is the default time between readings.
const usualReading = 5 * time.Second

// queueFlags are the flags of agent mode that an agent has too.
func (m *monitor) queueFlags(c *cobra.Command, data string) {
	f := c.Flags()
	f.StringVar(&m.data, "data", dataDir(), data)
	f.DurationVar(&m.interval, "interval", usualReading, "time between readings")
}

// monitor is the main job.
type monitor struct {
	*observe.Observer
	acting
	config    config // at the start
	data      string
	retention duration
	interval  time.Duration
	least     time.Duration // the shortest window of an explanation; 0 is that of the default interval
	baseline  string
	memory    []metric.Sample // what memory costs against the baseline
	at        engineFlags
	agentMode bool

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

// watches makes an observer the monitor's.
func (m *monitor) watches(o *observe.Observer) { m.Observer, m.config = o, *o.Config.(*config) }

func (m *monitor) run(ctx context.Context, env Env) error {
	if m.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: want at least 100ms", m.interval)
	}
	if m.baseline != "" {
		var err error
		if m.memory, err = memoryBaseline(m.baseline, machine.Identify(m.Host, observe.Protection(m.Found))); err != nil {
			return fmt.Errorf("--memory-baseline %w", err)
		}
	}
	if err := m.at.check(); err != nil {
		return err
	}
	limitMemory()
	opts := store.DefaultOptions()
	opts.Dir, opts.Retention, opts.Instance, opts.Version = m.data, time.Duration(m.retention), m.Platform.Hostname, build.Version()
	opts.Interval, opts.Built = m.interval, build.Committed()
	opts.Sources = sourceOf(m.Sources)
	opts.Query.Memory = quota.Own()
	opts.Logger = m.Log
	if err := m.openStore(ctx, opts); err != nil {
		return err
	}
	m.Platform.Interval = m.interval.Seconds()
	var err error
	if m.Platform.Data, err = filepath.Abs(m.data); err != nil {
		return errors.Join(err, m.keeper.Close())
	}
	run := m.watch
	if m.series == nil {
		run = m.forward
	}
	return errors.Join(run(ctx, env), m.keeper.Close())
}

// openStore opens what takes samples and what answers queries.
func (m *monitor) openStore(ctx context.Context, opts store.Options) error {
	if m.at.url == "" && !m.agentMode {
		st, err := store.Open(ctx, opts)
		m.keeper, m.series, m.served = st, st, st
		return err
	}
	if m.at.url != "" {
		r, err := m.at.open(ctx, opts.Sources)
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			m.Log.Warn("the engine of --query-url does not answer yet; trying again with each query", "error", contain.OneLine(err))
		}
		m.series, m.served = r, r
	}
	var err error
	if m.agentMode {
		m.keeper, err = store.OpenQueue(ctx, opts, m.config.scrape)
	} else {
		m.keeper, err = store.OpenNothing(opts)
	}
	return err
}

// watch runs the parts until ctx ends.
func (m *monitor) watch(ctx context.Context, env Env) (err error) {
	ao := m.rulesOptions(m.config)
	if err := m.act(&ao); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.acting.close()) }()
	if m.boards, err = openDashboards(filepath.Join(m.data, "dashboards.json")); err != nil {
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
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Join(m.data, "results")}}
	wo.Results, wo.Origin = kept.summaries, kept.origins
	wo.ResultTrees = known.Trees
	wo.Result = kept.document
	wo.Compare = kept.sideBySide
	wo.Prometheus = m.served.Handler()
	m.pages = m.shared()
	defer m.pages.Close()
	wo.Query = m.pages.Ask
	wo.Page, wo.Unlock = page, m.Unlock(true)
	wo.Requests = quota.Own().Requests

	fmt.Fprintf(env.Stdout, "teescope is watching %s (%s)\nTEE: %s\npage: %s/\n", orUnknown(m.Platform.Hostname), m.Platform.Kernel, observe.Badge(m.Found), m.URL())
	return m.work(ctx, env, wo, m.reconfigure, func(ctx context.Context) { _ = m.analysis.Run(ctx) })
}

// analyse makes the engine of findings, with the options of the configuration, for what is observed from a time on.
func (m *monitor) analyse(ao findings.Options, from time.Time) {
	ao.Now, ao.Started, ao.Facts = m.Host.Now, from, tee.Found(m.Found)
	ao.Absent, ao.Failure, ao.Slowed = m.absent, m.keeper.Failure, m.Engine.Slowed
	of := sourceOf(m.Sources)
	ao.Source = func(metric string) string { return of[metric] }
	m.places = &places{host: m.Host}
	ao.Places = m.placesOn
	m.analysis = findings.New(m.config.Analysis.rules(), m.series, ao)
}

// forward runs the parts of agent mode until ctx ends.
func (m *monitor) forward(ctx context.Context, env Env) error {
	if c := m.config; len(c.Notify.receivers)+len(c.Analysis.Own)+len(c.Analysis.Rules)+len(c.Dashboards) > 0 {
		m.Log.Warn("without a store there are no findings and no page: analysis, notify and dashboards in the configuration have no effect here")
	}
	m.Open()
	fmt.Fprintf(env.Stdout, "teescope sends the metrics of %s; TEE: %s; metrics: %s/metrics\n", orUnknown(m.Platform.Hostname), observe.Badge(m.Found), m.URL())
	return m.work(ctx, env, m.Options(m.collect), func(c config) error { return m.keeper.ApplyConfig(c.scrape) }, func(context.Context) {})
}

// work reads the sources, runs analyse and serves until ctx ends; reload applies a new configuration.
func (m *monitor) work(ctx context.Context, env Env, wo web.Options, reload func(config) error, analyse func(context.Context)) error {
	wo.Ready = m.ready
	work, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() { m.Reload(work, func(c observe.Config) error { return reload(*c.(*config)) }) })
	all.Go(func() {
		m.keep(m.Engine.Collect(work))
		if err := m.openKernel(work, env, func() { all.Go(func() { m.Govern(work) }) }); err != nil {
			stop(err)
			return
		}
		all.Go(func() { analyse(work) })
		_ = m.Engine.Run(work, m.interval, m.keep)
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
func (m *monitor) openKernel(ctx context.Context, env Env, govern func()) error {
	costs := m.Calibrated(ctx, m.data)
	m.costs.Store(&costs)
	if ctx.Err() != nil {
		return nil
	}
	govern() // it holds a load that is there already to the budget
	m.Observer.OpenKernel()
	observe.Settle(m.data)
	return m.Drop(env.Stdout, m.data)
}

// reconfigure applies a configuration while the monitor runs, including windows, rules
// and thresholds.
func (m *monitor) reconfigure(c config) error {
	rules := c.Analysis.rules()
	m.silences.Know(rules)
	m.analysis.Use(rules, m.rulesOptions(c))
	return m.configure(c)
}

// rulesOptions are a configuration's options for the rules. If a target is scraped less
// often than the monitor reads, its interval counts.
func (m *monitor) rulesOptions(c config) findings.Options {
	o := c.Analysis.options()
	o.Interval = m.interval
	if c.scrape != nil {
		o.Interval = max(o.Interval, c.scrape.LongestInterval())
	}
	m.slowest.Store(int64(o.Interval))
	return o
}

// configure applies a configuration's scraping, receivers and dashboards, and logs
// which of its rules cannot be evaluated.
func (m *monitor) configure(c config) error {
	for _, err := range c.Analysis.doubts(m.emitted, c.scrape != nil && len(c.scrape.Jobs()) > 0) {
		m.Log.Warn("a rule in the configuration is not evaluated; the others are", "error", contain.OneLine(err))
	}
	m.boards.lock(c.Dashboards)
	err := m.notifier.Use(c.Notify.settings(m.URL()))
	if c.scrape != nil {
		err = errors.Join(err, m.keeper.ApplyConfig(c.scrape))
	}
	return err
}

// emitted reports whether anything here emits a metric: a source, the engine, the
// store, a recording rule, or each scrape.
func (m *monitor) emitted(name string) bool {
	for _, list := range [][]*metric.Desc{probe.Metrics, store.Metrics, findingMetrics, notify.Metrics, quota.Metrics, {observe.InfoDesc, observe.BudgetDesc, observe.UnitCostDesc, memoryCostDesc}} {
		if slices.ContainsFunc(list, func(d *metric.Desc) bool { return d.Name == name }) {
			return true
		}
	}
	return sourceOf(m.Sources)[name] != "" || slices.ContainsFunc(store.Rules, func(r store.Rule) bool { return r.Record == name }) ||
		name == "up" || strings.HasPrefix(name, "scrape_")
}

// sourceOf maps every metric of the sources to the source's name.
func sourceOf(list []*probe.Source) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		for _, d := range s.Metrics {
			out[d.Name] = s.Name
			if d.Kind == metric.Histogram {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					out[d.Name+suffix] = s.Name
				}
			}
		}
	}
	return out
}

// collect reads the sources for /metrics: the same rounds that are stored.
func (m *monitor) collect(ctx context.Context) []metric.Sample {
	_, samples := m.Engine.Peek(ctx)
	return m.withOwn(samples)
}

// withOwn adds the monitor's own metrics.
func (m *monitor) withOwn(samples []metric.Sample) []metric.Sample {
	add := func(s metric.Sample) { samples = append(samples, s) }
	m.keeper.Collect(add)
	quota.Own().Collect(add)
	if m.analysis != nil {
		m.collectFindings(add)
	}
	samples = m.About(samples)
	if c := m.costs.Load(); c != nil {
		samples = c.Samples(samples)
	}
	samples = append(samples, m.memory...)
	metric.SortByName(samples)
	return samples
}

// keep stores one round; a failure is logged when it starts and when it ends.
func (m *monitor) keep(at time.Time, samples []metric.Sample) {
	err := m.keeper.Append(at, m.withOwn(samples))
	var some *store.Refused
	partly := errors.As(err, &some)
	if err != nil && !partly {
		if !m.failing.Swap(true) {
			m.Log.Error("cannot store a round; the next one will be tried", "error", contain.OneLine(err))
		}
		return
	}
	if m.failing.Swap(false) {
		m.Log.Warn("the store accepts samples again")
	}
	switch before := m.refusing.Swap(partly); {
	case partly && !before:
		m.Log.Warn("the store refuses some samples; the others are stored", "error", contain.OneLine(err))
	case before && !partly:
		m.Log.Warn("the store accepts all samples again")
	}
	m.rounds.Add(1)
	if m.analysis != nil {
		m.analysis.Read()
	}
}

func (m *monitor) ready() error {
	if m.rounds.Load() == 0 {
		return errors.New("no reading is stored yet; try again after one --interval")
	}
	if err := m.keeper.Err(); errors.Is(err, store.ErrReplaced) {
		return err
	}
	return nil
}

// absent returns why a metric has no series, from the state of its source.
func (m *monitor) absent(name string) string {
	if m.at.url != "" {
		return "the engine of --query-url has no series of it"
	}
	if name == observe.UnitCostDesc.Name {
		if c := m.costs.Load(); c != nil {
			return c.Absent()
		}
		return "it is being measured; this takes seconds"
	}
	if strings.HasPrefix(name, "teescope_remote_write_") {
		return "no receiver is configured (remote_write)"
	}
	if name == memoryCostDesc.Name {
		return "no baseline is declared (--memory-baseline)"
	}
	idle := ""
	for _, s := range m.Engine.Status() {
		for _, d := range s.Source.Metrics {
			switch {
			case d.Name != name:
			case s.Reason != "":
				return fmt.Sprintf("source %s is %s: %s", s.Source.Name, s.State, s.Reason)
			default:
				idle = fmt.Sprintf("source %s works, but has seen no such event", s.Source.Name)
			}
		}
	}
	if !m.emitted(name) {
		return "no source of this monitor emits it, and no target that it scrapes has it"
	}
	return idle
}

// overhead queries what teescope cost on a machine in the last minute, or longer where readings are rare.
func (m *monitor) overhead(ctx context.Context, on findings.Machine) (web.Overhead, error) {
	return m.overheadIn(ctx, on, time.Minute, m.Host.Now())
}

// overheadIn queries what teescope cost on a machine in a time until another, or longer where readings are rare.
func (m *monitor) overheadIn(ctx context.Context, on findings.Machine, over time.Duration, at time.Time) (web.Overhead, error) {
	o := web.Overhead{CPU: map[string]float64{}, Missing: map[string]string{}, Budget: float64(m.Budget)}
	absent := m.absent
	if m.elsewhere(on) {
		if _, err := m.known(ctx, on); err != nil {
			return o, err
		}
		over, absent = max(over, 4*time.Duration(m.slowest.Load())), func(string) string { return "" }
	} else {
		on = m.own()
	}
	own, rated := on.Matchers(), findings.PromDuration(over)
	points, err := m.series.Query(ctx, `sum by (part) (rate(teescope_overhead_cpu_seconds_total{`+own+`}[`+rated+`]))`, at)
	if err != nil {
		return o, err
	}
	for _, p := range points {
		if !math.IsNaN(p.Value) {
			o.CPU[p.Labels["part"]] = p.Value
		}
	}
	if points, err = m.series.Query(ctx, findings.OwnCPU(own, rated), at); err != nil {
		return o, err
	}
	for _, p := range points {
		if !math.IsNaN(p.Value) {
			o.Used = &p.Value
		}
	}
	// Only some sources run commands; without them nothing is missing.
	points, err = m.series.Query(ctx, `sum(rate(teescope_command_cpu_seconds_total{`+own+`}[`+rated+`]))`, at)
	if err != nil {
		return o, err
	}
	for _, p := range points {
		if p.Value > 0 {
			o.CPU["commands"] = p.Value
		}
	}
	few, none := "fewer than two readings in the last "+rated, "no reading is stored yet"
	if m.at.url != "" {
		few = "the engine of --query-url has fewer than two readings of it in the last " + rated
		none = "the engine of --query-url has no reading of this monitor"
	}
	for _, part := range []string{"userspace", "page", "body", "dispatch"} {
		if _, ok := o.CPU[part]; !ok {
			o.Missing[part] = few
			if why := absent("teescope_overhead_cpu_seconds_total"); why != "" {
				o.Missing[part] = why
			}
		}
	}
	points, err = m.series.Query(ctx, `{__name__=~"teescope_store_series|teescope_budget_ratio|`+probe.SlowedDesc.Name+`",`+own+`} or teescope_memory_bytes{kind="rss",`+own+`}`, at)
	if err != nil {
		return o, err
	}
	if m.elsewhere(on) {
		o.Budget = 0
	}
	for _, p := range points {
		switch p.Labels["__name__"] {
		case "teescope_store_series":
			o.Series = int(p.Value)
		case "teescope_memory_bytes":
			o.RSSBytes = p.Value
		case probe.SlowedDesc.Name:
			if p.Value > 1 {
				o.Slowed = p.Value
			}
		default:
			if m.elsewhere(on) {
				o.Budget = p.Value
			}
		}
	}
	for part, absent := range map[string]bool{"memory": o.RSSBytes == 0, "series": o.Series == 0} {
		if absent {
			o.Missing[part] = none
		}
	}
	if m.elsewhere(on) {
		if o.Series == 0 {
			o.Missing["series"] = "an agent stores none"
		}
		delete(o.Missing, "page") // an agent has none
		return o, nil
	}
	if err := m.series.Err(); err != nil {
		o.StoreError = contain.OneLine(err)
	}
	return o, nil
}
