package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// TestQuote: the shell gives each word back.
func TestQuote(t *testing.T) {
	for _, word := range []string{"", "a b", "it's", `$HOME \ "x" {a,b} *`, "two\nlines"} {
		t.Run(word, func(t *testing.T) {
			out, err := Local().Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "printf %s " + Quote(word)}})
			if err != nil || string(out.Stdout) != word {
				t.Errorf("%q comes back as %q, %v", word, out.Stdout, err)
			}
		})
	}
}

func TestRunTimesLinesAndAsks(t *testing.T) {
	out, err := Local().Exec(t.Context(), Cmd{
		Argv:  []string{"sh", "-c", "echo ready; read x; echo got $x; printf tail; echo bad >&2; exit 3"},
		Ready: "ready", Ask: []byte("it\n"),
	})
	if err == nil || out.Code != 3 {
		t.Fatalf("code %d, error %v; want 3 and an error", out.Code, err)
	}
	var text []string
	for i, l := range out.Lines {
		text = append(text, l.Text)
		if i > 0 && l.At < out.Lines[i-1].At || l.At > out.Wall {
			t.Errorf("line %d at %v, wall %v", i, l.At, out.Wall)
		}
	}
	if got := strings.Join(text, "|"); got != "ready|got it|tail" {
		t.Errorf("lines %q", got)
	}
	if string(out.Stderr) != "bad\n" || out.MaxRSS == 0 {
		t.Errorf("stderr %q, resident %d", out.Stderr, out.MaxRSS)
	}
}

func TestMissingCommand(t *testing.T) {
	if _, err := Local().Exec(t.Context(), Cmd{Argv: []string{"no-such-command-7c1"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

// TestToolsOfTheCheckout: a program in bin of a checkout finds and runs what .tools/bin has, after what PATH has.
func TestToolsOfTheCheckout(t *testing.T) {
	if os.Getenv("TEST_TOOLS") != "" { // as the program in bin
		for _, command := range []string{"only-in-tools", "sh"} {
			found, err := Local().LookPath(command)
			out, err2 := Local().Exec(t.Context(), Cmd{Argv: []string{command, "-c", "echo of PATH"}})
			fmt.Printf("%s: %s", found, out.Stdout)
			if err = errors.Join(err, err2); err != nil {
				t.Error(err)
			}
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	checkout := t.TempDir()
	tool := []byte("#!" + sh + "\necho of the tools\n")
	for name, data := range map[string][]byte{"bin/teescope": program, ".tools/bin/only-in-tools": tool, ".tools/bin/sh": tool} {
		t.Run(name, func(t *testing.T) {
			if err := Local().Install(filepath.Join(checkout, name), data, 0o755); err != nil {
				t.Fatal(err)
			}
		})
	}
	// A folder in which everybody may put a program is not looked at, nor one beside a folder of another name.
	for name, change := range map[string]func() error{
		"bin/teescope":    func() error { return os.Chmod(filepath.Join(checkout, ".tools/bin"), 0o757) },
		"tmp-1/teescope2": func() error { return os.Chmod(filepath.Join(checkout, ".tools/bin"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(Local().Install(filepath.Join(checkout, name), program, 0o755), change()); err != nil {
				t.Fatal(err)
			}
			out, err := Local().Exec(t.Context(), Cmd{Argv: []string{filepath.Join(checkout, name), "-test.run=^TestToolsOfTheCheckout$"}, Env: map[string]string{"TEST_TOOLS": "1"}})
			if err == nil || strings.Contains(string(out.Stdout), "of the tools") {
				t.Errorf("%s runs a tool: %s", name, out.Stdout)
			}
		})
	}
	if err := os.Chmod(filepath.Join(checkout, ".tools/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := Local().Exec(t.Context(), Cmd{Argv: []string{filepath.Join(checkout, "bin/teescope"), "-test.run=^TestToolsOfTheCheckout$"}, Env: map[string]string{"TEST_TOOLS": "1"}})
	want := filepath.Join(checkout, ".tools/bin/only-in-tools") + ": of the tools\n" + sh + ": of PATH\n"
	if err != nil || !strings.HasPrefix(string(out.Stdout), want) {
		t.Errorf("%v: %s%s, want %s", err, out.Stdout, out.Stderr, want)
	}
}

// TestCancelEndsTheGroup: a child of the command ends with it.
func TestCancelEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Local().Start(ctx, Cmd{Argv: []string{"sh", "-c", "sleep 600 & echo $!; wait"}})
	if err != nil {
		t.Fatal(err)
	}
	child := firstLine(t, p)
	cancel()
	if _, err := p.Wait(); err == nil {
		t.Error("no error after cancelling")
	}
	ends(t, child)
}

// firstLine waits for the first line of a program.
func firstLine(t *testing.T, p *Process) string {
	t.Helper()
	await.Event(t, "the program says something", func() error {
		if len(p.Lines()) > 0 {
			return nil
		}
		select {
		case <-p.Done():
			out, err := p.Wait()
			t.Fatalf("ended early: %v: %s%s", err, out.Stdout, out.Stderr)
		default:
		}
		return errors.New("nothing yet")
	})
	return p.Lines()[0].Text
}

// ends waits until a process has ended; whoever adopted it may have to reap it yet.
func ends(t *testing.T, pid string) {
	t.Helper()
	await.Event(t, "process "+pid+" has ended", func() error {
		stat, err := Local().ReadString("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(stat, ") Z ") {
			return nil
		}
		return fmt.Errorf("it is there: %s", stat)
	})
}

// TestLeftBehind: what a command leaves in its group, with its output open, holds
// nobody up and does not stay.
func TestLeftBehind(t *testing.T) {
	out, err := Local().Exec(t.Context(), Cmd{Argv: []string{"sh", "-c", "sleep 100 & echo $!"}})
	if err == nil || !strings.Contains(err.Error(), "left behind") {
		t.Errorf("error %v", err)
	}
	pid := strings.TrimSpace(string(out.Stdout))
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("output %q", out.Stdout)
	}
	ends(t, pid)
}

func TestPipe(t *testing.T) {
	p, err := Local().Start(t.Context(), Cmd{Argv: []string{"cat"}, Pipe: true})
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	for _, word := range []string{"one", "two"} {
		t.Run(word, func(t *testing.T) {
			if _, err := io.WriteString(p, word); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(p, b); err != nil || string(b) != word {
				t.Fatalf("said %s, heard %s, %v", word, b, err)
			}
		})
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := p.Wait(); err != nil || len(out.Stdout) != 0 {
		t.Errorf("%v, %q", err, out.Stdout)
	}
	if n, err := p.Read(b); n != 0 || err != io.EOF {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// TestKilledHarness: what a program started ends when the program is killed,
// which leaves it no time to do anything about it.
func TestKilledHarness(t *testing.T) {
	if os.Getenv("HOST_TEST_HARNESS") == "1" {
		p, err := Local().Start(t.Context(), Cmd{Argv: []string{"sleep", "600"}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(p.PID)
		_, _ = p.Wait()
		return
	}
	harness, err := Local().Start(t.Context(), Cmd{
		Argv: []string{os.Args[0], "-test.run=^TestKilledHarness$"}, Env: map[string]string{"HOST_TEST_HARNESS": "1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	job := firstLine(t, harness)
	if err := unix.Kill(harness.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ends(t, job)
}
