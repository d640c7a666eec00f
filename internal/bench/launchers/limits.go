package launchers

import (
	"time"

	"github.com/teescope/teescope/internal/host"
)

// The limits on what an environment may take. Tests stretch them all, see host.Patience.
var (
	// probeTime limits an empty run, and each command that only asks or cleans up: with a platform that the machine
	// cannot provide (kvm in some VMs), runsc hangs instead of failing.
	probeTime = host.Patience(10 * time.Second)
	kvmTrial  = host.Patience(20 * time.Second)
	// bootLimit is long: software emulation on a busy machine needs a minute.
	bootLimit = host.Patience(3 * time.Minute)
	// powerOff is the time for a guest to write its disk and power off.
	powerOff = host.Patience(15 * time.Second)
	// jobGrace is what a job that the agent runs has between SIGTERM and SIGKILL, to say what it counted.
	jobGrace = host.Patience(3 * time.Second)
	// cutGrace is above the three seconds that the agent gives jobs when the connection ends.
	cutGrace = host.Patience(6 * time.Second)
	// qmpPatience bounds one request; QEMU answers at once from its main loop.
	qmpPatience = host.Patience(20 * time.Second)
)
