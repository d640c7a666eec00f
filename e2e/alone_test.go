package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// aloneEnv is a place for one program: what it leaves there is found, and no monitor answers.
type aloneEnv struct {
	unshare, tmp, home string
}

func newAloneEnv(t *testing.T) aloneEnv {
	t.Helper()
	needRoot(t)
	e := aloneEnv{tool(t, "unshare", "util-linux"), t.TempDir(), t.TempDir()}
	if out, err := exec.Command(e.unshare, "--net", "true").CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %v: %s", err, out)
	}
	return e
}

// command is teescope in a network of its own, where nothing listens.
func (e aloneEnv) command(args ...string) *exec.Cmd {
	c := exec.Command(e.unshare, append([]string{"--net", binary}, args...)...)
	c.Env = append(os.Environ(), "TERM=xterm-256color", "TMPDIR="+e.tmp, "HOME="+e.home, "XDG_DATA_HOME="+e.home)
	return c
}

// leavesNothing checks that a program has left no file, no process and no pinned object.
func (e aloneEnv) leavesNothing(t *testing.T) {
	t.Helper()
	for _, folder := range []string{e.tmp, e.home} {
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", folder, left, err)
		}
	}
	for _, pattern := range []string{"/dev/shm/teescope-*", "/run/teescope-*", "/sys/fs/bpf/teescope*"} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	await.Event(t, "its processes have ended", func() error {
		for _, name := range all {
			if env, err := os.ReadFile(name); err == nil && strings.Contains(string(env), "TMPDIR="+e.tmp+"\x00") {
				return errors.New(name)
			}
		}
		return nil
	})
}

// resize changes the number of lines of the terminal, by turns to one more and one fewer: a size that it already has draws nothing.
func (term *terminal) resize(t *testing.T) {
	t.Helper()
	fd := int(term.slave.Fd())
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		t.Fatal(err)
	}
	rows := uint16(25)
	if size.Row == rows {
		rows = 24
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 100}); err != nil {
		t.Fatal(err)
	}
}

// shows waits until the screen shows all words. A screen is written anew as a whole when its size changes; otherwise only
// its differences are.
func (term *terminal) shows(t *testing.T, words ...string) {
	t.Helper()
	await.Event(t, fmt.Sprintf("the screen shows %q", words), func() error {
		before := len(term.shown.String())
		var plain string
		looked := 0
		await.Event(t, "the screen is drawn", func() error {
			const each = 100 // a program that just starts may not hear of a change
			if looked%each == 0 {
				term.resize(t)
			}
			looked++
			plain = escapes.ReplaceAllString(term.shown.String()[before:], "")
			if !strings.Contains(plain, "q quit") {
				return errors.New("not yet")
			}
			return nil
		})
		for _, w := range words {
			if !strings.Contains(plain, w) {
				return fmt.Errorf("no %q in %q", w, plain)
			}
		}
		return nil
	})
}

// startStorm starts a program with a random name that makes a system call at a rate of which much can be counted within the
// budget.
func startStorm(t *testing.T) (name string) {
	t.Helper()
	name = fmt.Sprintf("storm-%08x", rand.Uint32())
	c := exec.Command(cc(t, "../workloads/storm/storm.c"), "--syscall", "getppid", "--name", name, "--rate", "200000")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	await.Start(t, c)
	return name
}

// TestTopAlone: without a monitor, top names a storm of system calls and says where the time of the program goes; whatever ends it, nothing is left.
func TestTopAlone(t *testing.T) {
	t.Parallel()
	for end, stop := range map[string]func(*terminal, *await.Program) int{
		"q": func(term *terminal, p *await.Program) int {
			_, _ = term.master.WriteString("q")
			return p.Stop(syscall.Signal(0))
		},
		"ctrl-c": func(term *terminal, p *await.Program) int {
			_, _ = term.master.WriteString("\x03")
			return p.Stop(syscall.Signal(0))
		},
		"SIGTERM": func(_ *terminal, p *await.Program) int { return p.Stop(syscall.SIGTERM) },
		"SIGHUP":  func(_ *terminal, p *await.Program) int { return p.Stop(syscall.SIGHUP) },
		"SIGKILL": func(_ *terminal, p *await.Program) int { _ = p.Stop(syscall.SIGKILL); return 0 },
	} {
		t.Run(end, func(t *testing.T) {
			e := newAloneEnv(t)
			term := openTerminal(t)
			c := e.command("top")
			c.Stdin, c.Stdout = term.slave, term.slave
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			p := await.Start(t, c)
			term.shows(t, "in this process", "PROCESS", "KERN%")
			if end == "q" {
				name := startStorm(t)
				term.shows(t, name+" calls getppid")
				if _, err := term.master.WriteString("/" + name + "\r\r"); err != nil {
					t.Fatal(err)
				}
				term.shows(t, name, "getppid", "share of active time", "esc back")
				if _, err := term.master.WriteString("\x1b"); err != nil {
					t.Fatal(err)
				}
				term.shows(t, "PROCESS", "1 match")
			}
			if code := stop(term, p); code != 0 {
				t.Errorf("exit status %d: %s", code, p.Err)
			}
			e.leavesNothing(t)
		})
	}
}

// TestExplainAlone: without a monitor, explain watches the process, prints what a monitor's explanation has, and leaves
// nothing; with a server that the user named it fails.
func TestExplainAlone(t *testing.T) {
	t.Parallel()
	e := newAloneEnv(t)
	name := startStorm(t)
	p := await.Start(t, e.command("explain", "--process", name)).MayEnd()
	if code := p.ExitStatus(t); code != 0 {
		t.Fatalf("exit status %d: %s", code, p.Err)
	}
	if said := p.Err.String(); !strings.Contains(said, "no monitor answers at http://127.0.0.1:9780: watching for 10s in this process") {
		t.Errorf("it says %q", said)
	}
	out := p.Out.String()
	for _, w := range []string{name + " on ", "share of active time", "getppid", "not explained", "check "} {
		if !strings.Contains(out, w) {
			t.Errorf("no %q in\n%s", w, out)
		}
	}
	e.leavesNothing(t)
	named := await.Start(t, e.command("explain", "--process", name, "--server", "http://127.0.0.1:9780")).MayEnd()
	if code := named.ExitStatus(t); code != 4 || !strings.Contains(named.Err.String(), "start one with `teescope monitor`") {
		t.Errorf("a named server that does not answer: exit status %d: %s%s", code, named.Out, named.Err)
	}
	once := await.Start(t, e.command("top", "--once")).MayEnd()
	if code := once.ExitStatus(t); code != 0 || !strings.Contains(once.Out.String(), "in this process") || !strings.Contains(once.Out.String(), name) ||
		!strings.Contains(once.Out.String(), "so slower problems may be missing") {
		t.Errorf("top --once: exit status %d:\n%s%s", code, once.Out, once.Err)
	}
	e.leavesNothing(t)
}
