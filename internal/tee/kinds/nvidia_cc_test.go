package kinds

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
)

// TestHangingDriver: a driver that does not answer leaves the question open.
func TestHangingDriver(t *testing.T) {
	f := hosttest.Open(t, filepath.Join("testdata", "nvidia-cc-no-smi.txtar"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := (&clues{Host: f.Host}).confidentialCards(ctx)
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v: want could not tell", err)
	}
}
