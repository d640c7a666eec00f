package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// onInit returns a function that returns the number of events of tracepoints that happened,
// since onInit was called, while a CPU ran a thread of init. The kernels of some sandboxes,
// whose init is the sandbox's own agent, run no BPF program there: neither for init's own events
// nor for interrupts during that time, such as the completion of another process's request. The
// kernel's own tracer sees the latter.
func onInit(t *testing.T, tracepoints ...string) func() uint64 {
	t.Helper()
	const tracefs = "/sys/kernel/tracing"
	if ok, err := local.Exists(tracefs + "/instances"); err != nil || !ok {
		_ = local.Mount("tracefs", tracefs)
	}
	const ours = "teescope-test-"
	old, _ := filepath.Glob(tracefs + "/instances/" + ours + "*")
	for _, left := range old { // by tests that were killed
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(left), ours), "-")
		if _, err := os.Stat("/proc/" + pid); err != nil {
			_ = os.Remove(left)
		}
	}
	instance, err := os.MkdirTemp(tracefs+"/instances", fmt.Sprintf("%s%d-", ours, os.Getpid()))
	if err != nil {
		t.Logf("no tracer that sees what happens on init: %v", err)
		return func() uint64 { return 0 }
	}
	t.Cleanup(func() {
		if err := os.Remove(instance); err != nil {
			t.Error(err)
		}
	})
	for _, name := range tracepoints {
		if err := os.WriteFile(filepath.Join(instance, "events", name, "enable"), []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	thread := regexp.MustCompile(`-(\d+) +\[\d+\]`)
	return func() (n uint64) {
		trace, err := os.ReadFile(filepath.Join(instance, "trace"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(trace)) {
			if m := thread.FindStringSubmatch(line); m != nil {
				if _, err := os.Stat(fmt.Sprintf("/proc/1/task/%s", m[1])); err == nil {
					n++
				}
			}
		}
		return n
	}
}

// offInit runs a step, and repeats it if events of the tracepoints happened on init during the
// step; disturbed reports that to the step. The last attempt counts.
func offInit(t *testing.T, step func(disturbed func() bool), tracepoints ...string) {
	t.Helper()
	seen := onInit(t, tracepoints...)
	before := seen()
	for range 20 {
		step(func() bool { return seen() > before })
		now := seen()
		if now == before {
			return
		}
		t.Logf("%d events of %v on init", now-before, tracepoints)
		before = now
	}
	t.Log("none of 20 steps was without")
}
