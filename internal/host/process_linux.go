package host

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup makes a command the leader of a process group, which the kernel tells when this program is killed.
var ownGroup = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}

// ownSession makes a command the leader of a session.
var ownSession = &syscall.SysProcAttr{Setsid: true}

// signalGroup sends a signal to the process group that a process leads.
func signalGroup(leader int, s syscall.Signal) error { return unix.Kill(-leader, s) }

// maxRSS is the largest resident set of a process that has ended, or of one of those it waited for, in bytes.
func maxRSS(s *os.ProcessState) int64 {
	if ru, ok := s.SysUsage().(*syscall.Rusage); ok {
		return ru.Maxrss << 10
	}
	return 0
}

// enlargePipe asks for a pipe of so many bytes.
func enlargePipe(fd uintptr, bytes int) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bytes) }
