package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// gateway is a server in front of another, with a page that reports what each has used. The page
// is read at both ends of the measured time. It has the counts of its own environment, which the
// machine outside may not see.
var gateway = Command{
	Name: "gateway",
	Doc:  "a reverse proxy and the server behind it, with a page that reports the CPU time of each",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var g gatewayRun
		f.StringVar(&g.kind, "kind", "own", "own (net/http's reverse proxy), direct (the server itself, with nothing in front), or command")
		f.StringVar(&g.command, "command", "", `the gateway's command of kind command, as a JSON array of its words`)
		f.StringVar(&g.listen, "listen", "127.0.0.1:0", "where own and direct listen, HOST:PORT")
		f.StringVar(&g.origin, "origin", "127.0.0.1:0", "where the server behind the gateway listens, HOST:PORT")
		f.StringVar(&g.page, "page", "127.0.0.1:0", "where the page of counts is, HOST:PORT")
		f.StringVar(&g.keys.certificate, "certificate", "", "certificate of own and direct, a PEM file; empty is no TLS")
		f.StringVar(&g.keys.key, "key", "", "key of the certificate, a PEM file")
		f.StringVar(&g.level, "log", "off", "log of own and direct: off, error, or info (a line for each request)")
		f.StringVar(&g.file, "log-file", "gateway.log", "the log's file, emptied at the start; of a command too, for its size")
		f.StringVar(&g.data, "data", ".", "folder for the gateway's files")
		return g.run
	},
}

// gatewayRun holds the flags and the state of a gateway.
type gatewayRun struct {
	kind, command        string
	listen, origin, page string
	keys                 keyPair
	level, file, data    string

	host                  *host.Host
	began                 time.Time
	gatewayPID, originPID int // 0: there is none
	log                   *accessLog
	split                 *split     // nil: another program is the gateway
	direct                answering  // with nothing in front
	asking                sync.Mutex // one question at a time
}

func (g *gatewayRun) run(ctx context.Context, s Streams) error {
	if err := g.keys.check(); err != nil {
		return err
	}
	// Relative names start in the current folder, not at the host's root.
	for _, name := range []*string{&g.file, &g.data} {
		abs, err := filepath.Abs(*name)
		if err != nil {
			return fmt.Errorf("find folder %s: %w", *name, err)
		}
		*name = abs
	}
	g.host = host.Local()
	g.began, g.gatewayPID = g.host.Now(), unix.Getpid()
	level := g.level
	if g.kind == "command" {
		level = "off" // the program writes its own log
	}
	if err := os.Remove(g.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("empty the log: %w", err)
	}
	var err error
	if g.log, err = openLog(g.host, level, g.file); err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	if err = g.start(running, group); err == nil {
		err = g.answerQuestions(running, group)
	}
	if err != nil {
		group.Go(func() error { return err })
	}
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	if g.split != nil {
		g.split.stopProfile()
	}
	return json.NewEncoder(s.Out).Encode(map[string]string{"kind": g.kind, "log": g.level})
}

// start starts the gateway and the server behind it.
func (g *gatewayRun) start(ctx context.Context, group *errgroup.Group) error {
	if g.kind != "direct" {
		// The kernel names a process after the file it was started from.
		name := filepath.Join(g.data, "origin")
		self, err := g.host.Readlink("/proc/self/exe")
		if err != nil {
			return err
		}
		if err := g.host.Symlink(self, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if g.originPID, err = g.spawn(ctx, group, name, "origin", "-listen", g.origin); err != nil {
			return err
		}
		if err := answers(ctx, g.origin); err != nil {
			return fmt.Errorf("the server behind the gateway: %w", err)
		}
	}
	var h http.Handler
	switch g.kind {
	case "own":
		h = proxy(g.origin, g.log)
	case "direct":
		h = &g.direct
	case "command":
		var argv []string
		if err := json.Unmarshal([]byte(g.command), &argv); err != nil || len(argv) == 0 {
			return fmt.Errorf("-command %q: want a JSON array of words", g.command)
		}
		pid, err := g.spawn(ctx, group, argv...)
		g.gatewayPID = pid
		return err
	default:
		return fmt.Errorf("-kind %q: want own, direct or command", g.kind)
	}
	g.split = new(split)
	l, err := listenTCP(ctx, g.listen)
	if err != nil {
		return err
	}
	group.Go(func() error {
		return serve(ctx, l, &http.Server{Handler: g.log.wrap(h), ErrorLog: g.log.errors, ReadHeaderTimeout: headerTime}, g.keys)
	})
	return nil
}

// startTime is how long the server behind the gateway may take to listen.
var startTime = host.Patience(10 * time.Second)

// answers waits until an address accepts connections.
func answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// spawn starts a program; if it ends before ctx does, that is an error of the group.
func (g *gatewayRun) spawn(ctx context.Context, group *errgroup.Group, argv ...string) (pid int, err error) {
	p, err := g.host.Start(ctx, host.Cmd{Argv: argv})
	if err != nil {
		return 0, err
	}
	group.Go(func() error {
		out, err := p.Wait()
		if err == nil {
			err = fmt.Errorf("%s has ended", argv[0])
		}
		return host.WithReason(err, out)
	})
	return p.PID, nil
}

// answerQuestions serves the page of counts.
func (g *gatewayRun) answerQuestions(ctx context.Context, group *errgroup.Group) error {
	l, err := listenTCP(ctx, g.page)
	if err != nil {
		return err
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.asking.Lock()
		defer g.asking.Unlock()
		counts, err := g.counts(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(counts) // the client may have gone
	})
	group.Go(func() error {
		return serve(ctx, l, &http.Server{Handler: h, ErrorLog: g.log.errors, ReadHeaderTimeout: headerTime}, keyPair{})
	})
	return nil
}

// counts returns the use of resources since the start; names of counters end in _total. It
// leaves out what this environment's kernel does not report.
func (g *gatewayRun) counts(ctx context.Context) (map[string]float64, error) {
	machine, err := g.host.ReadFile("/proc/stat")
	// The clock is read close to the machine's counts: on a busy machine the rest takes long.
	out := map[string]float64{"seconds_total": g.host.Now().Sub(g.began).Seconds(), "cpus": float64(runtime.NumCPU())}
	if err == nil {
		if m, err := parseMachine(machine); err == nil {
			out["machine_cpu_seconds_total"] = m.busy
			for cpu, v := range m.softirq {
				out[fmt.Sprintf("softirq_cpu%d_seconds_total", cpu)] = v
			}
		}
	}
	for name, pid := range map[string]int{"gateway_cpu_seconds_total": g.gatewayPID, "origin_cpu_seconds_total": g.originPID} {
		if pid == 0 {
			continue
		}
		v, err := processSeconds(g.host, pid)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	if g.kind == "own" { // the origin is a child of the gateway
		out["gateway_cpu_seconds_total"] -= out["origin_cpu_seconds_total"]
	}
	if out["requests_total"], err = g.requests(ctx); err != nil {
		return nil, err
	}
	switch f, err := g.host.Stat(g.file); {
	case err == nil:
		out["log_bytes_total"] = float64(f.Size())
	case errors.Is(err, fs.ErrNotExist) && g.level == "off":
		out["log_bytes_total"] = 0
	}
	if g.split == nil {
		return out, nil
	}
	out["log_write_seconds_total"] = time.Duration(g.log.nanos.Load()).Seconds()
	parts, err := g.split.next()
	if err != nil {
		return nil, err
	}
	for part, v := range parts {
		out["split_"+part+"_seconds_total"] = v
	}
	return out, nil
}

// requests is how many requests the server without or behind the gateway has had.
func (g *gatewayRun) requests(ctx context.Context) (float64, error) {
	if g.kind == "direct" {
		return float64(g.direct.requests.Load()), nil
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.origin+countPath, nil)
	if err != nil {
		return 0, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, fmt.Errorf("ask the server behind the gateway: %w", err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 64))
	if err != nil {
		return 0, fmt.Errorf("ask the server behind the gateway: %w", err)
	}
	return strconv.ParseFloat(string(text), 64)
}
