package launchers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/workloads/micro"
)

// startAgent runs the worker's agent on pipes; it owns folder.
func startAgent(t *testing.T) (a *agent, p *host.Process, folder string) {
	t.Helper()
	if micro.Program == nil {
		t.Skip("no worker for this architecture")
	}
	h := host.Local()
	folder = t.TempDir()
	worker := filepath.Join(t.TempDir(), "micro")
	if err := h.Install(worker, micro.Program, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := h.Start(t.Context(), host.Cmd{Argv: []string{worker, "agent", folder}, Pipe: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if a, err = meetAgent(p); err != nil {
		t.Fatal(err)
	}
	return a, p, folder
}

func ends(t *testing.T, p *host.Process, what string) {
	t.Helper()
	await.Event(t, "the agent ends "+what, func() error {
		select {
		case <-p.Done():
			return nil
		default:
			return errors.New("it runs")
		}
	})
}

// gone waits until a process has ended; its new parent may not have reaped it yet.
func gone(t *testing.T, pid string) {
	t.Helper()
	await.Event(t, "process "+pid+" is gone", func() error {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return nil
		}
		return fmt.Errorf("it is there: %s", stat)
	})
}

func TestAgentEndsWithItsFolder(t *testing.T) {
	a, p, folder := startAgent(t)
	if err := a.sendFile(filepath.Join(folder, "deep/er/file"), 0o600, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(folder, "deep/er/file")); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != 1 {
		t.Errorf("put: %v, %v", fi, err)
	}
	if err := a.sendFile("/proc/absent", 0o600, nil); err == nil {
		t.Error("a file in /proc was put")
	}
	if err := a.quit(); err != nil {
		t.Fatal(err)
	}
	ends(t, p, "when told to")
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// TestAgentKillsTheJob: the harness disappears while a job with a child runs.
func TestAgentKillsTheJob(t *testing.T) {
	a, p, folder := startAgent(t)
	pids := filepath.Join(folder, "..", "pids")
	lost := make(chan error, 1)
	go func() {
		_, err := a.run(host.Cmd{Argv: []string{"sh", "-c", "sleep 600 & echo $$ $! >" + pids + "; echo on; wait"}}, time.Now(), time.Now)
		lost <- err
	}()
	var text []byte
	await.Event(t, "the job has started", func() (err error) {
		if text, err = os.ReadFile(pids); err == nil && !bytes.HasSuffix(text, []byte("\n")) {
			err = fmt.Errorf("it wrote %q", text)
		}
		return err
	})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	ends(t, p, "at the end of its input")
	if err := <-lost; !errors.Is(err, errLost) {
		t.Errorf("the run's error: %v", err)
	}
	for pid := range strings.FieldsSeq(string(text)) {
		gone(t, pid)
	}
}

// TestAgentSideBySide: programs run in parallel, each with its own output; one is stopped with
// its children while another continues.
func TestAgentSideBySide(t *testing.T) {
	a, _, _ := startAgent(t)
	begin := func(script string) *remote {
		r, err := a.start(host.Cmd{Argv: []string{"sh", "-c", script}}, time.Now(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	server := begin("trap 'echo bye; exit 7' TERM; echo $$; sleep 600 & wait")
	stubborn := begin("trap '' TERM; echo deaf; sleep 600")
	said := func(r *remote) string {
		await.Event(t, "a program prints a line", func() error {
			if len(r.Lines()) == 0 {
				return errors.New("nothing yet")
			}
			return nil
		})
		return r.Lines()[0].Text
	}
	pid := said(server)
	if said(stubborn) != "deaf" {
		t.Errorf("the second program said %q", said(stubborn))
	}
	for i := range 20 {
		out, err := a.run(host.Cmd{Argv: []string{"sh", "-c", "printf %s \"$0\"", strconv.Itoa(i)}}, time.Now(), time.Now)
		if err != nil || string(out.Stdout) != strconv.Itoa(i) {
			t.Errorf("run %d next to others: %v, %q", i, err, out.Stdout)
		}
	}
	defer func(was time.Duration) { jobGrace = was }(jobGrace)
	jobGrace = time.Hour // it ends before
	server.Stop()
	if out, err := server.Wait(); err == nil || out.Code != 7 || string(out.Stdout) != pid+"\nbye\n" {
		t.Errorf("stopped: %v, status %d, %q", err, out.Code, out.Stdout)
	}
	server.Stop() // stopping twice has no effect
	select {
	case <-stubborn.Done():
		t.Error("the other program ended too")
	default:
	}
	jobGrace = 50 * time.Millisecond
	stubborn.Stop()
	if _, err := stubborn.Wait(); err == nil || !strings.Contains(err.Error(), "signal 9") {
		t.Errorf("a program that ignores SIGTERM: %v", err)
	}
}

// TestAgentWaitsForNobody: processes left in a job's group end with the job, and a daemon that
// keeps the job's output open does not delay the run.
func TestAgentWaitsForNobody(t *testing.T) {
	a, _, folder := startAgent(t)
	daemon := filepath.Join(folder, "..", "daemon")
	for _, script := range []string{"sleep 600 & echo done",
		"setsid sh -c 'echo $$ >" + daemon + "; exec sleep 600' & until [ -s " + daemon + " ]; do sleep 0.01; done; echo done"} {
		t.Run(script, func(t *testing.T) {
			out, err := a.run(host.Cmd{Argv: []string{"sh", "-c", script}}, time.Now(), time.Now)
			if err != nil || string(out.Stdout) != "done\n" {
				t.Errorf("%s: %v, %q in %v", script, err, out.Stdout, out.Wall)
			}
		})
	}
	text, err := os.ReadFile(daemon)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
		t.Errorf("the run has waited for the end of a daemon: %v", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// TestAgentTalksNonsense: invalid data on the line is an error, and nothing worse.
func TestAgentTalksNonsense(t *testing.T) {
	hello := string(frame(nil, 'H', []byte("4 0 x86_64 6.1 0 1")))
	for _, said := range []string{
		"", "H", "H\x00\x00\x00\x05ab", "\xff\xff\xff\xff\xff\xff", "login: ",
		string(frame(nil, 'H', []byte("1 0 x86_64 6.1 0 1"))), string(frame(nil, 'K', nil)),
		hello, hello + string(frame(nil, 'o', []byte("early"))),
		hello + string(frame(nil, 'K', nil)), hello + string(frame(frame(nil, 'K', nil), 'Z', []byte("\x010 0"))),
		hello + string(frame(frame(nil, 'K', nil), 'Z', nil)), hello + string(frame(frame(nil, 'K', nil), 'K', nil)),
		hello + string(frame(frame(nil, 'K', nil), '?', nil)), hello + string(frame(nil, 'A', nil)),
	} {
		t.Run(said, func(t *testing.T) {
			a, err := meetAgent(struct {
				io.Reader
				io.Writer
			}{strings.NewReader(said), io.Discard})
			if err == nil {
				_, err = a.run(host.Cmd{Argv: []string{"x"}}, time.Now(), time.Now)
			}
			if err == nil {
				t.Errorf("%q is taken for an agent", said)
			}
		})
	}
}

// TestKeeper: when nobody holds its input open, the keeper kills the command and removes
// the folders.
func TestKeeper(t *testing.T) {
	work, sockets, data := t.TempDir(), t.TempDir(), t.TempDir()
	p, err := host.Local().Start(t.Context(), host.Cmd{Argv: []string{"sh", "-c", keeper, "qemu", work, sockets, data, "sleep", "600"}, Pipe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	ends(t, p, "when its input does")
	for _, dir := range []string{work, sockets, data} {
		await.Event(t, dir+" is gone", func() error {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
}

// TestKeeperPassesTheStatusOn: if the machine ends by itself, no watcher remains.
func TestKeeperPassesTheStatusOn(t *testing.T) {
	work := t.TempDir()
	p, err := host.Local().Start(t.Context(), host.Cmd{Argv: []string{"sh", "-c", keeper, "qemu", work, work, "", "sh", "-c", "exit 7"}, Pipe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	ends(t, p, "with the command")
	if out, err := p.Wait(); err == nil || out.Code != 7 {
		t.Errorf("status %d, %v; want 7", out.Code, err)
	}
	if _, err := os.Stat(work); err != nil {
		t.Errorf("the folder is for the caller to remove: %v", err)
	}
}

func TestBadSSHParams(t *testing.T) {
	for _, p := range []bench.Params{
		{}, {"host": "-oProxyCommand=x"}, {"host": "h", "port": "0"}, {"host": "h", "port": "x"}, {"host": "h", "work": "relative"},
		{"host": "h", "work": "/a'b"}, {"host": "h", "data": "x"}, {"host": "h", "options": "-v"},
	} {
		if env, err := ssh.Open(t.Context(), host.Local(), p); err == nil || env != nil {
			t.Errorf("%v is taken", p)
		}
	}
}
