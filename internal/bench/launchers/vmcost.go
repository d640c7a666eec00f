package launchers

import (
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// costs begins to measure what the machine costs this one. The returned function returns nil if that cannot be read.
func (v *vm) costs() func() *bench.Monitor {
	began := v.h.Now()
	before, err := v.cpu()
	return func() *bench.Monitor {
		after, err2 := v.cpu()
		if err != nil || err2 != nil {
			return nil
		}
		return &bench.Monitor{Elapsed: v.h.Now().Sub(began), CPU: after - before}
	}
}

// cpu returns the CPU time of QEMU and of its vhost threads.
func (v *vm) cpu() (time.Duration, error) {
	text, err := v.h.ReadString(path.Join(v.work, "pid"))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("QEMU's pid file: %w", err)
	}
	return monitorCPU(v.h, pid)
}

// monitorCPU returns the CPU time of a virtual machine monitor. Its vhost threads are its own from Linux 6.4 on; before, they
// are the kernel's, with its number in their name (vhost_dev_set_owner in drivers/vhost/vhost.c).
func monitorCPU(h *host.Host, pid int) (time.Duration, error) {
	of := func(file string) (float64, error) {
		text, err := h.ReadString(file)
		if err != nil {
			return 0, err
		}
		return machine.ProcessSeconds(file, text)
	}
	total, err := of(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	names, err := h.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if comm, err := h.ReadString(name); err != nil || comm != fmt.Sprintf("vhost-%d", pid) {
			continue // another process, or one that has ended
		}
		seconds, err := of(path.Join(path.Dir(name), "stat"))
		if err != nil {
			return 0, err
		}
		total += seconds
	}
	return time.Duration(total * float64(time.Second)), nil
}
