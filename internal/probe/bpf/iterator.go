package bpf

// Programs that visit every thread (BPF task iterators): attaching them, running a visit before a reading, and refusing
// to run in a PID namespace where most threads are invisible.

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

// initPIDs is the name of the first PID namespace (PROC_PID_INIT_INO in the kernel's
// include/linux/proc_ns.h).
const initPIDs = "pid:[4026531836]"

// ownPIDs reports that the task iterator sees only the threads of this process's own PID namespace
// (kernel/bpf/task_iter.c), nil if it sees all.
func ownPIDs(h *host.Host) error {
	if ns, err := h.Readlink("/proc/self/ns/pid"); err == nil && ns != initPIDs {
		return &probe.Problem{Err: errors.New("visit the threads of the machine: this process has its own PID namespace and would see only the threads in it"),
			Remedy: "run it in the PID namespace of the machine (hostPID: true in Kubernetes, --pid=host for a container)"}
	}
	return nil
}

// iterator attaches a program that visits every thread.
func iterator(h *host.Host, p *ebpf.Program) (link.Link, error) {
	if err := ownPIDs(h); err != nil {
		return nil, err
	}
	return link.AttachIter(link.IterOptions{Program: p})
}

// Visit has the iterators among the programs run, which brings their counts up to now.
// Call it before reading; where there are none it does nothing.
func (c *Counters) Visit() error {
	l := c.links.Lock()
	defer c.links.Unlock()
	for i := range l.hooks {
		it, ok := l.hooks[i].link.(*link.Iter)
		if !ok {
			continue
		}
		now, err := sinceBoot()
		if err != nil {
			return err
		}
		l.visitedBefore, l.visited = l.visited, now
		c.refresh()
		r, err := it.Open()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return fmt.Errorf("visit the threads of the machine: %w", err)
		}
	}
	return nil
}

// refresh empties the cells that the next visit fills anew.
func (c *Counters) refresh() {
	if len(c.program.fresh) == 0 {
		return
	}
	cells := c.counts()
	for slot := range slots {
		for _, i := range c.program.fresh {
			cells.clear(slot*switchSlots.each + i)
		}
	}
}

// visitedBefore returns when the threads were visited before the last time, in nanoseconds since boot; 0 if never.
func (c *Counters) visitedBefore() uint64 {
	held := c.links.Lock()
	defer c.links.Unlock()
	return held.visitedBefore
}
