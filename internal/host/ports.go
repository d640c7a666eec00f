package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"

	"github.com/teescope/teescope/internal/locked"
)

// FreePorts are n TCP ports of the loopback, for servers that cannot choose one and tell it. Nothing listens on them.
// Until this process ends no other caller on this machine gets them, and the kernel gives them to nobody: they are
// outside the range from which it chooses (ip-sysctl.rst, ip_local_port_range).
func (h *Host) FreePorts(n int) ([]int, error) {
	text, _ := h.ReadString("/proc/sys/net/ipv4/ip_local_port_range") // without it the kernel's default
	first, last := portRange(text)
	var ports []int
	const tries = 10_000
	for range tries {
		if len(ports) == n {
			return ports, nil
		}
		port := first + rand.IntN(last-first+1)
		switch free, err := claim(port); {
		case err != nil:
			return nil, fmt.Errorf("find a free port: %w", err)
		case free:
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("find %d free ports: %d tries between %d and %d met ports in use; end what listens there", n, tries, first, last)
}

// portRange is a range of ports outside the kernel's own: below it, else above it, else any.
func portRange(kernels string) (first, last int) {
	const lowest, highest, enough = 10_000, 65_535, 1_000
	low, high := 32_768, 60_999
	if _, err := fmt.Sscan(kernels, &low, &high); err != nil {
		low, high = 32_768, 60_999
	}
	switch {
	case low-lowest >= enough:
		return lowest, low - 1
	case highest-high >= enough:
		return high + 1, highest
	}
	return lowest, highest
}

// portsHeld are the ports that this process holds, each by a socket whose name only one process has (unix(7), abstract).
var portsHeld locked.Value[[]net.Listener]

// claim takes a port, and reports whether it was free.
func claim(port int) (bool, error) {
	held, err := net.Listen("unix", fmt.Sprintf("@teescope-port-%d", port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		_ = held.Close()
		if errors.Is(err, syscall.EADDRINUSE) {
			return false, nil
		}
		return false, err
	}
	all := portsHeld.Lock()
	defer portsHeld.Unlock()
	*all = append(*all, held)
	return true, l.Close()
}
