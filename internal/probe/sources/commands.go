package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/probe"
)

var commandCPU = counter("teescope_command_cpu_seconds_total",
	"CPU time in seconds of a command that teescope runs to collect data, including its children.", "command")

// commands runs commands in the background for values that no file has. A reading uses
// the newest answer and never waits, even for a command that never ends. At most one
// runs at a time.
type commands[T any] struct {
	host *host.Host
	// name is the command's name, for messages, package the one that provides it.
	name, install string
	// every is the time from one start to the next, limit the total time of one
	// answer's commands before they are ended.
	every, limit time.Duration
	// ask runs the commands with run and turns their output into an answer.
	ask func(run runner) (T, error)

	state locked.Value[commandState[T]]
}

// commandState is the current run, and the results of the runs so far.
type commandState[T any] struct {
	stop    context.CancelFunc // of the current run; nil if there is none
	ended   chan struct{}      // closed at its end
	started time.Time
	// answer is the newest one, if any; err is the last attempt's, and hides it.
	answer   T
	answered bool
	err      error
	cpu      time.Duration
}

// runner runs one command and returns its output, also with an error.
type runner func(argv []string) ([]byte, error)

// firstAnswer is how long the very first reading waits; otherwise a program that reads
// once would never see anything.
var firstAnswer = 500 * time.Millisecond

// commandGrace is longer than package host takes to end a command that can be ended.
const commandGrace = 10 * time.Second

// latest returns the newest answer, and starts the next run when it is due. An error
// says why there is none, or that it is too old to be shown.
func (c *commands[T]) latest(ctx context.Context) (T, error) {
	s := c.state.Lock()
	defer c.state.Unlock()
	first := s.started.IsZero()
	if s.stop == nil && (first || c.host.Now().Sub(s.started) >= c.every) {
		c.start(s)
	}
	if first {
		ended := s.ended
		c.state.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(firstAnswer):
		}
		s = c.state.Lock()
	}
	var none T
	asked := c.host.Now().Sub(s.started)
	switch {
	case s.stop != nil && asked > c.limit+commandGrace:
		return none, &probe.Problem{Err: fmt.Errorf("%s has not answered for %v and cannot be ended", c.name, asked.Round(time.Second)),
			Remedy: "check the kernel log; the driver that it queries may hang"}
	case s.err != nil:
		return none, c.problem(s.err)
	case !s.answered:
		return none, fmt.Errorf("%s has not answered yet", c.name)
	}
	return s.answer, nil
}

// spent is the CPU time of all runs so far.
func (c *commands[T]) spent() time.Duration {
	held := c.state.Lock()
	defer c.state.Unlock()
	return held.cpu
}

// start starts a run.
func (c *commands[T]) start(s *commandState[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), c.limit)
	ended := make(chan struct{})
	s.stop, s.ended, s.started = cancel, ended, c.host.Now()
	go func() {
		defer close(ended)
		defer cancel()
		var cpu time.Duration
		run := func(argv []string) ([]byte, error) {
			out, err := c.host.Exec(ctx, host.Cmd{Argv: argv})
			cpu += out.User + out.System
			if err != nil && ctx.Err() != nil {
				err = fmt.Errorf("%s was ended after %v without an answer", c.name, c.limit)
			} else if err != nil {
				err = host.WithReason(err, out)
			}
			return out.Stdout, err
		}
		var answer T
		err := contain.Call("asking "+c.name, func() (err error) { answer, err = c.ask(run); return err })
		s := c.state.Lock()
		defer c.state.Unlock()
		s.cpu += cpu
		s.stop, s.err = nil, err
		if err == nil {
			s.answer, s.answered = answer, true
		}
	}()
}

// problem adds a remedy. A missing command does not mean that the machine lacks what it
// reports.
func (c *commands[T]) problem(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &probe.Problem{Err: fmt.Errorf("%s is not installed here", c.name), Remedy: c.install}
	}
	return err
}

// Close ends the current run. A command that cannot be ended, because it waits in the
// kernel, is abandoned.
func (c *commands[T]) Close() error {
	s := c.state.Lock()
	stop, ended := s.stop, s.ended
	c.state.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
	return nil
}

// asking is a Reader of commands' output.
type asking[T any] struct {
	reading
	*commands[T]
}

// Close implements probe.Reader.
func (a asking[T]) Close() error { return a.commands.Close() }
