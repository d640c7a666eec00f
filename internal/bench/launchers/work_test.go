package launchers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// serving are environments with both kinds of servers: a process of this machine, and one behind an agent.
func serving(t *testing.T) map[string]bench.Environment {
	t.Helper()
	k := &cluster{}
	e, work := k.open(t, bench.Params{})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		k.ended(t, work)
	})
	return map[string]bench.Environment{"native": open(t, &native, nil), "pod": e}
}

// TestSlowServer: the load begins when the server is ready, and the wait is reported while it lasts. It ends with the run's
// time.
func TestSlowServer(t *testing.T) {
	for name, env := range serving(t) {
		ready, loaded := filepath.Join(t.TempDir(), "ready"), filepath.Join(t.TempDir(), "loaded")
		if err := unix.Mkfifo(ready, 0o600); err != nil {
			t.Fatal(err)
		}
		var told []string
		job := bench.Job{
			Inside:  host.Cmd{Argv: []string{"sh", "-c", `read go <"$0"; echo up; exec sleep 6000`, ready}, Ready: "up"},
			Outside: &host.Cmd{Argv: []string{"sh", "-c", `echo loading >"$0"`, loaded}},
		}
		job.Waiting = func(what string) {
			told = append(told, what)
			if what == "" {
				return
			}
			if _, err := os.Stat(loaded); err == nil {
				t.Errorf("%s: a load on a server that is not ready", name)
			}
			go func() {
				if err := os.WriteFile(ready, []byte("go\n"), 0o600); err != nil {
					t.Error(err)
				}
			}()
		}
		want := []string{`the line "up" of sh`, ""}
		if o, err := env.Run(t.Context(), job); err != nil || string(o.Inside.Stdout) != "up\n" || !slices.Equal(told, want) {
			t.Errorf("%s: %v, inside %q; waits told: %q", name, err, o.Inside.Stdout, told)
		}
		if b, err := os.ReadFile(loaded); err != nil || string(b) != "loading\n" {
			t.Errorf("%s: the load: %q, %v", name, b, err)
		}
		told = nil
		ctx, cancel := context.WithCancel(t.Context())
		job.Waiting = func(what string) {
			if told = append(told, what); what != "" {
				cancel()
			}
		}
		if _, err := env.Run(ctx, job); !errors.Is(err, context.Canceled) || !slices.Equal(told, want) {
			t.Errorf("%s, without the server: %v; waits told: %q", name, err, told)
		}
	}
}

// TestServerDies: a server that ends early fails its run with the server's own reason, whenever it ends; the next run works.
func TestServerDies(t *testing.T) {
	for name, env := range serving(t) {
		for what, c := range map[string]struct{ script, ready, want string }{
			"at once":     {"echo no port is free >&2; exit 3", "", "before the load generator outside"},
			"never ready": {"echo no port is free >&2; exit 3", "up", `before it printed "up"`},
			"under load":  {"echo up; read x; echo no port is free >&2; exit 3", "up", "before the load generator outside"},
		} {
			job := bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", c.script}, Ready: c.ready, Ask: []byte("die\n")}, Outside: &host.Cmd{Argv: []string{"sleep", "6000"}}}
			o, err := env.Run(t.Context(), job)
			said := host.WithReason(err, o.Inside, o.Outside)
			if err == nil || !strings.Contains(said.Error(), c.want) || !strings.Contains(said.Error(), "exit status 3: no port is free") || strings.Contains(said.Error(), "\n") {
				t.Errorf("%s, %s: %v", name, what, said)
			}
		}
		if o, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"echo", "well"}}}); err != nil || string(o.Inside.Stdout) != "well\n" {
			t.Errorf("%s, after that: %v, %q", name, err, o.Inside.Stdout)
		}
	}
}

// TestConnectionLostUnderLoad: the load of a server whose connection is cut is ended, and the run's error names the connection.
func TestConnectionLostUnderLoad(t *testing.T) {
	a, p, _ := startAgent(t)
	job := bench.Job{Inside: host.Cmd{Argv: []string{"sh", "-c", "echo up; exec sleep 6000"}, Ready: "up"}}
	r, err := a.start(job.Inside, time.Now(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	_, err = underLoad(t.Context(), r, job, func(ctx context.Context) (host.Output, error) {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		ended = true
		return host.Output{}, ctx.Err()
	})
	if !errors.Is(err, errLost) || !ended || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v; the load was ended: %v", err, ended)
	}
}
