package sources

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// TestCommandThatHangs: a reading does not wait for a command that never ends,
// no second one is started beside it, and it ends with the source.
func TestCommandThatHangs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "started")
	h := host.Local()
	now := time.Now()
	h.Now = func() time.Time { return now }
	c := &commands[string]{host: h, name: "it", every: time.Second, limit: time.Hour, ask: func(run runner) (string, error) {
		out, err := run([]string{"sh", "-c", "echo once >>" + log + "; exec sleep 600"})
		return string(out), err
	}}
	if _, err := c.latest(t.Context()); err == nil || !strings.Contains(err.Error(), "not answered yet") {
		t.Errorf("first reading: %v", err)
	}
	for range 3 {
		now = now.Add(time.Minute)
		if _, err := c.latest(t.Context()); err == nil {
			t.Error("an answer from a command that hangs")
		}
	}
	now = now.Add(2 * time.Hour) // past the time at which it should have been ended
	if _, err := c.latest(t.Context()); probe.Remedy(err) == "" || !strings.Contains(err.Error(), "cannot be ended") {
		t.Errorf("past the limit: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(log); err != nil || string(b) != "once\n" {
		t.Errorf("started %q, %v", b, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		t.Error("it runs on after the source was closed")
	}
}

// TestCommandPastItsTime: one that takes too long is ended and named, and asked
// again when it is due; an answer that came before is not shown meanwhile.
func TestCommandPastItsTime(t *testing.T) {
	h := host.Local()
	now := time.Now()
	h.Now = func() time.Time { return now }
	script := "echo one"
	c := &commands[string]{host: h, name: "it", every: time.Minute, limit: 50 * time.Millisecond, ask: func(run runner) (string, error) {
		out, err := run([]string{"sh", "-c", script})
		return strings.TrimSpace(string(out)), err
	}}
	defer c.Close()
	again := func() (string, error) {
		now = now.Add(time.Minute)
		_, _ = c.latest(t.Context())
		c.mu.Lock()
		ended := c.ended
		c.mu.Unlock()
		<-ended
		return c.latest(t.Context())
	}
	c.limit = time.Minute
	if s, err := again(); s != "one" || err != nil {
		t.Fatalf("%q, %v", s, err)
	}
	script, c.limit = "exec sleep 600", 50*time.Millisecond
	if s, err := again(); s != "" || err == nil || !strings.Contains(err.Error(), "was ended after") {
		t.Errorf("%q, %v", s, err)
	}
	script, c.limit = "echo odd >&2; exit 3", time.Minute
	if _, err := again(); err == nil || !strings.Contains(err.Error(), "exit status 3: odd") {
		t.Errorf("%v", err)
	}
	script = "echo two"
	if s, err := again(); s != "two" || err != nil {
		t.Errorf("%q, %v", s, err)
	}
	if c.spent() == 0 {
		t.Error("four commands have cost nothing")
	}
}

func TestMissingCommand(t *testing.T) {
	c := &commands[string]{host: host.Local(), name: "nosuch", install: "install it", every: time.Minute, limit: time.Minute,
		ask: func(run runner) (string, error) {
			out, err := run([]string{"no-such-command-7c1"})
			return string(out), err
		}}
	defer c.Close()
	if _, err := c.latest(t.Context()); probe.Remedy(err) != "install it" || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v (%s)", err, probe.Remedy(err))
	}
}

// TestNVIDIASmi runs the driver's own tool where there is one.
func TestNVIDIASmi(t *testing.T) {
	h := host.Local()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	out, err := h.Exec(ctx, host.Cmd{Argv: tee.NVIDIAQuery})
	if err != nil {
		t.Skipf("no card to ask: %v", err)
	}
	log, err := tee.ParseNVIDIA(out.Stdout)
	if err != nil || len(log.GPUs) == 0 || log.Driver == "" {
		t.Fatalf("%+v, %v", log, err)
	}
	for _, g := range log.GPUs {
		if _, ok := g.Memory.Total.Value(); !ok || g.UUID == "" {
			t.Errorf("%+v", g)
		}
	}
}
