package await

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Program is one that a test started. It is to run until the test ends it, unless MayEnd says otherwise.
type Program struct {
	*exec.Cmd
	// Out and Err are what it printed so far, where Cmd.Stdout and Cmd.Stderr were nil.
	Out, Err *Words
	// In is its standard input, if Converse started it.
	In io.WriteCloser

	read  int // bytes of Out that Line has returned
	ended chan struct{}
	err   error // of Wait

	mu     sync.Mutex
	asked  bool // the test ends the program, or waits for its end
	mayEnd bool
	shown  bool // its last words are in what failed the test; guarded by running
}

// running are the programs that tests have started, with the names of the tests.
var running struct {
	sync.Mutex
	of map[*Program]string
}

// heldOpen is how long a program's end waits for programs that it left behind and that hold its output open.
const heldOpen = 10 * time.Second

// Start starts a program in a process group of its own, which ends with the test, or when the test's process is killed.
// While it is to run, its end fails at once every Event for which this test or a test below it waits. If the test fails,
// its words are shown.
func Start(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	return startForTest(t, &Program{Cmd: cmd})
}

// Converse starts a program as Start does, and leaves its standard input to the test. A program that is to end by itself,
// once the test has answered, is waited for with ExitStatus.
func Converse(t testing.TB, cmd *exec.Cmd) *Program {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	return startForTest(t, &Program{Cmd: cmd, In: in})
}

// startForTest starts a program that a test needs.
func startForTest(t testing.TB, p *Program) *Program {
	t.Helper()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	running.Lock()
	defer running.Unlock()
	if running.of == nil {
		running.of = map[*Program]string{}
	}
	running.of[p] = t.Name()
	t.Cleanup(func() {
		p.Stop(syscall.SIGKILL)
		running.Lock()
		defer running.Unlock()
		delete(running.of, p)
		if t.Failed() && !p.shown {
			t.Logf("%s", p.Last())
		}
	})
	return p
}

// Launch starts a program as Start does, for a measurement that is no test. The caller ends it.
func Launch(cmd *exec.Cmd) (*Program, error) {
	p := &Program{Cmd: cmd}
	return p, p.start()
}

// Until repeats check every few milliseconds until it returns nil. It fails with the last error of check when the context or
// patience is over, or as soon as the program has ended.
func (p *Program) Until(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		ended := p.hasEnded() // before the check, which sees what the program did last
		err := check()
		switch {
		case err == nil:
			return nil
		case ended:
			return fmt.Errorf("wait until %s: %w; %s", what, err, p.Last())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w; %s", what, ctx.Err(), err, p.Last())
		}
	}
}

func (p *Program) start() error {
	cmd := p.Cmd
	p.Out, p.Err, p.ended = &Words{}, &Words{}, make(chan struct{})
	if cmd.Stdout == nil {
		cmd.Stdout = p.Out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Err
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = heldOpen
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session's leader has a group of its own
	// The signal comes when the thread that started the program ends (prctl(2), PR_SET_PDEATHSIG), so a thread is
	// kept for that.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return nil
}

// MayEnd says that the program ends by itself when its work is done: then only an end with an error fails an Event.
func (p *Program) MayEnd() *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mayEnd = true
	return p
}

// Done is closed when the program has ended. Whoever takes it waits for the end, so no Event fails because of it.
func (p *Program) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
	return p.ended
}

// ExitStatus waits until the program ends by itself and returns its exit status, or -1 if a signal ended it.
func (p *Program) ExitStatus(t testing.TB) int {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatalf("waited %v for an end: %s", patience, p.Last())
	}
	return p.ProcessState.ExitCode()
}

// Line waits for the next line of standard output and returns it without its end. A program that ends before that fails the
// test.
func (p *Program) Line(t testing.TB) string {
	t.Helper()
	over := time.After(patience)
	for {
		grew, ended := p.Out.growing(), p.hasEnded() // both before the look
		line, _, whole := strings.Cut(p.Out.String()[p.read:], "\n")
		if whole {
			p.read += len(line) + 1
			return line
		}
		if ended {
			t.Fatalf("waited for a line: %s", p.Last())
		}
		select {
		case <-grew:
		case <-p.ended:
		case <-over:
			t.Fatalf("waited %v for a line: %s", patience, p.Last())
		}
	}
}

// Stop sends the program a signal and waits for its end; SIGKILL ends what it left in its process group too. A program that
// has not ended after patience is killed. Stop returns the exit status, or -1 if a signal ended the program.
func (p *Program) Stop(sig syscall.Signal) int {
	ended := p.Done()
	p.signal(sig)
	select {
	case <-ended:
	case <-time.After(patience):
		p.signal(syscall.SIGKILL)
		<-ended
	}
	return p.ProcessState.ExitCode()
}

func (p *Program) signal(sig syscall.Signal) {
	if p.hasEnded() {
		return
	}
	if sig == syscall.SIGKILL {
		_ = syscall.Kill(-p.Process.Pid, sig) // the number is the group's until Wait has returned
	} else {
		_ = p.Process.Signal(sig)
	}
}

// Last returns what the program is, how it ended, and its last words.
func (p *Program) Last() string {
	how := "runs"
	if p.hasEnded() {
		if how = "ended: exit status 0"; p.err != nil {
			how = "ended: " + p.err.Error()
		}
	}
	return fmt.Sprintf("%s (process %d) %s; it printed\n%s%s", filepath.Base(p.Path), p.Process.Pid, how, p.Out.last(), p.Err.last())
}

func (p *Program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// endedUnasked reports whether the program has ended although the test still needs it.
func (p *Program) endedUnasked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasEnded() && !p.asked && (!p.mayEnd || p.err != nil)
}

// unexpectedEnds returns the last words of the programs of a test, and of the tests above it, that have ended and should not have.
func unexpectedEnds(test string) string {
	running.Lock()
	defer running.Unlock()
	var all []string
	for p, name := range running.of {
		if (test == name || strings.HasPrefix(test, name+"/")) && p.endedUnasked() {
			all, p.shown = append(all, p.Last()), true
		}
	}
	return strings.Join(all, "\n")
}

// mostWords is how many bytes Words keeps of the beginning, and of the end; lastWords how many are shown.
const (
	mostWords = 1 << 20
	lastWords = 8 << 10
)

// Words collects what a program prints while it runs: the beginning and the end.
type Words struct {
	mu          sync.Mutex
	first, tail []byte
	cut         int           // bytes between them that are not kept
	grew        chan struct{} // closed at the next Write, if somebody waits for it
}

// growing returns a channel that is closed at the next Write.
func (w *Words) growing() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.grew == nil {
		w.grew = make(chan struct{})
	}
	return w.grew
}

// Write implements io.Writer.
func (w *Words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(b), mostWords-len(w.first))
	w.first = append(w.first, b[:n]...)
	w.tail = append(w.tail, b[n:]...)
	if more := len(w.tail) - mostWords; more > mostWords { // not at each Write
		w.cut += more
		w.tail = append(w.tail[:0], w.tail[more:]...)
	}
	if w.grew != nil {
		close(w.grew)
		w.grew = nil
	}
	return len(b), nil
}

func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == 0 {
		return string(w.first) + string(w.tail)
	}
	return fmt.Sprintf("%s\n(%d bytes are left out)\n%s", w.first, w.cut, w.tail)
}

// last is the end of what was printed.
func (w *Words) last() string {
	s := w.String()
	if cut := len(s) - lastWords; cut > 0 {
		s = fmt.Sprintf("(%d bytes before that)\n%s", cut, s[cut:])
	}
	return s
}
