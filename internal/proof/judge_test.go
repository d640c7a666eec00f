package proof

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/attest"
)

// TestJudge: what a verification lacks is told from what it refutes, however deep the error is.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		err    error
		state  State
		needed bool
	}{
		{nil, Holds, true},
		{attest.ErrNonePublished, NotChecked, false},
		{attest.ErrNotRead, NotChecked, false},
		{attest.ErrUnknownTPM, NotChecked, true},
		{attest.ErrNoCollateral, NotChecked, true},
		{errors.New("the signature is wrong"), Fails, true},
	} {
		var r Report
		err := tc.err
		if err != nil {
			err = fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err))
		}
		r.judge("chain", err, "good", time.Unix(0, 0))
		if got := r.Checks[0]; got.State != tc.state || got.needed != tc.needed || got.Detail == "" {
			t.Errorf("%v: %+v, want %v, needed %v", tc.err, got, tc.state, tc.needed)
		}
	}
}
