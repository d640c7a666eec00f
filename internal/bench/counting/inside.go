//go:build linux

package counting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/workloads/micro"
)

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

// NewInside takes this program (self is its path) into environments.
func NewInside(self string) *bench.Inside {
	return &bench.Inside{
		Job: bench.Job{Inside: host.Cmd{Argv: []string{insideProgram, "--version"}},
			Files: []bench.File{{Name: "teescope", From: self, Exec: true}, {Name: "teescope-ask", Data: micro.Program, Exec: true}}},
		Counters: func(env bench.Environment) bench.Counters { return &insideCounters{env: env} },
	}
}

func (c *insideCounters) roundTrip(ctx context.Context, q request) (bench.Counted, error) {
	var a answer
	text, err := json.Marshal(q)
	if err != nil {
		return a.Counted, err
	}
	out, err := c.env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{insideWorker, "ask", insideSocket, string(text)}, Dir: "{work}"}})
	if err != nil {
		return a.Counted, host.WithReason(fmt.Errorf("count events inside the environment: %w", err), out.Inside)
	}
	if err = json.Unmarshal(out.Inside.Stdout, &a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		return a.Counted, fmt.Errorf("count events inside the environment: %w", err)
	}
	return a.Counted, nil
}

// Begin implements bench.Counters. An environment that was started again has no server.
func (c *insideCounters) Begin(ctx context.Context) error {
	*c.window.Lock() = nil
	c.window.Unlock()
	if _, err := c.roundTrip(ctx, request{}); err == nil {
		return nil
	}
	out, err := c.env.Run(ctx, bench.Job{Inside: host.Cmd{Argv: []string{insideProgram, "bench", "inside", "open", "--socket", insideSocket}, Dir: "{work}"}})
	if err != nil {
		return host.WithReason(fmt.Errorf("count events inside the environment: %w", err), out.Inside)
	}
	_, err = c.roundTrip(ctx, request{})
	return err
}

// Window implements bench.Counters.
func (c *insideCounters) Window(ctx context.Context, begins bool) {
	end := windowTo
	if begins {
		end = windowFrom
	}
	if _, err := c.roundTrip(ctx, request{Window: end}); err != nil {
		*c.window.Lock() = err
		c.window.Unlock()
	}
}

// Finish implements bench.Counters.
func (c *insideCounters) Finish(ctx context.Context, processes []string) (bench.Counted, error) {
	held := c.window.Lock()
	defer c.window.Unlock()
	if err := *held; err != nil {
		return bench.Counted{}, fmt.Errorf("the requests were not counted apart from the rest of the run: %w", err)
	}
	return c.roundTrip(ctx, request{End: true, Processes: processes})
}
