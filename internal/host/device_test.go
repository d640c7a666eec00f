package host

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDial(t *testing.T) {
	dir, err := Local().MkdirShort("teescope-test", "s", MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = c.Write([]byte("hello"))
			c.Close()
		}
	}()
	c, err := At(filepath.Dir(socket)).Dial(t.Context(), "/s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if b, err := io.ReadAll(c); string(b) != "hello" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
}

func TestIoctl(t *testing.T) {
	h := Local()
	// The random device tells its entropy count: RNDGETENTCNT of linux/random.h.
	arg := []byte{0xff, 0xff, 0xff, 0xff}
	if err := h.Ioctl("/dev/random", 0x80045200, arg); err != nil || arg[3] != 0 {
		t.Errorf("entropy %x, %v", arg, err)
	}
	if err := h.Ioctl("/dev/null", 0x80045200, arg, Ref{0, nil}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an empty buffer: %v", err)
	}
	if err := h.Ioctl("/dev/null", 0x80045200, arg); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a device without that request: %v", err)
	}
	if err := h.Ioctl("/dev/none", 0x80045200, arg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
}

func TestBorrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("known"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := Local().Borrow(os.Getpid(), int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	got := make([]byte, 5)
	if _, err := b.ReadAt(got, 0); err != nil || string(got) != "known" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := Local().Borrow(os.Getpid(), 1<<20); !errors.Is(err, unix.EBADF) {
		t.Errorf("a file that is not open: %v", err)
	}
	if _, err := Local().Borrow(1<<30, 0); err == nil {
		t.Error("borrowed from no process")
	}
}
