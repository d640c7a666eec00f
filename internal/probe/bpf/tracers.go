package bpf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// costly are the tracepoints in the path of events whose cost is calibrated.
var costly = []string{"sys_enter", "sys_exit", "page_fault_user", "page_fault_kernel", "sched_switch", "sched_wakeup"}

// Tracers returns the tracepoints of system calls, page faults, switches and wake-ups on which
// BPF programs run now, of any owner: their time is part of the cost of such an event. It needs
// CAP_SYS_ADMIN, and sees neither kprobes nor tracers other than BPF programs.
func Tracers() ([]string, error) {
	var it link.Iterator
	defer it.Close()
	var out []string
	note := func(info *link.Info) {
		name := ""
		if raw := info.RawTracepoint(); raw != nil {
			name = raw.Name
		} else if event := info.PerfEvent(); event != nil && event.Tracepoint() != nil {
			name = event.Tracepoint().Tracepoint
		}
		if slices.Contains(costly, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for {
		for it.Next() {
			if info, err := it.Link.Info(); err == nil { // or it was closed in between
				note(info)
			}
		}
		if !errors.Is(it.Err(), unix.EAGAIN) {
			break
		}
		// A link that another process is just making: it comes after the last one, and does not count yet.
		it = link.Iterator{ID: it.ID + 1}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("list the BPF programs that are attached: %w", err)
	}
	slices.Sort(out)
	return out, nil
}
