package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// TestReasonOf: a refused sample has the reason of what its error wraps, however deep.
func TestReasonOf(t *testing.T) {
	for err, want := range map[error]string{
		errTwice: "twice in one round", storage.ErrDuplicateSampleForTimestamp: "another value of that time",
		storage.ErrOutOfOrderSample: "older than the series", storage.ErrTooOldSample: "older than the series",
		storage.ErrOutOfBounds: "older or later than the store takes",
		errLabels:              "bad labels", errLabelName: "bad labels", tsdb.ErrInvalidSample: "bad labels",
		errNotWhole: "not a whole histogram", errors.New("another"): "other",
	} {
		wrapped := fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))
		if got := reasons[reasonOf(wrapped)].name; got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	tried := 0
	for _, r := range reasons {
		tried += max(1, len(r.are)) // the last is for all others
	}
	if tried != 10 {
		t.Errorf("%d errors have a reason, 10 are tried here", tried)
	}
}
