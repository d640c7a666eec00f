package bpf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

//go:noinline
//go:nosplit
func enters() {}

//go:noinline
//go:nosplit
func leaves() {}

// Both ways to hook count the same, and functions hooked while the hooks are detached are
// attached with the others.
func TestUprobesAreExact(t *testing.T) {
	needKernel(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, multi := range []bool{true, false} {
		t.Run(fmt.Sprintf("multi %v", multi), func(t *testing.T) {
			u, err := openUprobes(local, multi)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := u.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			if u.multi && !multi {
				t.Error("uprobe.multi is in use")
			}
			if u.PID() != os.Getpid() {
				t.Logf("the kernel calls this process %d, it calls itself %d", u.PID(), os.Getpid())
			}
			t.Logf("a hit costs %.3g s", u.HitSeconds())
			hook := func(f func(), kind Transition) {
				x, err := OpenExecutable(local, exe, 0)
				if err != nil {
					t.Fatal(err)
				}
				offset, err := offsetOf(f)
				if err != nil {
					t.Fatal(err)
				}
				if err := u.Hook(x, []Place{{Offset: offset, Runtime: 2, Transition: kind}}); err != nil {
					t.Fatal(err)
				}
			}
			call := func(n int) {
				for range n {
					enters()
					leaves()
				}
			}
			want := func(entries, exits uint64) {
				t.Helper()
				var sum [transitions]uint64
				u.Transitions(func(_ string, runtime int, n [transitions]uint64) {
					if runtime != 2 {
						t.Errorf("runtime %d", runtime)
					}
					for i := range sum {
						sum[i] += n[i]
					}
				})
				if events, _ := u.Spent(); sum != [transitions]uint64{entries, exits} || events != float64(entries+exits) {
					t.Errorf("%v in %v events, want %d entries and %d exits", sum, events, entries, exits)
				}
			}
			hook(enters, Entry)
			hook(enters, Entry) // once only
			call(100)
			want(100, 0)
			if err := u.Detach(); err != nil {
				t.Fatal(err)
			}
			hook(leaves, Exit)
			call(10)
			want(100, 0)
			if err := u.Attach(); err != nil {
				t.Fatal(err)
			}
			call(7)
			want(107, 7)
			if err := u.Forget(func(*Executable) bool { return true }); err != nil {
				t.Fatal(err)
			}
			call(5)
			want(107, 7)
			if missed, err := u.Missed(); err != nil || missed != 0 {
				t.Errorf("%d missed (%v)", missed, err)
			}
		})
	}
}

// Places where a hook is allowed.
func TestPlaceOfAFunction(t *testing.T) {
	file := filepath.Join(t.TempDir(), "code")
	code := []byte{0x0f, 0x01, 0xd7, 0xc3, 0x65, 0xf0, 0x48, 0xff, 0x04, 0x25, 1, 0, 0, 0, 0x65, 0xc6, 0xc3, 0xc3}
	if err := os.WriteFile(file, code, 0o644); err != nil {
		t.Fatal(err)
	}
	x, err := OpenExecutable(local, file, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for offset, want := range map[uint64]struct {
		at uint64
		ok bool
	}{
		0:       {0, false}, // ENCLU
		3:       {3, true},
		4:       {14, true}, // lock incq %gs:
		14:      {14, true},
		17:      {0, false}, // too close to the end to know
		1 << 40: {0, false},
	} {
		if at, ok := x.Place(offset); at != want.at || ok != want.ok {
			t.Errorf("offset %d: a hook may be at %d, %v; want %d, %v", offset, at, ok, want.at, want.ok)
		}
	}
}

func FuzzFunctions(f *testing.F) {
	b, err := io.ReadAll(io.NewSectionReader(readObject(_UprobeBytes), 0, 1<<20))
	if err != nil {
		f.Fatal(err)
	}
	b[18] = 62 // EM_X86_64
	f.Add(b)
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	file := filepath.Join(f.TempDir(), "elf")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := OpenExecutable(local, file, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		offsets, _, err := x.Functions([]string{"SSL_do_handshake", "sgx_ecall", "count"})
		if err != nil {
			return
		}
		for _, at := range offsets {
			x.Place(at)
		}
	})
}
