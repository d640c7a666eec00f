package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
	"github.com/teescope/teescope/ui"
)

func monitorCommand(env Env) *cobra.Command {
	var s settings
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
			o, err := s.observe(c.Context(), env)
			if err != nil {
				return err
			}
			defer o.Close()
			m.observer = o
			return m.run(c.Context(), env)
		},
	}
	s.flags(c, "127.0.0.1:9780")
	f := c.Flags()
	m.queueFlags(c, "folder for the store, the findings and the results")
	m.retention = duration(15 * 24 * time.Hour)
	f.Var(&m.retention, "retention", "how long to keep samples (like 36h or 15d)")
	m.at.flags(c, "that has the samples: the page, the rules and explanations ask it, and nothing is stored here")
	f.BoolVar(&m.agentMode, "agent-mode", false, "keep samples only until the receivers of remote_write have them: no local store")
	f.StringVar(&m.baseline, "memory-baseline", "", "`RESULT.json` of bench run memory, of an unprotected arm and this machine: explanations say what encrypting memory costs at most")
	return c
}

// queueFlags are the flags of agent mode that an agent has too.
func (m *monitor) queueFlags(c *cobra.Command, data string) {
	f := c.Flags()
	f.StringVar(&m.data, "data", dataDir(), data)
	f.DurationVar(&m.interval, "interval", 5*time.Second, "time between readings")
}

// dataDir is the default place of the store.
func dataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/teescope"
	}
	if d, err := os.UserHomeDir(); err == nil {
		return filepath.Join(d, ".local", "share", "teescope")
	}
	return "teescope-data"
}

// monitor is the main job.
type monitor struct {
	*observer
	acting
	data      string
	retention duration
	interval  time.Duration
	baseline  string
	memory    []metric.Sample // what memory costs against the baseline
	at        engineFlags
	agentMode bool

	keeper   keeper
	series   series           // nil in agent mode: nothing answers queries
	analysis *findings.Engine // nil without series
	places   *places          // nil where nothing asks
	boards   *dashboards
	costs    atomic.Pointer[unitCosts] // nil until they are known
	rounds   atomic.Int64              // readings of all sources that were stored
	fleet    *fleet.Fleet
	pages    *feed.Feed   // what pages ask, evaluated once for all
	slowest  atomic.Int64 // the longest time between two readings of a target, in ns
	failing  atomic.Bool  // the last round could not be stored, and this was logged
	refusing atomic.Bool  // some samples of the last stored round were refused, and this was logged
}

func (m *monitor) run(ctx context.Context, env Env) error {
	if m.interval < 100*time.Millisecond {
		return fmt.Errorf("--interval %v: want at least 100ms", m.interval)
	}
	if m.baseline != "" {
		var err error
		if m.memory, err = memoryBaseline(m.baseline, machine.Identify(m.host, protection(m.found))); err != nil {
			return fmt.Errorf("--memory-baseline %w", err)
		}
	}
	if err := m.at.check(); err != nil {
		return err
	}
	limitMemory()
	opts := store.DefaultOptions()
	opts.Dir, opts.Retention, opts.Instance, opts.Version = m.data, time.Duration(m.retention), m.platform.Hostname, version()
	opts.Interval, opts.Built = m.interval, committed()
	opts.Sources = sourceOf(m.sources)
	opts.Query.Memory = quota.Own()
	opts.Logger = m.log
	if err := m.openStore(ctx, opts); err != nil {
		return err
	}
	m.platform.Interval = m.interval.Seconds()
	var err error
	if m.platform.Data, err = filepath.Abs(m.data); err != nil {
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
		m.keeper, m.series = st, st
		return err
	}
	if m.at.url != "" {
		r, err := m.at.open(ctx, opts.Sources)
		if err != nil {
			return err
		}
		if err := r.Err(); err != nil {
			m.log.Warn("the engine of --query-url does not answer yet; trying again with each query", "error", oneLine(err))
		}
		m.series = r
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
		m.log.Warn("cannot read the dashboards made on the page; they are not shown", "error", oneLine(err))
	}
	if err := m.configure(m.config); err != nil {
		return err
	}
	m.open()
	ao.Now, ao.Started, ao.Facts = m.host.Now, m.platform.Started, tee.Found(m.found)
	ao.Absent, ao.Failure, ao.Slowed = m.absent, m.keeper.Failure, m.engine.Slowed
	of := sourceOf(m.sources)
	ao.Source = func(metric string) string { return of[metric] }
	m.places = &places{host: m.host}
	ao.Places = m.placesOn
	m.analysis = findings.New(m.config.Analysis.rules(), m.series, ao)

	page, err := fs.Sub(ui.Files, "dist")
	if err != nil {
		return err
	}
	wo := m.options(m.collect)
	m.fleet = m.machines()
	defer m.fleet.Close()
	wo.Fleet = m.fleet
	wo.Platform, wo.Sources, wo.Findings, wo.Overhead = m.platformOf, m.sourcesOf, m.findingsOf, m.overhead
	wo.History, wo.Silences, wo.Dashboards = m.history, m.silences, m.boards
	wo.Processes = func(name string) ([]web.Process, error) { return running(m.host, name) }
	wo.Explain = m.explain
	wo.Changes, wo.Boxes = m.changes, m.boxes
	kept := &shelf{Archive: &result.Archive{Dir: filepath.Join(m.data, "results")}}
	wo.Results, wo.Origin = kept.summaries, kept.origins
	wo.ResultTrees = known.Trees
	wo.Result = kept.document
	wo.Compare = kept.sideBySide
	wo.Prometheus = m.series.Handler()
	m.pages = m.shared()
	defer m.pages.Close()
	wo.Query = m.pages.Ask
	wo.Page, wo.Unlock = page, m.unlock(true)
	wo.Requests = quota.Own().Requests

	fmt.Fprintf(env.Stdout, "teescope is watching %s (%s)\nTEE: %s\npage: %s/\n", orUnknown(m.platform.Hostname), m.platform.Kernel, badge(m.found), m.url())
	return m.work(ctx, env, wo, m.reconfigure, func(ctx context.Context) { _ = m.analysis.Run(ctx) })
}

// forward runs the parts of agent mode until ctx ends.
func (m *monitor) forward(ctx context.Context, env Env) error {
	if c := m.config; len(c.Notify.receivers)+len(c.Analysis.Own)+len(c.Analysis.Rules)+len(c.Dashboards) > 0 {
		m.log.Warn("without a store there are no findings and no page: analysis, notify and dashboards in the configuration have no effect here")
	}
	m.open()
	fmt.Fprintf(env.Stdout, "teescope sends the metrics of %s; TEE: %s; metrics: %s/metrics\n", orUnknown(m.platform.Hostname), badge(m.found), m.url())
	return m.work(ctx, env, m.options(m.collect), func(c config) error { return m.keeper.ApplyConfig(c.scrape) }, func(context.Context) {})
}

// work reads the sources, runs analyse and serves until ctx ends; reload applies a new configuration.
func (m *monitor) work(ctx context.Context, env Env, wo web.Options, reload func(config) error, analyse func(context.Context)) error {
	wo.Ready = m.ready
	work, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	all.Go(func() { m.reload(work, reload) })
	all.Go(func() {
		m.keep(m.engine.Collect(work))
		if err := m.openKernel(work, env, func() { all.Go(func() { m.govern(work) }) }); err != nil {
			stop(err)
			return
		}
		all.Go(func() { analyse(work) })
		_ = m.engine.Run(work, m.interval, m.keep)
	})
	err := m.serve(work, web.Handler(wo))
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
	costs := m.calibrated(ctx, m.data)
	m.costs.Store(&costs)
	if ctx.Err() != nil {
		return nil
	}
	govern() // it holds a load that is there already to the budget
	m.observer.openKernel()
	settle(m.data)
	return m.drop(env, m.data)
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
		m.log.Warn("a rule in the configuration is not evaluated; the others are", "error", oneLine(err))
	}
	m.boards.lock(c.Dashboards)
	err := m.notifier.Use(c.Notify.settings(m.url()))
	if c.scrape != nil {
		err = errors.Join(err, m.keeper.ApplyConfig(c.scrape))
	}
	return err
}

// emitted reports whether anything here emits a metric: a source, the engine, the
// store, a recording rule, or each scrape.
func (m *monitor) emitted(name string) bool {
	for _, list := range [][]*metric.Desc{probe.Metrics, store.Metrics, findingMetrics, notify.Metrics, quota.Metrics, {infoDesc, budgetDesc, unitCostDesc, memoryCostDesc}} {
		if slices.ContainsFunc(list, func(d *metric.Desc) bool { return d.Name == name }) {
			return true
		}
	}
	return sourceOf(m.sources)[name] != "" || slices.ContainsFunc(store.Rules, func(r store.Rule) bool { return r.Record == name }) ||
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
	_, samples := m.engine.Peek(ctx)
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
	samples = m.about(samples)
	if c := m.costs.Load(); c != nil {
		samples = c.samples(samples)
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
			m.log.Error("cannot store a round; the next one will be tried", "error", oneLine(err))
		}
		return
	}
	if m.failing.Swap(false) {
		m.log.Warn("the store accepts samples again")
	}
	switch before := m.refusing.Swap(partly); {
	case partly && !before:
		m.log.Warn("the store refuses some samples; the others are stored", "error", oneLine(err))
	case before && !partly:
		m.log.Warn("the store accepts all samples again")
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
	if name == unitCostDesc.Name {
		if c := m.costs.Load(); c != nil {
			return c.absent()
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
	for _, s := range m.engine.Status() {
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
	o := web.Overhead{CPU: map[string]float64{}, Missing: map[string]string{}, Budget: float64(m.budget)}
	over, at, absent := time.Minute, m.host.Now(), m.absent
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
		o.StoreError = oneLine(err)
	}
	return o, nil
}

// share is a flag that takes 1% or 0.01.
type share float64

func (s *share) String() string { return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%" }

// Type names the value in the help text.
func (s *share) Type() string { return "percent" }

// Set parses the flag.
func (s *share) Set(v string) error {
	num, pct := strings.CutSuffix(v, "%")
	f, err := metric.ParseNumber(num)
	if err != nil || f <= 0 {
		return fmt.Errorf("%q: want a share of a core above 0, like 1%%", v)
	}
	if pct {
		f /= 100
	}
	if f > 1 {
		return fmt.Errorf("%q: more than a whole core; want a share like 1%%", v)
	}
	*s = share(f)
	return nil
}

// duration is a flag that also takes days, as Prometheus does.
type duration time.Duration

func (d *duration) String() string {
	if v := time.Duration(*d); v > 0 && v%(24*time.Hour) == 0 {
		return strconv.Itoa(int(v/(24*time.Hour))) + "d"
	}
	return brief(time.Duration(*d))
}

// brief is a duration as flags take it, without parts that are 0: "8m", not "8m0s".
func brief(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Type names the value in the help text.
func (d *duration) Type() string { return "duration" }

// Set parses the flag.
func (d *duration) Set(v string) error {
	if n, ok := strings.CutSuffix(v, "d"); ok {
		if days, err := metric.ParseNumber(n); err == nil && days > 0 && days < 36500 {
			*d = duration(days * float64(24*time.Hour))
			return nil
		}
	}
	p, err := time.ParseDuration(v)
	if err != nil || p <= 0 {
		return fmt.Errorf("%q: want a time like 36h or 15d", v)
	}
	*d = duration(p)
	return nil
}
