package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/teescope/teescope/internal/store/space"
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

// TestRefusedCounts: all samples of a scrape that is refused are counted, which they are only if none of them ends the scrape; one that
// is given up for another reason counts none.
func TestRefusedCounts(t *testing.T) {
	all := &tally{}
	r := &refused{tally: all, err: space.ErrNoSpace}
	for range 3 {
		if _, err := r.Append(0, labels.EmptyLabels(), 0, 1); err != nil {
			t.Fatalf("it ends the scrape: %v", err)
		}
	}
	if err := r.Commit(); !errors.Is(err, space.ErrNoSpace) || all.lost.Load() != 3 {
		t.Errorf("%v, %d samples lost", err, all.lost.Load())
	}
	r = &refused{tally: all, err: space.ErrNoSpace, n: 5}
	if err := r.Rollback(); err != nil || all.lost.Load() != 3 {
		t.Errorf("given up: %v, %d samples lost", err, all.lost.Load())
	}
}
