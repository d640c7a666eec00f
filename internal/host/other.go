//go:build !linux

// On other systems the program is a client: it reads and writes files and runs commands, and what only Linux's kernel has is
// refused with errors.ErrUnsupported.

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// errLinux is what the parts of a host return that need Linux.
var errLinux = fmt.Errorf("it needs Linux: %w", errors.ErrUnsupported)

func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(f, path, limit)
}

// OpenRegular opens a regular file for reading, and returns it with its attributes. The error is a *fs.PathError.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	return f, fi, err
}

// Open is OpenRegular for a path of the machine.
func (h *Host) Open(name string) (*os.File, fs.FileInfo, error) {
	f, fi, err := OpenRegular(h.Path(name))
	return f, fi, h.errAt(err)
}

// ownedBy does not know the owner of a file.
func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

func ownedBy(string) (uid int, mode fs.FileMode, ok bool) { return 0, 0, false }

// statfs stands for what statfs(2) returns.
type statfs struct{ Frsize, Bsize int64 }

// ReadFilesystem needs Linux.
func ReadFilesystem(name string) (Filesystem, error) {
	return Filesystem{}, &fs.PathError{Op: opStatfs, Path: name, Err: errLinux}
}

func readMounted(name string) (string, error) {
	return "", &fs.PathError{Op: opMounted, Path: name, Err: errLinux}
}

const folderOnly = 0

func mount(string, string) error { return errLinux }

func ioctl(string, uint, []byte, ...Ref) error { return errLinux }

func borrow(int, int) (Borrowed, error) { return nil, errLinux }

func openPerf(PerfTarget, ...PerfEvent) (PerfGroup, error) { return nil, errLinux }

func threadCPU() time.Duration { return 0 }

func fileLimit() int { return 0 }

// PeerOf needs Linux.
func PeerOf(net.Conn) (Peer, error) { return Peer{}, errLinux }

// Commands lead no group and no session.
var ownGroup, ownSession *syscall.SysProcAttr

// signalGroup ends one process, whatever the signal.
func signalGroup(leader int, _ syscall.Signal) error {
	p, err := os.FindProcess(leader)
	if err != nil {
		return err
	}
	return p.Kill()
}

func maxRSS(*os.ProcessState) int64 { return 0 }

func enlargePipe(uintptr, int) {}

func readMemory(int, uint64, []byte) (int, error) { return 0, errLinux }
