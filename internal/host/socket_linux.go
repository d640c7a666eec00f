package host

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// PeerOf returns the peer of a Unix connection.
func PeerOf(c net.Conn) (Peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("%T is not a Unix connection", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var p Peer
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		p = Peer{PID: int(cred.Pid), UID: int(cred.Uid), Groups: []int{int(cred.Gid)}}
		for _, g := range peerGroups(fd) {
			if !slices.Contains(p.Groups, int(g)) {
				p.Groups = append(p.Groups, int(g))
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return Peer{}, fmt.Errorf("read the peer of the socket: %w", err)
	}
	return p, nil
}

// peerGroups returns the peer's supplementary groups, none before Linux 4.13.
func peerGroups(fd uintptr) []uint32 {
	groups := make([]uint32, 64)
	for range 2 {
		n := uint32(4 * len(groups))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&n)), 0)
		switch {
		case errno == unix.ERANGE: // n is the size that it needs
			groups = make([]uint32, n/4)
		case errno != 0:
			return nil
		default:
			return groups[:n/4]
		}
	}
	return nil
}
