package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// TestTopInOddTerminals: on a terminal without a size, as one of script(1), and on one of 40 columns, top shows its table, leaves the size as it
// was, and ends with q.
func TestTopInOddTerminals(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]unix.Winsize{"no size": {}, "40 columns": {Row: 24, Col: 40}, "one cell": {Row: 1, Col: 1}} {
		t.Run(name, func(t *testing.T) {
			e := newAloneEnv(t)
			term := openTerminal(t)
			fd := int(term.slave.Fd())
			if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size); err != nil {
				t.Fatal(err)
			}
			c := e.command("top")
			c.Stdin, c.Stdout = term.slave, term.slave
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			p := await.Start(t, c)
			await.Event(t, "the screen is drawn", func() error {
				shown := escapes.ReplaceAllString(term.shown.String(), "")
				if want := "PROCESS"; size.Col != 1 && !strings.Contains(shown, want) || len(term.shown.String()) == 0 {
					return fmt.Errorf("no %q in %q", want, shown)
				}
				return nil
			})
			if _, err := term.master.WriteString("q"); err != nil {
				t.Fatal(err)
			}
			if code := p.Stop(syscall.Signal(0)); code != 0 {
				t.Errorf("exit status %d: %s", code, p.Err)
			}
			if now, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil || *now != size {
				t.Errorf("the terminal has the size %+v now, %v; it had %+v", now, err, size)
			}
			e.leavesNothing(t)
		})
	}
}

// TestTopWithout: without a terminal, without root, without the kernel's type information and with a home that cannot be written, top prints its
// table, says what is missing, and leaves nothing.
func TestTopWithout(t *testing.T) {
	t.Parallel()
	needRoot(t)
	alone := func(e aloneEnv, script string, args ...string) *exec.Cmd { // in a network where nothing listens, after a script
		c := exec.Command(e.unshare, append([]string{"--net", "--mount", "sh", "-c", script + ` && exec "$0" "$@"`}, args...)...)
		c.Env = e.command().Env
		return c
	}
	nobody := []string{tool(t, "setpriv", "util-linux"), "--reuid=65534", "--regid=65534", "--clear-groups", "--", asNobody(t), "top", "--once"}
	for name, c := range map[string]struct {
		script func(aloneEnv) string
		args   []string
		want   string
	}{
		"terminal": {func(aloneEnv) string { return "true" }, []string{binary, "top", "--once"}, "PROCESS"},
		"root":     {func(aloneEnv) string { return "true" }, nobody, "Without root, teescope cannot show these values of a process: "},
		"BTF": {func(e aloneEnv) string { return "mount --bind " + e.tmp + " /sys/kernel/btf" }, []string{binary, "top", "--once"},
			"On this machine, teescope cannot show these values of a process: "},
		"a home to write": {func(e aloneEnv) string { return "mount -t tmpfs -o ro tmpfs " + e.home }, []string{binary, "top", "--once"}, "PROCESS"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newAloneEnv(t)
			p := await.Start(t, alone(e, c.script(e), c.args...)).MayEnd()
			if code := p.ExitStatus(t); code != 0 {
				t.Fatalf("exit status %d: %s", code, p.Err)
			}
			out := p.Out.String()
			for _, want := range []string{"in this process", "PROCESS", "CPU%", c.want} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s%s", want, out, p.Err)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("what is no terminal gets control sequences: %q", out)
			}
			e.leavesNothing(t)
		})
	}
}

// TestReadOnlyHome: what needs no place to write works with a home that cannot be written. For what needs one see TestDataNotWritable.
func TestReadOnlyHome(t *testing.T) {
	t.Parallel()
	needRoot(t)
	e := newAloneEnv(t)
	run := func(args ...string) (*await.Program, int) {
		c := exec.Command(e.unshare, append([]string{"--net", "--mount", "sh", "-c", "mount -t tmpfs -o ro tmpfs " + e.home + ` && exec "$0" "$@"`, binary}, args...)...)
		c.Env = e.command().Env
		p := await.Start(t, c).MayEnd()
		return p, p.ExitStatus(t)
	}
	for _, args := range [][]string{{"doctor"}, {"version"}, {"bench", "list"}, {"explain"}} {
		if p, code := run(args...); code != 0 {
			t.Errorf("%v: exit status %d: %s", args, code, p.Err)
		}
	}
}
