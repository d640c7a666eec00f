package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf tcpConnect tcpconnect.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Cells of a process in tcpconnect.bpf.c.
const (
	connectAttempts = iota
	connectFailures
	connectKinds

	connectRuns = slots * connectKinds
)

// TCPConnect counts connections that processes open, and those that fail.
var TCPConnect = &Program{
	Name:      "tcpconnect",
	load:      loadTcpConnect,
	processes: true,
	row:       connectRuns + 1,
	read:      []string{"counts", "names"},
	tell:      []string{"cache"},
	sized:     map[string]func(int) uint32{"cache": cacheEntries},
	hooks: []hook{{
		name: "sock:inet_sock_set_state",
		variants: []variant{
			{"set_state_btf", typed},
			{"set_state_raw", raw("inet_sock_set_state")},
		},
	}},
	events: func(_ *Counters, row counts) uint64 { return row.sum(connectRuns) },
	totals: func(c *Counters, sums []uint64) {
		for slot := range sums {
			for _, n := range c.counts().connects(slot) {
				sums[slot] += n
			}
		}
	},
	forget: func(c *Counters, gone map[int]bool) (events uint64, err error) {
		for slot := range gone {
			for i, n := range c.counts().connects(slot) {
				events += n
				c.counts().clear(slot*connectKinds + i)
			}
		}
		return events, c.forgetOpening(gone)
	},
}

// forgetOpening drops connections that are being opened by processes whose names
// lost their slots: they were for longer than the kernel tries by default.
func (c *Counters) forgetOpening(gone map[int]bool) error {
	var socket uint64
	var slot uint32
	var old []uint64
	all := c.shared["opening"].Iterate()
	for all.Next(&socket, &slot) {
		if gone[int(slot)] {
			old = append(old, socket)
		}
	}
	errs := []error{all.Err()}
	for _, socket := range old {
		if err := c.shared["opening"].Delete(socket); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget connections that are being opened: %w", err)
	}
	return nil
}

// connects are the cells of a slot.
func (c counts) connects(slot int) (n [connectKinds]uint64) {
	if slot < slots {
		for i := range n {
			n[i] = c.sum(slot*connectKinds + i)
		}
	}
	return n
}

// TCPConnect emits for each process the connections that it began to open and
// those that failed since the program was attached. It returns how many
// attempts were folded. Failures whose beginning was not seen are Other's.
func (c *Counters) TCPConnect(emit func(process string, attempts, failures uint64)) (folded uint64) {
	kernel.Lock()
	defer kernel.Unlock()
	cells, raw := c.counts(), c.maps["names"]
	var sum [slots][connectKinds]uint64
	c.Retired = c.retired
	for slot := range slots {
		n := cells.connects(slot)
		switch {
		case n == [connectKinds]uint64{}:
			continue
		case limbo(slot):
			c.Retired += n[connectAttempts] + n[connectFailures]
			continue
		case slot == otherSlot:
			folded = n[connectAttempts]
		}
		s := &sum[c.names.of(raw, slot)]
		for i := range s {
			s[i] += n[i]
		}
	}
	for slot, s := range sum {
		if s != [connectKinds]uint64{} {
			emit(c.names.label[slot], s[connectAttempts], s[connectFailures])
		}
	}
	return folded
}
