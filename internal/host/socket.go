package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// SystemSockets is the folder for the sockets of services (file-hierarchy(7), /run).
const SystemSockets = "/run/teescope"

// SocketFolder returns the folder for this user's sockets: that of systemd (RUNTIME_DIRECTORY, systemd.exec(5)), root's, that
// of the user's session, or one for temporary files. MakeSocketFolder makes it.
func SocketFolder() string {
	service, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	own, ok := sessionFolder()
	switch {
	case filepath.IsAbs(service):
		return service
	case os.Geteuid() == 0:
		return SystemSockets
	case ok:
		return filepath.Join(own, "teescope")
	}
	return fmt.Sprintf("/tmp/teescope-%d", os.Geteuid())
}

// MakeSocketFolder makes the folder of SocketFolder: root's can be entered by all, another user's only by that user.
func MakeSocketFolder(name string) error {
	mode := os.FileMode(0o700)
	if name == SystemSockets {
		mode = 0o755
		if err := os.MkdirAll(filepath.Dir(name), mode); err != nil { // an image may lack /run
			return err
		}
	}
	if err := os.Mkdir(name, mode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return CheckSocketFolder(name)
}

// CheckSocketFolder refuses a folder that another user than root and this one could change.
func CheckSocketFolder(name string) error {
	// A link that another user has put into /tmp is not a folder.
	if uid, mode, ok := ownedBy(name); !ok || !mode.IsDir() || uid != os.Geteuid() && uid != 0 || mode.Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only this user or root can change; remove it", name)
	}
	return nil
}

// ListenSocket listens on a Unix socket that its owner and the group gid (-1: the process's own) can connect to. A socket that a
// dead process has left is replaced; one on which a process answers is refused, and so is any other file.
// Closing the listener removes the socket.
func ListenSocket(name string, gid int) (net.Listener, error) {
	if err := CheckSocketPath(name); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", name)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(name); err == nil {
			l, err = net.Listen("unix", name)
		}
	}
	if err != nil {
		return nil, err
	}
	if gid >= 0 {
		if err = os.Chown(name, -1, gid); err != nil {
			err = fmt.Errorf("give the socket to the group: %w; the process that listens must be root or in that group (with systemd: SupplementaryGroups=)", err)
		}
	}
	// Until here the mode is that of the umask; the peer's user is checked with each request.
	if err = errors.Join(err, os.Chmod(name, 0o660)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ErrSocketInUse means that a process answers on a Unix socket.
var ErrSocketInUse = errors.New("it is in use")

// removeStale removes a socket on which nobody listens.
func removeStale(name string) error {
	fi, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if fi.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and not a socket", name)
	}
	c, err := net.Dial("unix", name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSocketInUse, err)
	}
	defer c.Close()
	p, err := PeerOf(c)
	if err != nil {
		return errors.Join(ErrSocketInUse, err)
	}
	return fmt.Errorf("%w by process %d", ErrSocketInUse, p.PID)
}

// Peer is the process at the other end of a Unix socket, as it was when it connected (unix(7), SO_PEERCRED and SO_PEERGROUPS).
type Peer struct {
	PID, UID int
	Groups   []int // the primary one first
}
