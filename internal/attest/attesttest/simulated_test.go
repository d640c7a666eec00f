package attesttest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/attest"
)

// device makes one quote at a time.
func device(t *testing.T, delay time.Duration) *attest.Simulated {
	t.Helper()
	d, err := attest.NewSimulated(attest.Settings{Parallel: 1, Delay: delay})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTurns: what one device makes one after the other takes the sum of the times.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, delay = 5, 10 * time.Millisecond
		d := device(t, delay)
		began := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if _, err := d.Quote(t.Context(), [attest.Size]byte{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != callers*delay {
			t.Errorf("%d quotes of %s took %s", callers, delay, took)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := device(t, time.Hour).Quote(ctx, [attest.Size]byte{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up got %v", err)
	}
}
