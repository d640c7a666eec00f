package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSeldom: one record per message passes in each interval, whatever its attributes, and other messages are not
// delayed.
func TestSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(seldom{slog.NewTextHandler(&out, nil), &said{at: map[string]time.Time{}}})
		for range 3 {
			for _, sample := range []string{"a", "b"} {
				log.With("rule", "r").Warn("discarded", "sample", sample)
			}
			log.Warn("other")
			time.Sleep(seldomEvery / 2)
		}
		if n := strings.Count(out.String(), "discarded"); n != 2 {
			t.Errorf("the message came through %d times, want 2:\n%s", n, &out)
		}
		if n := strings.Count(out.String(), "other"); n != 2 {
			t.Errorf("another message came through %d times, want 2:\n%s", n, &out)
		}
	})
}
