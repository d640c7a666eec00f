package sources

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	calls "github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/host/hosttest"
)

// failingCalls is how many calls of a reading fail in turn; TORTURE_CALLS is another number.
const failingCalls = 10

// TestFailingCalls lets the calls of each source to the kernel fail, one and from one on. There must be no panic, no descriptor that stays
// open, no series that is not there otherwise, and no zero in the place of another value.
func TestFailingCalls(t *testing.T) {
	most := failingCalls
	if n, err := strconv.Atoi(os.Getenv("TORTURE_CALLS")); err == nil {
		most = n
	}
	tried := 0
	for _, path := range fixtures(t) {
		s := sourceOf(path)
		if s == nil {
			continue
		}
		m := &mutant{source: s, fixture: hosttest.Open(t, path)}
		count := &calls.Fault{}
		m.failing(t, "the fixture", count)
		m.whole, _ = m.read(t, "the fixture")
		made := int(count.Calls())
		for i := range min(most, made) {
			at := int64(1 + i*made/min(most, made))
			for _, onward := range []bool{false, true} {
				f := &calls.Fault{At: at, Onward: onward, Err: []syscall.Errno{syscall.EIO, syscall.EMFILE, syscall.EACCES}[i%3]}
				before := descriptors(t)
				got := m.failing(t, fmt.Sprintf("%s: %v at call %d of %d, from then on: %v", label(path), f.Err, at, made, onward), f)
				if n := descriptors(t); n > before {
					t.Errorf("%s: %d descriptors more after %s failed", label(path), n-before, f.First())
				}
				for key, v := range got {
					if strings.Contains(key, "_total[") { // a counter counts from its first reading on
						continue
					}
					if was, ok := m.whole[key]; v == "0" && ok && was != "0" {
						t.Errorf("%s: %s is 0 instead of %s after %s failed (%v)", label(path), key, was, f.First(), f.Err)
					}
				}
				tried++
			}
		}
	}
	t.Logf("%d readings with calls that fail", tried)
	if tried < 500 {
		t.Errorf("only %d readings had calls that fail", tried)
	}
}

// failing is read while calls fail.
func (m *mutant) failing(t *testing.T, what string, f *calls.Fault) readings {
	t.Helper()
	end := calls.Inject(f)
	defer end()
	v, _ := m.read(t, what)
	return v
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(fds)
}
