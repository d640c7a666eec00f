package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
)

// insideCommand reads counters inside an environment with a kernel of its own. A server
// keeps the sources open between the runs, as opening takes seconds.
func insideCommand(env Env) *cobra.Command {
	c := &cobra.Command{Use: "inside", Short: "Read counters inside an environment, for bench run", Hidden: true}
	var socket string
	c.PersistentFlags().StringVar(&socket, "socket", "", "socket of the server")
	sub := func(use, short string, run func(context.Context, []string) error) {
		c.AddCommand(&cobra.Command{Use: use, Short: short, RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), args) }})
	}
	sub("serve", "Open the sources and serve one client after the other", func(ctx context.Context, _ []string) error { return serveInside(ctx, host.Local(), socket) })
	sub("open", "Start the server and wait until its sources are open", func(ctx context.Context, _ []string) error {
		return openInside(ctx, host.Local(), socket)
	})
	sub("begin", "Begin to count", func(ctx context.Context, _ []string) error {
		_, err := askInside(ctx, socket, insideRequest{})
		return err
	})
	for window, short := range map[string]string{windowFrom: "Count from now on", windowTo: "Count up to now"} {
		sub(window, short, func(ctx context.Context, _ []string) error {
			_, err := askInside(ctx, socket, insideRequest{Window: window})
			return err
		})
	}
	sub("end PROCESS...", "Print what was counted since, as JSON", func(ctx context.Context, processes []string) error {
		a, err := askInside(ctx, socket, insideRequest{End: true, Processes: processes})
		if err != nil {
			return err
		}
		return json.NewEncoder(env.Stdout).Encode(a.Counted)
	})
	return c
}

// The ends of a counted window.
const (
	windowFrom = "from"
	windowTo   = "to"
)

// insideRequest is a line of JSON to the server: begin, an end of the counted window, or end.
type insideRequest struct {
	Window    string
	End       bool
	Processes []string
}

// insideAnswer is the line that the server sends back.
type insideAnswer struct {
	Counted bench.Counted
	Error   string
}

// serveInside ends with its context, or with the environment.
func serveInside(ctx context.Context, h *host.Host, socket string) error {
	c := openCounters(h, tee.Detect(h, kinds.All))
	defer c.Close()
	l, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		var q insideRequest
		var a insideAnswer
		if err = json.NewDecoder(conn).Decode(&q); err == nil {
			if why := c.reason(); why != "" {
				err = errors.New(why)
			} else if q.Window != "" {
				c.Window(ctx, q.Window == windowFrom)
			} else if q.End {
				a.Counted, err = c.End(ctx, q.Processes)
			} else {
				err = c.Begin(ctx)
			}
		}
		if err != nil {
			a.Error = err.Error()
		}
		_ = json.NewEncoder(conn).Encode(a) // a client that has gone asks again
		_ = conn.Close()
	}
}

// insideLimit is how long sources may take to open; an emulated processor needs most of it.
const insideLimit = 3 * time.Minute

func openInside(ctx context.Context, h *host.Host, socket string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log := socket + ".log"
	if err := h.Detach(host.Cmd{Argv: []string{self, "bench", "inside", "serve", "--socket", socket}, Dir: filepath.Dir(self)}, log); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if ok, _ := h.Exists(socket); ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			said, _ := h.ReadString(log) // none: it said nothing
			return fmt.Errorf("the sources were not open after %v: %s", insideLimit, oneLine(errors.New(said)))
		}
	}
}

func askInside(ctx context.Context, socket string, q insideRequest) (a insideAnswer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if err = json.NewEncoder(conn).Encode(q); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// insideCounters implements bench.Counters in an environment. This program is put into
// it, and its commands are jobs there.
type insideCounters struct {
	env bench.Environment
	// window is why the ends of the counted window of a run are not known.
	window locked.Value[error]
}

// insideProgram and insideSocket are in the environment's work folder.
const (
	insideProgram = "{work}/teescope"
	insideSocket  = "{work}/teescope.socket"
)

// countInside brings the job's files with this program, so that a guest is booted once for all.
func countInside(ctx context.Context, env bench.Environment, job bench.Job) (bench.Counters, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &insideCounters{env: env}
	programs := job.Programs
	if name := job.Inside.Argv[0]; !strings.HasPrefix(name, "{") {
		programs = append([]string{name}, programs...)
	}
	_, err = env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{insideProgram, "--version"}},
		Files: append([]bench.File{{Name: "teescope", From: self, Exec: true}}, job.Files...), Programs: programs, Modules: job.Modules})
	if err != nil {
		return nil, fmt.Errorf("run teescope inside: %w", err)
	}
	return c, nil
}

func (c *insideCounters) do(ctx context.Context, args ...string) ([]byte, error) {
	out, err := c.env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: append([]string{insideProgram, "bench", "inside", "--socket", insideSocket}, args...)}})
	if err != nil {
		return nil, host.Because(fmt.Errorf("count inside: %w", err), out.Inside)
	}
	return out.Inside.Stdout, nil
}

// Begin implements bench.Counters. An environment that was started again has no server.
func (c *insideCounters) Begin(ctx context.Context) error {
	*c.window.Lock() = nil
	c.window.Unlock()
	if _, err := c.do(ctx, "begin"); err == nil {
		return nil
	}
	if _, err := c.do(ctx, "open"); err != nil {
		return err
	}
	_, err := c.do(ctx, "begin")
	return err
}

// Window implements bench.Counters.
func (c *insideCounters) Window(ctx context.Context, begins bool) {
	end := windowTo
	if begins {
		end = windowFrom
	}
	if _, err := c.do(ctx, end); err != nil {
		*c.window.Lock() = err
		c.window.Unlock()
	}
}

// End implements bench.Counters.
func (c *insideCounters) End(ctx context.Context, processes []string) (bench.Counted, error) {
	var counted bench.Counted
	defer c.window.Unlock()
	if err := *c.window.Lock(); err != nil {
		return counted, fmt.Errorf("the requests were not counted apart from the rest of the run: %w", err)
	}
	out, err := c.do(ctx, append([]string{"end", "--"}, processes...)...)
	if err == nil {
		err = json.Unmarshal(out, &counted)
	}
	return counted, err
}
