package probetest

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// CPUs are the numbers of the CPUs on which this process may run, in order: a container or a benchmark's arm may leave
// it any.
func CPUs(t testing.TB) (all []string) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatalf("ask for the CPUs of this process: %v", err)
	}
	for cpu := range len(set) * strconv.IntSize {
		if set.IsSet(cpu) {
			all = append(all, strconv.Itoa(cpu))
		}
	}
	return all
}
