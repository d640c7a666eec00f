package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// TestPatienceEnds: while the process runs, patience is what it says.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = time.Minute
		ctx, cancel := WithPatience(t.Context(), patience)
		defer cancel()
		time.Sleep(patience - time.Nanosecond)
		synctest.Wait()
		if err := ctx.Err(); err != nil {
			t.Errorf("a moment before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("at its end: %v", err)
		}
	})
}

// TestPatience stops a program that waits, as a hypervisor does a machine, for longer
// than its patience: what goes on afterwards is not late.
func TestPatience(t *testing.T) {
	const patience, stopped = time.Second, 2 * time.Second
	if os.Getenv("TEESCOPE_TEST_PATIENCE") != "" {
		ctx, cancel := WithPatience(context.Background(), patience)
		defer cancel()
		fmt.Println("waiting")
		for range parts / 2 {
			// clock: two timers of one process are compared, however late both are.
			time.Sleep(patience / parts)
		}
		fmt.Println(ctx.Err())
		<-ctx.Done()
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPatience$")
	// On one thread, what waits for a part of the patience and what sleeps as long wake up equally often, however
	// late both are.
	cmd.Env = append(os.Environ(), "TEESCOPE_TEST_PATIENCE=1", "GOMAXPROCS=1")
	p := await.Start(t, cmd)
	if line := p.Line(t); line != "waiting" {
		t.Errorf("it says %q", line)
	}
	for _, s := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
		if err := p.Process.Signal(s); err != nil {
			t.Error(err)
		}
		if s == unix.SIGSTOP {
			// clock: the stop lasts at least for this time.
			time.Sleep(stopped) // or longer
		}
	}
	if line := p.Line(t); line != "<nil>" {
		t.Errorf("half of the patience after a stop: %s", line)
	}
	if code := p.ExitStatus(t); code != 0 { // it has an end all the same
		t.Error(p.Last())
	}
}
