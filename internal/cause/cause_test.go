package cause

import (
	"strings"
	"testing"
)

func TestOfCall(t *testing.T) {
	for call, want := range map[string]*Cause{
		"clock_gettime": VDSOBypass, "futex": LockContention, "madvise": PageFaultStorm, "fdatasync": Logging,
		"getppid": SyscallStorm, "sched_yield": SyscallStorm, "read": nil, "epoll_wait": nil, "other": nil,
	} {
		if got := OfCall(call); got != want {
			t.Errorf("%s speaks for %+v, want %+v", call, got, want)
		}
	}
}

// TestWords holds what sentences that are put together from them rely on.
func TestWords(t *testing.T) {
	names := map[string]bool{}
	for _, c := range All {
		if c.Name == "" || names[c.Name] || Named(c.Name) != c {
			t.Errorf("%q: a name is one cause's", c.Name)
		}
		names[c.Name] = true
		if !strings.HasSuffix(c.Remedy, ".") {
			t.Errorf("%s: the remedy %q is no sentence", c.Name, c.Remedy)
		}
		if (c.What == "") != (c.Fix == "") || strings.HasSuffix(c.What, ".") || strings.HasSuffix(c.Fix, ".") {
			t.Errorf("%s: %q and %q are parts of one sentence", c.Name, c.What, c.Fix)
		}
	}
	if Named("") != nil {
		t.Error("no name has a cause")
	}
}
