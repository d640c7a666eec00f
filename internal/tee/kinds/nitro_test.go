package kinds

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host/hosttest"
)

// TestNitroPoolUnread: an instance whose CPUs for enclaves cannot be read is not known to have some.
func TestNitroPoolUnread(t *testing.T) {
	f := hosttest.Open(t, "testdata/nitro-parent.txtar")
	f.Host.Faults = map[string]error{"/sys/module/nitro_enclaves/parameters/ne_cpus": syscall.EACCES}
	if facts, err := detectNitro(f.Host); err == nil || errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "ne_cpus") {
		t.Errorf("%+v, %v; want that it could not tell", facts, err)
	}
}
