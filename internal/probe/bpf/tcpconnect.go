package bpf

// The user-space side of tcpconnect.bpf.c: what to load, where to attach it, and how to read its counters. It counts
// connections that processes open, and those that fail.

//go:generate ./compile.sh tcpConnect tcpconnect.bpf.c

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
)

// TCPConnect counts connections that processes open, and those that fail.
var TCPConnect = &Program{
	Name: "tcpconnect",
	spec: spec{
		load: loadTcpConnect,
		hooks: []hook{{
			name: "sock:inet_sock_set_state",
			variants: []variant{
				{"set_state_btf", typed},
				{"set_state_raw", raw("inet_sock_set_state")},
			},
		}},
		sized: map[string]func(int) uint32{"cache": cacheEntries},
	},
	layout: layout{
		row:  slots * connectKinds,
		read: []string{"counts", "names"},
		tell: []string{"cache"},
	},
	filter: filter{
		slots: connectSlots,
	},
}

// connectTally also forgets the connections that are being opened.
type connectTally struct{ slotCells }

var connectSlots = connectTally{slotCells{each: connectKinds, events: connectKinds}}

func (t connectTally) forget(c *Counters, gone map[int]bool) (events uint64, err error) {
	events, _ = t.slotCells.forget(c, gone)
	return events, c.forgetOpening(gone)
}

// forgetOpening drops connections still being opened by processes whose names lost their slots:
// that takes longer than the kernel tries by default.
func (c *Counters) forgetOpening(gone map[int]bool) error {
	var socket uint64
	var slot uint32
	var old []uint64
	all := c.tables["opening"].Iterate()
	for all.Next(&socket, &slot) {
		if gone[int(slot)] {
			old = append(old, socket)
		}
	}
	errs := []error{all.Err()}
	for _, socket := range old {
		if err := c.tables["opening"].Delete(socket); !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("forget connections that are being opened: %w", err)
	}
	return nil
}

// ConnectCounts reads the counters of TCPConnect.
type ConnectCounts struct{ *Counters }

// ByProcess emits for each process the connections that it began to open and those that failed
// since the program was attached. It returns how many attempts were folded. Failures of
// connections whose beginning was not seen count for Other.
func (c ConnectCounts) ByProcess(emit func(process string, attempts, failures uint64)) (folded uint64) {
	return connectSlots.byName(c.Counters, func(process string, n []uint64) {
		emit(process, n[connectAttempts], n[connectFailures])
	})[connectAttempts]
}
