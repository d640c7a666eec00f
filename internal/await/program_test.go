package await

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// failed returns what fails a test.
func failed(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	return r.said
}

func shell(script string) *exec.Cmd { return exec.Command("sh", "-c", script) }

// TestEventOfProgram: a wait fails at once, with the program's status and words, when a program that is to run has ended, and
// not because of one that has done its work or that the test has ended.
func TestEventOfProgram(t *testing.T) {
	for _, c := range []struct {
		name, script string
		mayEnd       bool
		want         []string // in what fails the wait; nil if the program does not fail it
	}{
		{"fails", "echo out; echo no such runroot >&2; exit 3", false, []string{"until the port answers: connection refused", "exit status 3", "out\n", "no such runroot\n"}},
		{"ends", "echo done", false, []string{"exit status 0", "done\n"}},
		{"is killed", "kill -9 $$", false, []string{"signal: killed"}},
		{"leaves another behind", "sleep 0.1 & echo parent >&2", false, []string{"exit status 0", "parent\n"}},
		{"fails in its work", "exit 3", true, []string{"exit status 3"}},
		{"has done its work", "echo done", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Start(t, shell(c.script))
			if c.mayEnd {
				p.MayEnd()
			}
			if c.want == nil {
				<-p.ended
				Event(t, "nothing more happens", func() error { return nil })
				if gone := unexpectedEnds(t.Name()); gone != "" {
					t.Errorf("the test lost a program: %s", gone)
				}
				return
			}
			t.Run("below", func(t *testing.T) {
				said := failed(t, func(t testing.TB) {
					Event(t, "the port answers", func() error { return errors.New("connection refused") })
				})
				for _, w := range append(c.want, fmt.Sprint("process ", p.Process.Pid)) {
					if !strings.Contains(said, w) {
						t.Errorf("the wait fails with %q, without %q", said, w)
					}
				}
			})
		})
	}
	if gone := unexpectedEnds(t.Name()); gone != "" || len(running.of) != 0 {
		t.Errorf("programs of tests that are over: %s %v", gone, running.of)
	}
}

// TestEventSeesTheLast: what the program did before its end counts.
func TestEventSeesTheLast(t *testing.T) {
	p := Start(t, shell("echo ready; exit 1"))
	Event(t, "it is ready", func() error {
		if !strings.Contains(p.Out.String(), "ready") {
			return errors.New("not yet")
		}
		return nil
	})
	if code := p.ExitStatus(t); code != 1 || p.Out.String() != "ready\n" || p.Err.String() != "" {
		t.Errorf("exit status %d, %q, %q", code, p.Out, p.Err)
	}
	Event(t, "the end that the test waited for is no failure", func() error { return nil })
}

// TestLaunch: without a test, too, a wait ends with the program.
func TestLaunch(t *testing.T) {
	if _, err := Launch(exec.Command("/no/such/program")); err == nil || !strings.Contains(err.Error(), "start /no/such/program: ") {
		t.Errorf("a program that is not there: %v", err)
	}
	p, err := Launch(shell("echo no port >&2; exit 5"))
	if err != nil {
		t.Fatal(err)
	}
	closed := errors.New("connection refused")
	err = p.Until(t.Context(), "the port answers", func() error { return closed })
	if !errors.Is(err, closed) || !strings.Contains(err.Error(), "exit status 5") || !strings.Contains(err.Error(), "no port") {
		t.Errorf("its end is %v", err)
	}
	if p, err = Launch(shell("echo ready; exec sleep 600")); err != nil {
		t.Fatal(err)
	}
	defer p.Stop(syscall.SIGKILL)
	err = p.Until(t.Context(), "it is ready", func() error {
		if p.Out.String() == "" {
			return closed
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Until(ctx, "the port answers", func() error { return closed }); !errors.Is(err, context.Canceled) || !errors.Is(err, closed) {
		t.Errorf("at the end of its context: %v", err)
	}
}

// TestStop ends a program and what it started in its group.
func TestStop(t *testing.T) {
	p := Start(t, shell("trap 'exit 7' TERM; echo on; while :; do sleep 0.01; done"))
	Event(t, "it has set its trap", func() error {
		if p.Out.String() == "" {
			return errors.New("it says nothing")
		}
		return nil
	})
	if code := p.Stop(syscall.SIGTERM); code != 7 {
		t.Errorf("exit status %d", code)
	}
	p = Start(t, shell("sleep 600 & echo $!; wait"))
	child := 0
	Event(t, "it has started another", func() error {
		_, err := fmt.Sscan(p.Out.String(), &child)
		return err
	})
	if code := p.Stop(syscall.SIGKILL); code != -1 {
		t.Errorf("exit status %d", code)
	}
	Event(t, "the other has ended too", func() error {
		// What has ended has no arguments, also if nobody waits for it (proc_pid_cmdline(5)).
		if argv, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child)); err == nil && len(argv) > 0 {
			return fmt.Errorf("process %d is there: %q", child, argv)
		}
		return nil
	})
}

// TestConverse asks a program, which ends by itself once it has answered.
func TestConverse(t *testing.T) {
	p := Converse(t, shell("echo ready; read x; echo $x; echo $x; read x; printf tail; exit 4"))
	if s := p.Line(t); s != "ready" {
		t.Errorf("it says %q", s)
	}
	if _, err := io.WriteString(p.In, "word\n"); err != nil {
		t.Fatal(err)
	}
	if one, two := p.Line(t), p.Line(t); one != "word" || two != "word" {
		t.Errorf("it says %q and %q", one, two)
	}
	if err := p.In.Close(); err != nil {
		t.Fatal(err)
	}
	said := failed(t, func(t testing.TB) { p.Line(t) })
	if code := p.ExitStatus(t); code != 4 || !strings.Contains(said, "waited for a line: sh (process") || !strings.Contains(said, "exit status 4") || !strings.Contains(said, "tail") {
		t.Errorf("exit status %d, and the wait for a line fails with %q", code, said)
	}
}

// TestWords keeps the beginning and the end.
func TestWords(t *testing.T) {
	w := &Words{}
	for i := range 5 << 20 >> 4 {
		if n, err := fmt.Fprintf(w, "%015d\n", i); n != 16 || err != nil {
			t.Fatal(n, err)
		}
	}
	s := w.String()
	if len(s) > 3*mostWords+100 || !strings.HasPrefix(s, "000000000000000\n") || !strings.HasSuffix(s, "000000000327679\n") || !strings.Contains(s, "bytes are left out)") {
		t.Errorf("%d bytes: %.40q ... %.40q", len(s), s, s[len(s)-40:])
	}
	if last := w.last(); len(last) > lastWords+100 || !strings.HasSuffix(last, "000000000327679\n") {
		t.Errorf("the last words have %d bytes: %.40q", len(last), last)
	}
	few := &Words{}
	_, _ = few.Write([]byte("all"))
	if few.String() != "all" || few.last() != "all" {
		t.Errorf("%q, %q", few.String(), few.last())
	}
}
