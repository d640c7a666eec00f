package bpf

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/probe/probetest"
)

func TestTracers(t *testing.T) {
	openProgram(t, Syscalls, Limits{})
	openProgram(t, RunQueue, Limits{})
	got, err := Tracers()
	if errors.Is(err, unix.EPERM) {
		probetest.Skip(t, "", fmt.Errorf("needs CAP_SYS_ADMIN: %w", err))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sys_enter", "sched_switch"} {
		t.Run(want, func(t *testing.T) {
			if !slices.Contains(got, want) {
				t.Errorf("%v lacks %s, which is attached", got, want)
			}
		})
	}
}
