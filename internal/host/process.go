package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Cmd is a command as data, so that a dry run can print it.
type Cmd struct {
	Argv []string
	Env  map[string]string
	Dir  string
	// Stdin is written at once.
	Stdin []byte
	// Ask is written to standard input when a line of standard output equals
	// Ready, after which standard input is closed; without Ready it is not used.
	Ready string
	Ask   []byte
	// Pipe leaves standard input and output to the caller, who reads, writes and
	// closes them through Process; Stdin, Ready and Ask are then not used.
	Pipe bool
	// Heard, where it is not nil, is told each line of standard error as it arrives,
	// without its end. What it returns is written to standard input, which then stays open
	// to the end. The command waits while it is told more than it can buffer.
	Heard func(line string) (answer string)
	// Most is how many bytes of each output stream are kept; 0 is MostKept.
	Most int
}

// Quote is s as one word of a POSIX shell, whatever it contains.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Output is what a command left behind.
type Output struct {
	Stdout, Stderr []byte
	Code           int
	// Lines are the lines of Stdout with the time of their arrival.
	Lines []Line
	// Cut is what was not kept: of a stream at most Cmd.Most bytes are.
	Cut Cut
	// Began is when the process was about to be made, Wall the time to its end.
	Began time.Time
	Wall  time.Duration
	// User and System are the CPU time of the process and the children it waited
	// for, MaxRSS the largest resident set of one of them in bytes (getrusage(2)).
	User, System time.Duration
	MaxRSS       int64
}

// Line is one line of standard output, without its end. At counts from Began
// on the monotonic clock.
type Line struct {
	At   time.Duration
	Text string
}

// grace is what a process group has between SIGTERM and SIGKILL.
var grace = Patience(3 * time.Second)

// Process is a command that runs.
type Process struct {
	PID  int
	said *Transcript
	done chan struct{}
	out  Output
	err  error

	// The caller's ends where Cmd.Pipe asks for them.
	stdin  io.WriteCloser
	stdout *io.PipeReader
}

func run(ctx context.Context, c Cmd) (Output, error) {
	p, err := start(ctx, c)
	if err != nil {
		return Output{}, err
	}
	return p.Wait()
}

func start(ctx context.Context, c Cmd) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("run: empty command")
	}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	if errors.Is(cmd.Err, exec.ErrNotFound) {
		if name, err := exec.LookPath(filepath.Join(toolsFolder(), c.Argv[0])); err == nil {
			cmd.Path, cmd.Err = name, nil
		}
	}
	cmd.Dir = c.Dir
	cmd.Env = os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	// A group of its own: what the command started ends with it, and a Ctrl-C on
	// the terminal reaches this program alone, which then ends it in order.
	// If this program is killed the kernel tells the command (prctl(2),
	// PR_SET_PDEATHSIG), so that no job outlives its harness unseen.
	cmd.SysProcAttr = ownGroup
	cmd.Cancel = func() error { return signalGroup(cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace
	var began time.Time
	p := &Process{said: NewTranscript(c.Most, func() time.Duration { return time.Since(began) }), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = writer(p.said.Stdout), writer(p.said.Stderr)
	var stdout *io.PipeWriter
	switch {
	case c.Pipe:
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", c.Argv[0], err)
		}
		p.stdin = in
		p.stdout, stdout = io.Pipe()
		cmd.Stdout = stdout
	case c.Ready == "" && c.Heard == nil:
		cmd.Stdin = bytes.NewReader(c.Stdin)
	default:
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", c.Argv[0], err)
		}
		// A process that has gone does not read what it is told; it says so by its status.
		if c.Ready != "" {
			p.said.notifyOnLine(c.Ready, func() {
				_, _ = in.Write(c.Ask)
				_ = in.Close()
			})
		}
		if c.Heard != nil {
			lines := splitter{tell: func(line []byte, _ bool) {
				if answer := c.Heard(string(line)); answer != "" {
					_, _ = io.WriteString(in, answer)
				}
			}}
			cmd.Stderr = writer(func(b []byte) (int, error) {
				lines.write(b)
				return p.said.Stderr(b)
			})
		}
		go func() { _, _ = in.Write(c.Stdin) }()
	}
	began = time.Now()
	switch err := cmd.Start(); {
	case errors.Is(err, exec.ErrNotFound): // which callers outside cannot name
		return nil, fmt.Errorf("run %s: not found in PATH: %w", c.Argv[0], fs.ErrNotExist)
	case err != nil:
		return nil, fmt.Errorf("run %s: %w", c.Argv[0], err)
	}
	p.PID = cmd.Process.Pid
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		if stdout != nil {
			_ = stdout.Close()
		}
		wall := time.Since(began)
		left := errors.Is(err, exec.ErrWaitDelay)
		if left && ctx.Err() == nil {
			err = errors.New("it has ended, but a process that it left behind held its output open and was ended too")
		}
		if left || ctx.Err() != nil { // WaitDelay ends the leader only
			_ = signalGroup(p.PID, syscall.SIGKILL)
		}
		p.out = Output{Began: began, Code: cmd.ProcessState.ExitCode(), User: cmd.ProcessState.UserTime(), System: cmd.ProcessState.SystemTime()}
		p.said.FillOutput(&p.out, wall)
		p.out.MaxRSS = maxRSS(cmd.ProcessState)
		if err != nil {
			p.err = fmt.Errorf("run %s: %w", c.Argv[0], err)
		}
	}()
	return p, nil
}

// Wait waits for the end and returns what the command left behind; a status
// other than 0 is an error beside the output.
func (p *Process) Wait() (Output, error) {
	<-p.done
	return p.out, p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the whole process group.
func (p *Process) Signal(s syscall.Signal) error { return signalGroup(p.PID, s) }

// Stop ends the process group, by SIGTERM and after a while by SIGKILL, and
// waits for the end.
func (p *Process) Stop() {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Read reads the process's standard output where Cmd.Pipe asks for it. What is
// not read holds the process up, and its end too.
func (p *Process) Read(b []byte) (int, error) {
	if p.stdout == nil {
		return 0, io.EOF
	}
	return p.stdout.Read(b)
}

// Write writes to the process's standard input where Cmd.Pipe asks for it.
func (p *Process) Write(b []byte) (int, error) {
	if p.stdin == nil {
		return 0, io.ErrClosedPipe
	}
	return p.stdin.Write(b)
}

// Close closes what Cmd.Pipe has opened: the process reads the end of its
// standard input, and what it still writes is dropped.
func (p *Process) Close() error {
	if p.stdin == nil {
		return nil
	}
	go func() { _, _ = io.Copy(io.Discard, p.stdout) }()
	return p.stdin.Close()
}

// Lines returns the lines that have arrived so far.
func (p *Process) Lines() []Line { return p.said.Lines() }

// LinePrinted is closed once the process has printed a line.
func (p *Process) LinePrinted(line string) <-chan struct{} { return p.said.LinePrinted(line) }
