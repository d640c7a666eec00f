package await

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		Event(t, "a minute has passed", func() error {
			if time.Since(began) < time.Minute {
				return errors.New("not yet")
			}
			return nil
		})
	})
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{TB: t}
		ended := make(chan bool)
		go func() { // Fatalf ends its goroutine
			defer close(ended)
			Event(r, "pigs fly", func() error { return errors.New("they walk") })
		}()
		<-ended
		if !strings.Contains(r.said, "until pigs fly: they walk") {
			t.Errorf("an event that never comes: %q", r.said)
		}
	})
}

// recorder keeps what fails a test.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
