package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
)

// terminal is a pseudo-terminal of 80x24 with a program on it.
type terminal struct {
	master, slave *os.File
	shown         *await.Words
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{master, slave, &await.Words{}}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			if err != nil {
				return
			}
			_, _ = term.shown.Write(b[:n])
		}
	}()
	t.Cleanup(func() { _ = slave.Close(); _ = master.Close() })
	return term
}

// run starts teescope on the terminal, as its session's leader.
func (term *terminal) run(t *testing.T, args ...string) *await.Program {
	t.Helper()
	c := exec.Command(binary, args...)
	c.Stdin = term.slave
	c.Env = append(os.Environ(), "TERM=xterm-256color")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.Stdout = term.slave
	return await.Start(t, c)
}

var escapes = regexp.MustCompile(`\x1b(\[[0-9;?>=$]*[a-zA-Z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-B0]|[78=>cM])`)

// startHostile starts a busy program whose name would set the title of a terminal.
func startHostile(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(tool(t, "yes", "coreutils"))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "\x1b]0;pwned\x07<b>")
	if err := host.Local().Install(name, b, 0o700); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = null.Close() })
	c := exec.Command(name)
	c.Stdout = null // there is no end of it
	await.Start(t, c)
}

// top tests the live view on a terminal: it shows the process with the storm, renders its hostile name harmless, and
// restores the terminal on q, on ctrl-c and on SIGTERM.
func top(t *testing.T, m *monitor) {
	startHostile(t)
	await.Event(t, "the monitor has rates", func() error {
		if len(m.query(t, `rate(tee_syscalls_total{process=~".*<b>"}[15s]) > 1000`, "process")) == 0 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	for name, end := range map[string]func(*terminal, *await.Program) int{
		"q": func(term *terminal, p *await.Program) int {
			_, _ = term.master.WriteString("q")
			return p.Stop(syscall.Signal(0))
		},
		"ctrl-c": func(term *terminal, p *await.Program) int {
			_, _ = term.master.WriteString("\x03")
			return p.Stop(syscall.Signal(0))
		},
		"SIGTERM": func(_ *terminal, p *await.Program) int { return p.Stop(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			term := openTerminal(t)
			before, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			p := term.run(t, "top", "--server", m.url, "--interval", "500ms")
			await.Event(t, "the table is shown", func() error {
				plain := escapes.ReplaceAllString(term.shown.String(), "")
				for _, want := range []string{"teescope top", "PROCESS", "SYSC/S", "<b>", "q quit"} {
					if !strings.Contains(plain, want) {
						return fmt.Errorf("no %q in %q", want, plain)
					}
				}
				return nil
			})
			if _, err := term.master.WriteString("s/<b>\r"); err != nil {
				t.Fatal(err)
			}
			await.Event(t, "the filter holds", func() error {
				if plain := escapes.ReplaceAllString(term.shown.String(), ""); !strings.Contains(plain, "1 match") {
					return fmt.Errorf("in %q", plain)
				}
				return nil
			})
			if code := end(term, p); code != 0 {
				t.Errorf("exit status %d: %s", code, p.Err)
			}
			var all string
			await.Event(t, "the screen and the cursor are given back", func() error { // its last output may arrive late
				all = term.shown.String()
				enter, leave := strings.LastIndex(all, "\x1b[?1049h"), strings.LastIndex(all, "\x1b[?1049l")
				if enter < 0 || leave < enter || strings.LastIndex(all, "\x1b[?25h") < strings.LastIndex(all, "\x1b[?25l") {
					return fmt.Errorf("it ends with %q", all[max(0, len(all)-200):])
				}
				return nil
			})
			if strings.Contains(all, "pwned\x07") || strings.Contains(all, "\x1b]0;") {
				t.Error("a process name steers the terminal")
			}
			after, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			if *after != *before {
				t.Errorf("the terminal is %+v, was %+v", after, before)
			}
		})
	}
	out, errs, code := run(t, "top", "--once", "--server", m.url, "--process", "<b>$")
	if code != 0 || !strings.Contains(out, "PROCESS") || !strings.Contains(out, "<b>") || strings.ContainsAny(out, "\x1b\x07") {
		t.Errorf("--once ends with %d and prints %s%s", code, out, errs)
	}
}
