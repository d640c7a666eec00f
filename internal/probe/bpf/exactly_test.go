package bpf

import (
	"runtime"
	"testing"
)

// passing is the number of events that two witnesses may not agree on, because each CPU may be between both at the
// beginning and at the end.
func passing() uint64 { return 2 * uint64(runtime.NumCPU()) }

// within reports whether got is want, or less by up to lost.
func within(got, want, lost uint64) bool { return got <= want && got+lost >= want }

// exactly complains unless got is want, but for the events that the kernel says it missed: since Linux 7.2 a task can be
// preempted in the program of a system call, which that CPU then does not run for others.
func exactly(t *testing.T, c *Counters, what string, got, want uint64) {
	t.Helper()
	missed, err := c.Missed()
	if err != nil {
		t.Fatal(err)
	}
	if !within(got, want, missed) {
		t.Errorf("%s: counted %d, missed %d of all processes, want %d in all", what, got, missed, want)
	}
}
