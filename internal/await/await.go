// Package await is how tests wait: for an event, never for a time. Inside a bubble of testing/synctest the pauses are
// virtual. Programs that run beside a test are started here, so a wait ends when they do.
package await

import (
	"testing"
	"time"
)

// patience ends a test whose event never comes. It is minutes, because a test must pass on a machine of any speed that
// does other things too.
const patience = 8 * time.Minute

// Event repeats check until it returns nil, and fails the test with its last error when patience is over, or as soon as a
// program that the test needs has ended (Start). What names the event.
func Event(t testing.TB, what string, check func() error) {
	t.Helper()
	began, pause := time.Now(), time.Millisecond
	for {
		gone := unexpectedEnds(t.Name()) // before the check, which sees what the program did last
		err := check()
		if err == nil {
			return
		}
		if gone != "" {
			t.Fatalf("waited until %s: %v\n%s", what, err, gone)
		}
		if time.Since(began) > patience {
			t.Fatalf("waited %v until %s: %v", patience, what, err)
		}
		time.Sleep(pause)
		pause = min(2*pause, 200*time.Millisecond)
	}
}
