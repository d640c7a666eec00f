// Package observe is a machine under observation: its sources, its port and its Unix socket, who may change settings, and the
// capabilities it keeps. The monitor, the agent and teescope-agent are built on it; what stores and judges readings is elsewhere.
package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
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

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/spf13/pflag"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/port"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/web"
)

// Settings are the flags that agent and monitor share, and how this program reads its configuration.
type Settings struct {
	Listen, Process, Sources, File, Probes, Root string
	Socket, Operators                            string

	// NoPort is for a command that observes for itself: no port, no socket and no flags of these settings.
	NoPort bool

	Port       port.Exposure
	Budget     Share
	Privileges Privileges

	// Read reads and checks a configuration file, at the start and at every SIGHUP; "" is the empty configuration.
	Read ReadConfig
}

// Config is a configuration file, of which an observer applies the shared sections.
type Config interface {
	Shared() *Sections
}

// ReadConfig reads a configuration file. list is what can be read.
type ReadConfig func(file string, list []*probe.Source) (Config, error)

// DefaultBudget is the share of each core that teescope may use.
const DefaultBudget Share = 0.01

// ProbesFolder is the default folder of a user's own probes.
const ProbesFolder = "/etc/teescope/probes"

// Flags adds the flags; listen is the default of --listen.
func (s *Settings) Flags(f *pflag.FlagSet, listen string) {
	f.StringVar(&s.Listen, "listen", listen, "address and port to serve on; by default only this machine can connect")
	f.StringVar(&s.Process, "process", "", "only processes whose name matches this regular expression (unanchored); the kernel keeps only the first 15 bytes of a name, so only these bytes are matched")
	f.StringVar(&s.Sources, "sources", "", "only sources whose name matches this regular expression (unanchored); for a monitor that only receives other machines, use ^self$")
	f.StringVar(&s.File, "config", "", "configuration file (YAML)")
	ProbesFlag(f, &s.Probes)
	s.Port.Flags(f, "listen", "insecure", "everyone who reaches this port can read without a password all that teescope measures on this machine; "+
		"changing anything still needs this machine's Unix socket or an operator's password")
	s.Budget = DefaultBudget
	f.Var(&s.Budget, "budget", "share of each core that teescope may use; above it, sources first drop detail, then count only part of the time, and report this")
	s.Privileges = Least
	f.Var(&s.Privileges, "privileges", "capabilities to keep after the sources are open: least (cap_bpf, cap_perfmon and those that open sources need), none, or keep (all)")
	HostRootFlag(f, &s.Root)
	s.authorityFlags(f)
}

// ProbesFlag adds the flag that names the folder of the user's own probes.
func ProbesFlag(f *pflag.FlagSet, folder *string) {
	f.StringVar(folder, "probes", ProbesFolder, "folder with your own probes, one NAME.yaml each (docs/probes.md)")
}

// HostRootFlag adds the flag that names the tree of the machine.
func HostRootFlag(f *pflag.FlagSet, root *string) {
	f.StringVar(root, "host-root", "/", "folder where the host's file system is mounted, if teescope runs in a container")
}

// Observer is a machine under observation, with its port taken and, after Open,
// its sources attached.
type Observer struct {
	Host     *host.Host
	Sources  []*probe.Source // ours and the user's
	Chosen   []*probe.Source // those that are opened
	Config   Config
	Filter   *metric.NamePattern
	Found    []tee.Detection
	Engine   *probe.Engine
	Platform web.Platform
	Listener net.Listener
	Port     port.Exposure
	Log      *slog.Logger
	Budget   Share

	read    ReadConfig
	started atomic.Int64 // in ns of Unix time, after the clock was set back; else 0
	file    string       // the configuration file, "" for none
	asked   *Asked       // the servers whose requests are read
	keep    Privileges

	Authority  *authority.Keeper
	names      atomic.Pointer[[]string] // the operators of the configuration
	socket     net.Listener             // nil for none; then noSocket says why
	socketPath string
	noSocket   string
}

// Observe checks all settings and opens the port, if there is to be one, before anything is attached or
// written. Warnings go to stderr.
func (s Settings) Observe(ctx context.Context, stderr io.Writer) (*Observer, error) {
	var filter *metric.NamePattern
	if s.Process != "" {
		var err error
		if filter, err = metric.CompileNames(s.Process); err != nil {
			return nil, fmt.Errorf("--process: %w", err)
		}
	}
	h, err := OpenHost(s.Root)
	if err != nil {
		return nil, err
	}
	own, err := sources.UserProbes(h, s.Probes)
	if err != nil {
		return nil, err
	}
	servers := new(Asked)
	list := servers.ReplaceSource(slices.Concat(sources.All, own))
	chosen, err := choose(list, s.Sources)
	if err != nil {
		return nil, err
	}
	cfg, err := s.Read(s.File, list)
	if err != nil {
		return nil, err
	}
	servers.Set(cfg.Shared().Targets())
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	o := &Observer{Host: h, Sources: list, Chosen: chosen, Config: cfg, Filter: filter, Port: s.Port, Budget: s.Budget, Log: log,
		read: s.Read, file: s.File, asked: servers, keep: s.Privileges}
	if !s.NoPort {
		if o.Listener, err = s.Port.Listen(ctx, s.Listen, log); err != nil {
			return nil, err
		}
	}
	if o.Found, o.Platform, err = InspectMachine(h); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	o.Platform.Started = h.Now()
	if !s.NoPort {
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

// Open opens the sources that do not work in the kernel.
func (o *Observer) Open() {
	o.Engine = probe.New(o.Host, tee.Found(o.Found), o.Chosen, o.Filter)
	// If one source cannot be set as configured, for instance because its process has
	// ended, the others still start.
	o.warnUnmatched(o.Config.Shared())
	o.warn(o.Config.Shared().Apply(o.Engine, pattern(o.Filter)))
	o.warn(o.Engine.Start(func(s *probe.Source) bool { return !s.InKernel() }))
}

// OpenKernel opens the others, and logs which sources lack something.
func (o *Observer) OpenKernel() {
	o.warn(o.Engine.Start((*probe.Source).InKernel))
	o.Engine.FollowProcesses()
	for _, st := range o.Engine.Status() {
		// What the hardware hides cannot be fixed; the page shows it.
		if (st.State == probe.Unavailable || st.State == probe.Degraded) && !st.Blind {
			o.Log.Warn("source "+string(st.State), "source", st.Source.Name, "reason", st.Reason, "remedy", st.Remedy)
		}
	}
}

func (o *Observer) warn(err error) {
	if err != nil {
		o.Log.Warn("cannot apply the configuration to a source; the others go on", "error", contain.OneLine(err))
	}
}

// Drop gives up capabilities that are no longer needed; data is the folder that is written to.
func (o *Observer) Drop(stdout io.Writer, data string) error {
	line, err := o.keep.drop(o.Engine.Status(), data)
	if errors.Is(err, errCgo) && o.Listener != nil { // else there is no such flag
		err = fmt.Errorf("%w, or use --privileges keep", err)
	}
	if line != "" {
		fmt.Fprintln(stdout, line)
	}
	return err
}

// Reload reads the configuration file at every SIGHUP until ctx ends, and applies
// it with then. An invalid file changes nothing.
func (o *Observer) Reload(ctx context.Context, then func(Config) error) {
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
			o.Log.Warn("SIGHUP: no configuration file to read (--config); nothing changed")
			continue
		}
		c, err := o.read(o.file, o.Sources)
		if err == nil {
			s := c.Shared()
			o.asked.Set(s.Targets())
			o.names.Store(&s.Operators)
			err = errors.Join(s.Apply(o.Engine, pattern(o.Filter)), then(c))
		}
		if err != nil {
			o.Log.Error("cannot apply all of the configuration; the rest stays as it was", "error", contain.OneLine(err))
			continue
		}
		o.warnUnmatched(c.Shared())
		o.Log.Warn("configuration reloaded", "file", o.file)
	}
}

// Govern keeps the sources within the budget, and switches those that wait for
// something, until ctx ends. Open pages do not use the sources' budget: looking at a
// measurement must not coarsen it.
func (o *Observer) Govern(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { o.Engine.Watch(ctx) })
	o.Engine.Govern(ctx, budget.Budget{Share: float64(o.Budget), Userspace: func() float64 { return ownCPU() - o.Host.Pages.CPU().Seconds() }, CPUs: max(1, o.Platform.CPUs), Idle: func() []float64 { return idleTime(o.Host) }})
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
func (o *Observer) Close() error {
	var err error
	if o.Engine != nil {
		err = o.Engine.Close()
	}
	for _, l := range []net.Listener{o.Listener, o.socket} {
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

// Options are the HTTP server's options that agent and monitor share; collect reads one
// round.
func (o *Observer) Options(collect func(context.Context) []metric.Sample) web.Options {
	collect = shareReadings(collect)
	return web.Options{
		Metrics:   func(ctx context.Context, b []byte) []byte { return metric.AppendText(b, collect(ctx)) },
		Round:     collect,
		Platform:  onlyHere(o.PlatformNow),
		Sources:   onlyHere(func() []web.Source { return ListSources(o.Engine) }),
		SetSource: o.set,
		Ready:     func() error { return nil },
		Hosts:     o.Port.Hosts(o.Host, o.Listener, o.Platform.Hostname),
		Meter:     o.Host.Pages.Run,
		Authority: o.Authority,
		Unlock:    o.Unlock(false),
		Logger:    o.Log,
	}
}

// onlyHere answers about the machine of an agent, which knows no other.
func onlyHere[T any](answer func() T) func(context.Context, query.Machine) (T, error) {
	return func(_ context.Context, on query.Machine) (v T, err error) {
		if on != (query.Machine{}) {
			return v, fmt.Errorf("%w: an agent knows only its own machine; leave out job and instance, or ask the monitor", web.ErrNotFound)
		}
		return answer(), nil
	}
}

// PlatformNow is the platform, with a start that is not in the future: the clock may have been ahead then.
func (o *Observer) PlatformNow() web.Platform {
	p := o.Platform
	started, now := o.started.Load(), o.Host.Now().UnixNano()
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

func (o *Observer) set(name string, s probe.Setting) error {
	err := o.Engine.Set(name, s)
	if errors.Is(err, probe.ErrNoSource) {
		return fmt.Errorf("%w: %w", web.ErrNotFound, err)
	}
	return err
}

// URL is where a user reaches the listener.
func (o *Observer) URL() string {
	addr := o.Listener.Addr().String()
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort(o.Platform.Hostname, port)
		}
	}
	return o.Port.Scheme() + "://" + addr
}

// Serve answers on the port and on the Unix socket until ctx ends.
func (o *Observer) Serve(ctx context.Context, h http.Handler) error {
	defer o.serveSocket(h)()
	return port.Serve(ctx, o.Listener, o.Port.Protected(o.Listener, h, o.Log), o.Port.Config, o.Log)
}
