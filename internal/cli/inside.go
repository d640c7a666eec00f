//go:build linux

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/tee/kinds"
	"github.com/teescope/teescope/workloads/micro"
)

// insideCommand counts inside an environment with a kernel of its own. A server keeps the sources open between the runs, as opening
// takes seconds; the worker asks it.
func insideCommand() *cobra.Command {
	c := &cobra.Command{Use: "inside", Short: "Count inside an environment, for bench run", Hidden: true}
	var socket string
	c.PersistentFlags().StringVar(&socket, "socket", "", "name of the server's socket, in the folder of this program")
	sub := func(use, short string, run func(context.Context) error) {
		c.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return run(c.Context()) }})
	}
	sub("serve", "Open the sources and serve one client after the other", func(ctx context.Context) error { return serveInside(ctx, host.Local(), socket) })
	sub("open", "Start the server and wait until its sources are open", func(ctx context.Context) error { return openInside(ctx, host.Local(), socket) })
	return c
}

// The ends of a counted window.
const (
	windowFrom = "from"
	windowTo   = "to"
)

// insideRequest is what the server is sent, as JSON without anything after it: begin, an end of the counted window, or end.
type insideRequest struct {
	Window    string
	End       bool
	Processes []string
}

// insideAnswer is the JSON that it sends back.
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
	folder := filepath.Dir(self)
	log := filepath.Join(folder, socket+".log")
	if err := h.Detach(host.Cmd{Argv: []string{self, "bench", "inside", "serve", "--socket", socket}, Dir: folder}, log); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		if ok, _ := h.Exists(filepath.Join(folder, socket)); ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			said, _ := h.ReadString(log) // none: it said nothing
			return fmt.Errorf("the sources were not open after %v: %s", insideLimit, contain.OneLine(errors.New(said)))
		}
	}
}

// insideCounters implements bench.Counters in an environment. This program is put into it as a server, and the worker's
// questions are jobs there.
type insideCounters struct {
	env bench.Environment
	// window is why the ends of the counted window of a run are not known.
	window locked.Value[error]
}

// They are in the environment's work folder.
const (
	insideProgram = "{work}/teescope"
	insideWorker  = "{work}/teescope-ask" // a name that no workload has: calls are counted by it
	insideSocket  = "teescope.socket"     // a name in the job's folder: a socket's whole path has a limit (host.MostSocketPath)
)

// countInside takes this program into environments.
func countInside() (*bench.Inside, error) {
	self, err := os.Executable()
	return &bench.Inside{
		Job: bench.Job{Inside: host.Cmd{Argv: []string{insideProgram, "--version"}},
			Files: []bench.File{{Name: "teescope", From: self, Exec: true}, {Name: "teescope-ask", Data: micro.Program, Exec: true}}},
		Counters: func(env bench.Environment) bench.Counters { return &insideCounters{env: env} },
	}, err
}

func (c *insideCounters) ask(ctx context.Context, q insideRequest) (bench.Counted, error) {
	var a insideAnswer
	text, err := json.Marshal(q)
	if err != nil {
		return a.Counted, err
	}
	out, err := c.env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{insideWorker, "ask", insideSocket, string(text)}, Dir: "{work}"}})
	if err != nil {
		return a.Counted, host.Because(fmt.Errorf("count inside: %w", err), out.Inside)
	}
	if err = json.Unmarshal(out.Inside.Stdout, &a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a.Counted, fmt.Errorf("count inside: %w", err)
	}
	return a.Counted, nil
}

// Begin implements bench.Counters. An environment that was started again has no server.
func (c *insideCounters) Begin(ctx context.Context) error {
	*c.window.Lock() = nil
	c.window.Unlock()
	if _, err := c.ask(ctx, insideRequest{}); err == nil {
		return nil
	}
	out, err := c.env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{insideProgram, "bench", "inside", "open", "--socket", insideSocket}, Dir: "{work}"}})
	if err != nil {
		return host.Because(fmt.Errorf("count inside: %w", err), out.Inside)
	}
	_, err = c.ask(ctx, insideRequest{})
	return err
}

// Window implements bench.Counters.
func (c *insideCounters) Window(ctx context.Context, begins bool) {
	end := windowTo
	if begins {
		end = windowFrom
	}
	if _, err := c.ask(ctx, insideRequest{Window: end}); err != nil {
		*c.window.Lock() = err
		c.window.Unlock()
	}
}

// End implements bench.Counters.
func (c *insideCounters) End(ctx context.Context, processes []string) (bench.Counted, error) {
	defer c.window.Unlock()
	if err := *c.window.Lock(); err != nil {
		return bench.Counted{}, fmt.Errorf("the requests were not counted apart from the rest of the run: %w", err)
	}
	return c.ask(ctx, insideRequest{End: true, Processes: processes})
}
