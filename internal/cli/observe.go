package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

// settings are the flags that agent and monitor share.
type settings struct {
	listen, process, sources, config, probes, root string
	socket, operators                              string
	agent                                          bool

	port       exposure
	budget     share
	privileges privileges
}

// defaultBudget is the share of each core that teescope may use.
const defaultBudget share = 0.01

func (s *settings) flags(c *cobra.Command, listen string) {
	f := c.Flags()
	f.StringVar(&s.listen, "listen", listen, "address and port to serve on; by default only this machine can connect")
	f.StringVar(&s.process, "process", "", "only processes whose name matches this regular expression (unanchored); of a name over 15 bytes the first 15, which the kernel keeps, are matched")
	f.StringVar(&s.sources, "sources", "", "only sources whose name matches this regular expression (unanchored); a monitor of other machines takes ^self$")
	f.StringVar(&s.config, "config", "", "configuration file (YAML)")
	probesFlag(c, &s.probes)
	s.port.flags(c, "listen", "insecure", "everyone who reaches this port can read all that teescope sees of this machine, and nobody needs a password; "+
		"to change anything, one needs this machine's Unix socket or an operator's password")
	s.budget = defaultBudget
	f.Var(&s.budget, "budget", "share of each core that teescope may use; to stay within it, sources drop detail, then count only part of the time, and say so")
	s.privileges = least
	f.Var(&s.privileges, "privileges", "capabilities to keep once the sources are open: least (cap_bpf, cap_perfmon and what open sources need), none, or keep (all)")
	hostRootFlag(c, &s.root)
	s.authorityFlags(f)
}

// observer is a machine under observation, with its port taken and, after open,
// its sources attached.
type observer struct {
	host     *host.Host
	sources  []*probe.Source // ours and the user's
	chosen   []*probe.Source // those that are opened
	config   config
	filter   *metric.NamePattern
	found    []tee.Detection
	engine   *probe.Engine
	platform web.Platform
	started  atomic.Int64 // in ns of Unix time, after the clock was set back; else 0
	listener net.Listener
	port     exposure
	log      *slog.Logger
	budget   share
	file     string // the configuration file, "" for none
	agent    bool
	asked    *asked // the servers whose requests are read
	keep     privileges

	authority  *authority.Keeper
	names      atomic.Pointer[[]string] // the operators of the configuration
	socket     net.Listener             // nil for none; then noSocket says why
	socketPath string
	noSocket   string
}

// observe checks all settings and opens the port, if there is to be one, before anything is attached or
// written.
func (s settings) observe(ctx context.Context, env Env) (*observer, error) {
	var filter *metric.NamePattern
	if s.process != "" {
		var err error
		if filter, err = metric.CompileNames(s.process); err != nil {
			return nil, fmt.Errorf("--process: %w", err)
		}
	}
	h, err := openHost(s.root)
	if err != nil {
		return nil, err
	}
	own, err := sources.UserProbes(h, s.probes)
	if err != nil {
		return nil, err
	}
	servers := new(asked)
	list := servers.into(slices.Concat(sources.All, own))
	chosen, err := choose(list, s.sources)
	if err != nil {
		return nil, err
	}
	cfg, err := readConfig(s.config, list, s.agent)
	if err != nil {
		return nil, err
	}
	servers.Store(&cfg.targets)
	log := slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o := &observer{host: h, sources: list, chosen: chosen, config: cfg, filter: filter, port: s.port, budget: s.budget, file: s.config, agent: s.agent, asked: servers, keep: s.privileges, log: log}
	if s.listen != "" {
		if o.listener, err = s.port.listen(ctx, s.listen, log); err != nil {
			return nil, err
		}
	}
	if o.found, o.platform, err = look(h); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.platform.Started = h.Now()
	if o.listener != nil {
		if err := s.openSocket(o); err != nil {
			return nil, errors.Join(err, o.Close())
		}
	}
	return o, nil
}

// choose returns the sources whose name matches, all for "".
func choose(list []*probe.Source, pattern string) ([]*probe.Source, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("--sources: %w", err)
	}
	var out []*probe.Source
	for _, s := range list {
		if match.MatchString(s.Name) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--sources %q: no source has such a name; `teescope doctor` lists them", pattern)
	}
	return out, nil
}

// open opens the sources that do not work in the kernel.
func (o *observer) open() {
	o.engine = probe.New(o.host, tee.Found(o.found), o.chosen, o.filter)
	// If one source cannot be set as configured, for instance because its process has
	// ended, the others still start.
	o.warnUnmatched(o.config)
	o.warn(o.config.apply(o.engine, pattern(o.filter)))
	o.warn(o.engine.Start(func(s *probe.Source) bool { return !s.InKernel() }))
}

// openKernel opens the others, and logs which sources lack something.
func (o *observer) openKernel() {
	o.warn(o.engine.Start((*probe.Source).InKernel))
	o.engine.Look()
	for _, st := range o.engine.Status() {
		// What the hardware hides cannot be fixed; the page shows it.
		if (st.State == probe.Unavailable || st.State == probe.Degraded) && !st.Blind {
			o.log.Warn("source "+string(st.State), "source", st.Source.Name, "reason", st.Reason, "remedy", st.Remedy)
		}
	}
}

func (o *observer) warn(err error) {
	if err != nil {
		o.log.Warn("cannot apply the configuration to a source; the others go on", "error", oneLine(err))
	}
}

// drop gives up capabilities that are no longer needed; data is the folder that is written to.
func (o *observer) drop(env Env, data string) error {
	line, err := o.keep.drop(o.engine.Status(), data)
	if line != "" {
		fmt.Fprintln(env.Stdout, line)
	}
	return err
}

// reload reads the configuration file at every SIGHUP until ctx ends, and applies
// it with then. An invalid file changes nothing.
func (o *observer) reload(ctx context.Context, then func(config) error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
		}
		if o.file == "" {
			o.log.Warn("SIGHUP: no configuration file to read (--config); nothing changed")
			continue
		}
		c, err := readConfig(o.file, o.sources, o.agent)
		if err == nil {
			o.asked.Store(&c.targets)
			o.names.Store(&c.Operators)
			err = errors.Join(c.apply(o.engine, pattern(o.filter)), then(c))
		}
		if err != nil {
			o.log.Error("cannot apply all of the configuration; the rest stays as it was", "error", oneLine(err))
			continue
		}
		o.warnUnmatched(c)
		o.log.Warn("configuration reloaded", "file", o.file)
	}
}

// govern keeps the sources within the budget, and switches those that wait for
// something, until ctx ends. Open pages do not use the sources' budget: looking at a
// measurement must not coarsen it.
func (o *observer) govern(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { o.engine.Watch(ctx) })
	o.engine.Govern(ctx, probe.Budget{Share: float64(o.budget), Userspace: func() float64 { return ownCPU() - o.host.Pages.CPU().Seconds() }, CPUs: max(1, o.platform.CPUs), Idle: func() []float64 { return idleTime(o.host) }})
}

// idleTime is how long each CPU had nothing to do since boot in seconds (/proc/stat), or
// nil where that cannot be read.
func idleTime(h *host.Host) []float64 {
	b, err := h.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	var out []float64
	known := true
	_ = machine.ParseStat(b, func(c machine.CPUTimes) { // the source cpu says what is wrong there
		for len(out) <= c.CPU {
			out = append(out, 0)
		}
		idle, iowait := slices.Index(machine.CPUModes[:], "idle"), slices.Index(machine.CPUModes[:], "iowait")
		known = known && c.Known[idle] && c.Known[iowait]
		out[c.CPU] = float64(c.Ticks[idle]+c.Ticks[iowait]) / machine.TicksPerSecond
	}, nil)
	if !known {
		return nil
	}
	return out
}

// ownCPU is the CPU time of this process and of the commands it ran, in seconds
// (getrusage(2)).
func ownCPU() float64 {
	var sum float64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err == nil {
			sum += float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		}
	}
	return sum
}

// Close detaches the sources and closes the port.
func (o *observer) Close() error {
	var err error
	if o.engine != nil {
		err = o.engine.Close()
	}
	for _, l := range []net.Listener{o.listener, o.socket} {
		if l == nil {
			continue
		}
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// shareReadings returns a collect of which at most one runs: who asks during a reading gets that one. Callers must not change the samples.
func shareReadings(collect func(context.Context) []metric.Sample) func(context.Context) []metric.Sample {
	var running singleflight.Group
	return func(ctx context.Context) []metric.Sample {
		samples, _, _ := running.Do("", func() (any, error) {
			return collect(context.WithoutCancel(ctx)), nil // the others still want it
		})
		return samples.([]metric.Sample)
	}
}

// options are the HTTP server's options that agent and monitor share; collect reads one
// round.
func (o *observer) options(collect func(context.Context) []metric.Sample) web.Options {
	collect = shareReadings(collect)
	return web.Options{
		Metrics:   func(ctx context.Context, b []byte) []byte { return metric.AppendText(b, collect(ctx)) },
		Round:     collect,
		Platform:  onlyHere(o.now),
		Sources:   onlyHere(func() []web.Source { return sourceList(o.engine) }),
		SetSource: o.set,
		Ready:     func() error { return nil },
		Hosts:     o.port.hosts(o.host, o.listener, o.platform.Hostname),
		Meter:     o.host.Pages.Run,
		Authority: o.authority,
		Unlock:    o.unlock(false),
		Logger:    o.log,
	}
}

// onlyHere answers about the machine of an agent, which knows no other.
func onlyHere[T any](answer func() T) func(context.Context, findings.Machine) (T, error) {
	return func(_ context.Context, on findings.Machine) (v T, err error) {
		if on != (findings.Machine{}) {
			return v, fmt.Errorf("%w: an agent knows only its own machine; leave out job and instance, or ask the monitor", web.ErrNotFound)
		}
		return answer(), nil
	}
}

// now is the platform, with a start that is not in the future: the clock may have been ahead then.
func (o *observer) now() web.Platform {
	p := o.platform
	started, now := o.started.Load(), o.host.Now().UnixNano()
	if started == 0 {
		started = p.Started.UnixNano()
	}
	if now < started {
		started = now
		o.started.Store(now)
	}
	p.Started = time.Unix(0, started)
	return p
}

func (o *observer) set(name string, s probe.Setting) error {
	err := o.engine.Set(name, s)
	if errors.Is(err, probe.ErrNoSource) {
		return fmt.Errorf("%w: %w", web.ErrNotFound, err)
	}
	return err
}

// url is where a user reaches the listener.
func (o *observer) url() string {
	addr := o.listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort(o.platform.Hostname, port)
		}
	}
	return o.port.scheme() + "://" + addr
}

func (o *observer) serve(ctx context.Context, h http.Handler) error {
	defer o.serveSocket(h)()
	return serve(ctx, o.listener, o.port.protected(o.listener, h, o.log), o.port.config, o.log)
}
