package hosttest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

const archive = `A machine.
-- cpuid --
# leaf subleaf eax ebx ecx edx
7 0 1 2 ffffffff 4
-- msr --
0 c0010131 7
0 10 EIO
-- statfs --
/ 254:0 1048576 4096 100 50 40 10 5
/with\040space 0:30 512 0 1 1 1 1 1
/denied EACCES
-- now --
2030-01-01T00:00:00Z
-- dirs --
sys/empty
-- links --
proc/1/ns/net -> net:[5]
-- want --
anything
-- proc/meminfo --
MemTotal: 1 kB
-- exec/say/hello --
hello
-- exec/say/no.failed --
no
-- exec/say/nothing.hangs --
-- bpf/prog/counts --
0 5
3 18446744073709551615
-- bpf/prog/names.text --
1 redis
`

func open(t *testing.T) *Fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.txtar")
	if err := os.WriteFile(path, []byte(archive), 0o644); err != nil {
		t.Fatal(err)
	}
	return Open(t, path)
}

func TestOpen(t *testing.T) {
	f := open(t)
	h := f.Host
	if want := []string{"proc/meminfo", "exec/say/hello", "exec/say/no.failed", "exec/say/nothing.hangs", "bpf/prog/counts", "bpf/prog/names.text"}; !reflect.DeepEqual(f.Files, want) {
		t.Errorf("files %v", f.Files)
	}
	if f.Comment != "A machine.\n" || f.Meta["want"] != "anything\n" {
		t.Errorf("comment %q, want %q", f.Comment, f.Meta["want"])
	}
	if a, b, c, d := h.CPUID(7, 0); a != 1 || b != 2 || c != 0xffffffff || d != 4 {
		t.Errorf("CPUID 7: %x %x %x %x", a, b, c, d)
	}
	if a, b, c, d := h.CPUID(7, 1); a|b|c|d != 0 {
		t.Error("an unlisted leaf is not zero")
	}
	if v, err := h.MSR(0, 0xc0010131); v != 7 || err != nil {
		t.Errorf("MSR: %x, %v", v, err)
	}
	if _, err := h.MSR(0, 0x10); !errors.Is(err, unix.EIO) {
		t.Errorf("MSR with an error: %v", err)
	}
	if _, err := h.MSR(1, 0x10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unlisted MSR: %v", err)
	}
	if st, err := h.Statfs("/"); err != nil || st.Bsize != 1048576 || st.Frsize != 4096 || st.Ffree != 5 || st.Device != "254:0" {
		t.Errorf("statfs: %+v, %v", st, err)
	}
	if st, err := h.Statfs("/with space"); err != nil || st.Bsize != 512 {
		t.Errorf("statfs with a space: %+v, %v", st, err)
	}
	if _, err := h.Statfs("/denied"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("statfs with an error: %v", err)
	}
	if !h.Now().Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("now %v", h.Now())
	}
	if e, err := h.ReadDir("/sys/empty"); err != nil || len(e) != 0 {
		t.Errorf("empty folder: %v, %v", e, err)
	}
	if s, err := h.Readlink("/proc/1/ns/net"); err != nil || s != "net:[5]" {
		t.Errorf("link: %q, %v", s, err)
	}
	if h.IsLocal() {
		t.Error("a fixture takes itself for the real machine")
	}
	if _, err := h.Exec(t.Context(), host.Cmd{Argv: []string{"true"}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a command runs on a fixture: %v", err)
	}
	maps, err := h.Maps("prog")
	if err != nil {
		t.Fatal(err)
	}
	if b := maps["counts"]; len(b) != 32 || binary.NativeEndian.Uint64(b) != 5 || binary.NativeEndian.Uint64(b[24:]) != 1<<64-1 {
		t.Errorf("counts %v", b)
	}
	if b := maps["names"]; len(b) != 32 || string(b[16:21]) != "redis" || b[21] != 0 {
		t.Errorf("names %v", b)
	}
	if _, err := h.Maps("other"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("maps of an unrecorded program: %v", err)
	}
}

func TestCommands(t *testing.T) {
	f := open(t)
	say := func(ctx context.Context, word string) (string, error) {
		out, err := f.Host.Exec(ctx, host.Cmd{Argv: []string{"say", word}})
		return string(out.Stdout), err
	}
	if out, err := say(t.Context(), "hello"); out != "hello\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := say(t.Context(), "no"); out != "no\n" || err == nil {
		t.Errorf("a command that fails: %q, %v", out, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, err := say(ctx, "nothing"); out != "" || err == nil {
		t.Errorf("a command that hangs: %q, %v", out, err)
	}
	if _, err := say(t.Context(), "more"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unrecorded command: %v", err)
	}
	f.RemoveDuring(t, "exec/say/hello", func() {
		if _, err := say(t.Context(), "hello"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without the command: %v", err)
		}
	})
}

func TestWithout(t *testing.T) {
	f := open(t)
	there := func() (file, counts bool) {
		_, err := f.Host.ReadFile("/proc/meminfo")
		maps, merr := f.Host.Maps("prog")
		if merr != nil {
			t.Fatal(merr)
		}
		return err == nil, maps["counts"] != nil
	}
	f.RemoveDuring(t, "proc/meminfo", func() {
		if file, counts := there(); file || !counts {
			t.Errorf("without the file: file %v, map %v", file, counts)
		}
	})
	f.RemoveDuring(t, "bpf/prog/counts", func() {
		if file, counts := there(); !file || counts {
			t.Errorf("without the map: file %v, map %v", file, counts)
		}
	})
	if file, counts := there(); !file || !counts {
		t.Errorf("afterwards: file %v, map %v", file, counts)
	}
}

func TestDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txtar")
	text := `-- faults --
/run/talk2 EPERM
-- ioctl --
/dev/sev c0105300 0100 -> 0200 aabb
/dev/sev c0105300 0900 -> EIO
-- dev/sev --
-- run/talk --
hello
one
two
-- fd/7/3 --
00 ff
10
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h := Open(t, path).Host
	arg, buf := []byte{1, 0}, make([]byte, 2)
	if err := h.Ioctl("/dev/sev", 0xc0105300, arg, host.Ref{Data: buf}); err != nil || arg[0] != 2 || buf[1] != 0xbb {
		t.Errorf("ioctl: %x, %x, %v", arg, buf, err)
	}
	for _, c := range []struct {
		device string
		first  byte
		want   error
	}{{"/dev/sev", 9, unix.EIO}, {"/dev/sev", 5, unix.ENOTTY}, {"/dev/none", 1, fs.ErrNotExist}} {
		if err := h.Ioctl(c.device, 0xc0105300, []byte{c.first, 0}); !errors.Is(err, c.want) {
			t.Errorf("ioctl on %s with %d: %v, want %v", c.device, c.first, err, c.want)
		}
	}
	conn, err := h.Dial(t.Context(), "/run/talk")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for _, want := range []string{"hello", "one", "two"} {
		if !in.Scan() || in.Text() != want {
			t.Fatalf("the socket says %q (%v), want %q", in.Text(), in.Err(), want)
		}
		if _, err := conn.Write([]byte("next\n")); err != nil {
			t.Fatal(err)
		}
	}
	if in.Scan() {
		t.Errorf("the socket goes on with %q", in.Text())
	}
	if _, err := h.Dial(t.Context(), "/run/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unrecorded socket: %v", err)
	}
	if _, err := h.ReadFile("/run/talk2"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that may not be read: %v", err)
	}
	file, err := h.Borrow(7, 3)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 2)
	if _, err := file.ReadAt(b, 1); err != nil || b[0] != 0xff || b[1] != 0x10 {
		t.Errorf("borrowed file: %x, %v", b, err)
	}
	if _, err := h.Borrow(7, 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unrecorded file: %v", err)
	}
}
