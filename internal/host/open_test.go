package host

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// opens counts the opens of files (IN_OPEN, inotify(7)), to which those with O_PATH do not belong.
type opens struct {
	fd    int
	names map[int32]string
}

func watchOpens(t *testing.T) *opens {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return &opens{fd, map[int32]string{}}
}

func (o *opens) add(t *testing.T, path string) {
	t.Helper()
	wd, err := unix.InotifyAddWatch(o.fd, path, unix.IN_OPEN)
	if err != nil {
		t.Fatal(err)
	}
	o.names[int32(wd)] = path
}

// seen are the files that were opened since the last call.
func (o *opens) seen(t *testing.T) (out []string) {
	t.Helper()
	b := make([]byte, 1<<16)
	n, err := unix.Read(o.fd, b)
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	for b = b[:n]; len(b) > 0; b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):] {
		out = append(out, o.names[int32(binary.NativeEndian.Uint32(b))])
	}
	return out
}

// notRegular makes one of each kind of file that a path may lead to besides a regular one, with links to it. The FIFO has
// no writer: to open it would block.
func notRegular(t *testing.T) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(unix.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("folder"), 0o700), os.Symlink("/dev/zero", at("zero-link"))); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // a path of a socket has at most 107 bytes
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, name := range []string{"fifo", "folder", "socket"} {
		if err := os.Symlink(name, at(name+"-link")); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, at(name), at(name+"-link"))
	}
	return append(paths, "/dev/zero", at("zero-link"), "/proc/self/status")
}

// TestOnlyRegularFilesAreOpened: a device, a pipe, a socket, a folder, a file of procfs and links to them are never opened.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	paths := notRegular(t)
	o := watchOpens(t)
	for _, p := range paths {
		if strings.HasPrefix(p, "/") && !strings.Contains(p, "zero") && !strings.HasPrefix(p, "/proc/") { // others may open these
			o.add(t, p)
		}
	}
	h := Local()
	for _, p := range paths {
		f, _, err := OpenRegular(p)
		if f != nil {
			f.Close()
		}
		var pe *fs.PathError
		if !errors.Is(err, ErrNotRegular) || !errors.As(err, &pe) || pe.Path != p {
			t.Errorf("%s: %v", p, err)
		}
		if strings.HasPrefix(p, "/proc/") {
			continue
		}
		if _, err := h.ReadFile(p); !errors.Is(err, ErrNotRegular) {
			t.Errorf("read %s: %v", p, err)
		}
		if _, err := ReadRegular(p, 10); !errors.Is(err, ErrNotRegular) {
			t.Errorf("read %s: %v", p, err)
		}
	}
	if seen := o.seen(t); seen != nil {
		t.Errorf("opened: %q", seen)
	}
	// The watch sees an open: of the folder, which is the harmless one.
	if f, err := os.Open(paths[2]); err != nil || f.Close() != nil || len(o.seen(t)) == 0 {
		t.Errorf("the watch sees no open (%v)", err)
	}
}

// TestOpenRegular: a regular file is opened through links too, and what is opened is what was looked at.
func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(name, []byte("text"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	f, st, err := OpenRegular(link)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&(unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_PATH) != 0 || st.Size != 4 {
		t.Errorf("flags %#x, %d bytes, %v", flags, st.Size, err)
	}
	for _, limit := range []int64{4, 5} {
		if b, err := ReadRegular(link, limit); err != nil || string(b) != "text" {
			t.Errorf("at most %d bytes: %q, %v", limit, b, err)
		}
	}
	if _, err := ReadRegular(link, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("of a larger file: %v", err)
	}
	h := At(dir)
	if _, _, err := h.Open("/missing"); !errors.Is(err, fs.ErrNotExist) || err.Error() != "open /missing: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
}

// TestLeaseDoesNotBlock: the owner of a file with a lease can make each open(2) wait for lease-break-time, 45 s.
func TestLeaseDoesNotBlock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "leased")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETSIG, int(unix.SIGURG)); err != nil { // Go ignores it
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no leases here: %v", err)
	}
	if got, _, err := OpenRegular(name); !errors.Is(err, unix.EAGAIN) {
		got.Close()
		t.Errorf("a file with a lease: %v", err)
	}
}

// TestReadUpTo: neither a file of a disk nor one of the kernel is read beyond the limit.
func TestReadUpTo(t *testing.T) {
	h := Local()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := h.ReadUpTo(file, 5); string(b) != "12345" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, name := range []string{file, "/proc/self/maps"} {
		t.Run(name, func(t *testing.T) {
			if b, err := h.ReadUpTo(name, 4); err == nil || len(b) > 0 {
				t.Errorf("%s: %q, %v; want an error", name, b, err)
			}
		})
	}
}
