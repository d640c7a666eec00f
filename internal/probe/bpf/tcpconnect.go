package bpf

//go:generate go tool bpf2go -cc clang -strip llvm-strip -target bpfel -go-package bpf tcpConnect tcpconnect.bpf.c -- -O2 -g -Wall -Werror -mcpu=v3

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
	sized:     map[string]func(int) uint32{"cache": cacheEntries},
	hooks: []hook{{
		name: "sock:inet_sock_set_state",
		variants: []variant{
			{"set_state_btf", typed},
			{"set_state_raw", raw("inet_sock_set_state")},
		},
	}},
	events: func(_ *Counters, row counts) uint64 { return row.sum(connectRuns) },
}

// TCPConnect emits for each process the connections that it began to open and
// those that failed since the program was attached. It returns how many
// attempts were folded. Failures whose beginning was not seen are Other's.
func (c *Counters) TCPConnect(emit func(process string, attempts, failures uint64)) (folded uint64) {
	cells, raw := c.counts(), c.maps["names"]
	var sum [slots][connectKinds]uint64
	for slot := range slots {
		attempts, failures := cells.sum(slot*connectKinds+connectAttempts), cells.sum(slot*connectKinds+connectFailures)
		if attempts+failures == 0 {
			continue
		}
		if slot == otherSlot {
			folded = attempts
		}
		s := &sum[c.names.of(raw, slot)]
		s[connectAttempts] += attempts
		s[connectFailures] += failures
	}
	for slot, s := range sum {
		if s[connectAttempts]+s[connectFailures] > 0 {
			emit(c.names.label[slot], s[connectAttempts], s[connectFailures])
		}
	}
	return folded
}
