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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/locked"
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
}

// Quote is s as one word of a POSIX shell, whatever it contains.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Output is what a command left behind.
type Output struct {
	Stdout, Stderr []byte
	Code           int
	// Lines are the lines of Stdout with the time of their arrival, at most maxLines.
	Lines []Line
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

// maxLines bounds what is remembered of a talkative program; Stdout has it all.
const maxLines = 100_000

// grace is what a process group has between SIGTERM and SIGKILL.
var grace = Patience(3 * time.Second)

// Process is a command that runs.
type Process struct {
	PID  int
	cmd  *exec.Cmd
	in   *conversation
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
	cmd.Dir = c.Dir
	cmd.Env = os.Environ()
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	// A group of its own: what the command started ends with it, and a Ctrl-C on
	// the terminal reaches this program alone, which then ends it in order.
	// If this program is killed the kernel tells the command (prctl(2),
	// PR_SET_PDEATHSIG), so that no job outlives its harness unseen.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = grace
	p := &Process{cmd: cmd, in: &conversation{said: locked.New(said{ready: c.Ready, ask: c.Ask})}, done: make(chan struct{})}
	stderr := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = p.in, stderr
	heard := &listener{all: stderr, tell: c.Heard}
	if c.Heard != nil {
		cmd.Stderr = heard
	}
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
		if heard.answers = in; c.Ready != "" {
			p.in.said.Lock().stdin = in
			p.in.said.Unlock()
		}
		go func() { _, _ = in.Write(c.Stdin) }()
	}
	p.in.began = time.Now()
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
		wall := time.Since(p.in.began)
		left := errors.Is(err, exec.ErrWaitDelay)
		if left && ctx.Err() == nil {
			err = errors.New("it has ended, but a process that it left behind held its output open and was ended too")
		}
		if left || ctx.Err() != nil { // WaitDelay ends the leader only
			_ = unix.Kill(-p.PID, unix.SIGKILL)
		}
		said := p.in.said.Lock()
		defer p.in.said.Unlock()
		said.rest(wall)
		p.out = Output{Stdout: said.all.Bytes(), Stderr: stderr.Bytes(), Lines: said.lines, Began: p.in.began, Wall: wall,
			Code: cmd.ProcessState.ExitCode(), User: cmd.ProcessState.UserTime(), System: cmd.ProcessState.SystemTime()}
		if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			p.out.MaxRSS = ru.Maxrss << 10
		}
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
func (p *Process) Signal(s syscall.Signal) error { return unix.Kill(-p.PID, s) }

// Stop ends the process group, by SIGTERM and after a while by SIGKILL, and
// waits for the end.
func (p *Process) Stop() {
	_ = p.Signal(unix.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	_ = p.Signal(unix.SIGKILL)
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
func (p *Process) Lines() []Line {
	defer p.in.said.Unlock()
	return append([]Line(nil), p.in.said.Lock().lines...)
}

// listener keeps what is written, tells each whole line, and passes on the answer.
type listener struct {
	all     *bytes.Buffer
	from    int // start of the line in progress
	tell    func(string) string
	answers io.Writer // nil where nobody can be answered
}

func (l *listener) Write(b []byte) (int, error) {
	l.all.Write(b)
	for {
		line, _, whole := bytes.Cut(l.all.Bytes()[l.from:], []byte{'\n'})
		if !whole {
			return len(b), nil
		}
		l.from += len(line) + 1
		if answer := l.tell(string(line)); answer != "" && l.answers != nil {
			_, _ = io.WriteString(l.answers, answer) // a process that has gone says so by its status
		}
	}
}

// conversation notes the arrival of each line of standard output and answers
// the ready line.
type conversation struct {
	began time.Time
	said  locked.Value[said]
}

// said is what a process said until now, and what it is answered.
type said struct {
	ready string
	ask   []byte
	stdin io.WriteCloser // nil where nothing is to be answered, or it was
	all   bytes.Buffer
	lines []Line
	from  int // start of the line in progress
}

func (c *conversation) Write(b []byte) (int, error) {
	at := time.Since(c.began)
	s := c.said.Lock()
	defer c.said.Unlock()
	s.all.Write(b)
	for {
		i := bytes.IndexByte(s.all.Bytes()[s.from:], '\n')
		if i < 0 {
			return len(b), nil
		}
		s.line(at, s.all.Bytes()[s.from:s.from+i])
		s.from += i + 1
	}
}

func (s *said) line(at time.Duration, text []byte) {
	if len(s.lines) < maxLines {
		s.lines = append(s.lines, Line{at, string(text)})
	}
	if s.stdin != nil && string(text) == s.ready {
		_, _ = s.stdin.Write(s.ask) // a process that has gone says so by its status
		_ = s.stdin.Close()
		s.stdin = nil
	}
}

// rest is the last line where it has no end.
func (s *said) rest(at time.Duration) {
	if b := s.all.Bytes()[s.from:]; len(b) > 0 {
		s.line(at, b)
	}
}
