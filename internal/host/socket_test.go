package host

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestListenSocket: the socket of a dead process is replaced, that of a living one and any other file are refused, and closing removes it.
func TestListenSocket(t *testing.T) {
	dir, err := Local().MkdirShort("socket", "x.sock", MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	name := filepath.Join(dir, "x.sock")
	dead, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false) // as after a kill
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := ListenSocket(name, -1)
	if err != nil {
		t.Fatalf("over the socket of a dead process: %v", err)
	}
	if fi, err := os.Lstat(name); err != nil || fi.Mode() != os.ModeSocket|0o660 {
		t.Errorf("%v %v, want a socket for owner and group", fi.Mode(), err)
	}
	if _, err := ListenSocket(name, -1); !errors.Is(err, ErrSocketInUse) || !strings.Contains(err.Error(), "by process") {
		t.Errorf("over the socket of a living process: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(name, -1); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("over a file: %v", err)
	}
	if b, err := os.ReadFile(name); string(b) != "mine" {
		t.Errorf("the file has %q: %v", b, err)
	}
	if _, err := ListenSocket(filepath.Join(dir, strings.Repeat("x", 108)), -1); err == nil || !strings.Contains(err.Error(), "at most 107") {
		t.Errorf("a long path: %v", err)
	}
}

// TestPeerOf: the peer of a connection is this process, with its groups.
func TestPeerOf(t *testing.T) {
	dir, err := Local().MkdirShort("peer", "x.sock", MostSocketPath)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := ListenSocket(filepath.Join(dir, "x.sock"), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	p, err := PeerOf(far)
	if err != nil || p.PID != os.Getpid() || p.UID != os.Geteuid() || p.Groups[0] != os.Getegid() {
		t.Errorf("%+v, %v", p, err)
	}
	groups, err := os.Getgroups()
	for _, g := range groups {
		if !slices.Contains(p.Groups, g) {
			t.Errorf("%v lacks group %d (%v)", p.Groups, g, err)
		}
	}
}

// TestSocketFolder: a folder of another user, or one that others can change, is refused.
func TestSocketFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	for range 2 { // the second time it is there
		if err := MakeSocketFolder(dir); err != nil {
			t.Fatal(err)
		}
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := MakeSocketFolder(dir); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a folder that all can change: %v", err)
	}
	link := dir + "-link"
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := MakeSocketFolder(link); err == nil {
		t.Error("a link is accepted")
	}
	t.Setenv("RUNTIME_DIRECTORY", "/run/a:/run/b")
	if got := SocketFolder(); got != "/run/a" {
		t.Errorf("with systemd: %s", got)
	}
}
