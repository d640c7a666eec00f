package sources

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/bpf"
)

// namedLock is a lock in a variable of this program.
var namedLock uint32

// TestLockNames names locks of this process: in a variable, and on the heap by the function that waits for it.
func TestLockNames(t *testing.T) {
	h := host.Local()
	n := lockNames{h}
	pid := os.Getpid()
	// This program is in no public folder, so its symbols do not show.
	variable, function := fmt.Sprintf("program+%#x", uintptr(unsafe.Pointer(&namedLock))), inFunction+"program+0x"
	name, err := n.name(pid, uint64(uintptr(unsafe.Pointer(&namedLock))))
	if err != nil || name != variable {
		t.Errorf("a variable: %q, %v; want %s", name, err, variable)
	}
	heap := new(uint32)
	*heap = 2
	at := uint64(uintptr(unsafe.Pointer(heap)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		waitOn(heap)
	}()
	await.Event(t, "a thread waits for the lock", func() error {
		name, err = n.name(pid, at)
		if err == nil && !strings.HasPrefix(name, inFunction) {
			err = os.ErrDeadlineExceeded
		}
		return err
	})
	if !strings.HasPrefix(name, function) { // the one that makes the call; of a program in C it is the one that takes the lock
		t.Errorf("on the heap: %q, want %s...", name, function)
	}
	*heap = 0
	for waiting := true; waiting; {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(heap)), 1, 1, 0, 0, 0)
		select {
		case <-done:
			waiting = false
		default:
			runtime.Gosched()
		}
	}
	if _, err := n.name(pid, 1); err == nil {
		t.Error("an address outside of the process has a name")
	}
}

// waitOn waits for a lock in the heap.
//
//go:noinline
func waitOn(word *uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), 0, 2, 0, 0, 0)
}

// TestFindArea reads what a part of memory is from a process's maps.
func TestFindArea(t *testing.T) {
	const maps = `00400000-00402000 r-xp 00000000 08:01 77 /usr/bin/shop
00404000-00405000 rw-p 00003000 08:01 77 /usr/bin/shop
00405000-00409000 rw-p 00000000 00:00 0 
00a00000-00a21000 rw-p 00000000 00:00 0 [heap]
nonsense
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f1000000000-7f1000001000 rw-s 00000000 00:01 9 /dev/shm/queue
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
`
	for address, want := range map[uint64]struct {
		kind      string
		file      uint64 // begin of the file's mapping; 0 without one
		anonymous bool
	}{
		0x404010: {"variables", 0x404000, false}, 0x405010: {"heap", 0x404000, true}, 0xa00010: {"heap", 0, false},
		0x7f0000000010: {"heap", 0, true}, 0x7f1000000010: {"shared memory", 0, false}, 0x7ffd00000010: {"stack", 0, false},
	} {
		a, ok := findArea([]byte(maps), address)
		file := uint64(0)
		if a.file != nil {
			file = a.file.Start
		}
		if !ok || a.kind != want.kind || file != want.file || a.anonymous != want.anonymous {
			t.Errorf("%#x: %+v, file at %#x, %t; want %+v", address, a, file, ok, want)
		}
	}
	for _, address := range []uint64{0, 0x402000, 0x7f1000001000, ^uint64(0)} {
		if a, ok := findArea([]byte(maps), address); ok {
			t.Errorf("%#x: %+v, want none", address, a)
		}
	}
}

// TestEndsInCall: the instructions are those that an assembler makes of the calls.
func TestEndsInCall(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		want bool
	}{
		"call rel32":                {"\x90\x90\x90\xe8\x01\x02\x03\x04", true},
		"call *%rax":                {"\x90\x90\x90\x90\x90\x90\xff\xd0", true},
		"call *(%rbx)":              {"\x90\x90\x90\x90\x90\x90\xff\x13", true},
		"call *8(%rbx)":             {"\x90\x90\x90\x90\x90\xff\x53\x08", true},
		"call *0x12345(%rip)":       {"\x90\x90\xff\x15\x45\x23\x01\x00", true},
		"call *8(%rsp)":             {"\x90\x90\x90\x90\xff\x54\x24\x08", true},
		"call *0x1000(%rax,%rcx,8)": {"\x90\xff\x94\xc8\x00\x10\x00\x00", true},
		"call *0x1000(,%rcx,8)":     {"\x90\xff\x14\xcd\x00\x10\x00\x00", true},
		"jmp *%rax":                 {"\x90\x90\x90\x90\x90\x90\xff\xe0", false},
		"push (%rbx)":               {"\x90\x90\x90\x90\x90\x90\xff\x33", false},
		"nops":                      {"\x90\x90\x90\x90\x90\x90\x90\x90", false},
		"nothing":                   {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endsInCall([]byte(c.code)); got != c.want {
				t.Errorf("%s: %t", name, got)
			}
		})
	}
}

// FuzzFindArea: no text of maps makes the parser panic.
func FuzzFindArea(f *testing.F) {
	f.Add([]byte("00404000-00405000 rw-p 00003000 08:01 77 /usr/bin/shop\n00405000-00409000 rw-p 00000000 00:00 0\n"), uint64(0x404000))
	f.Fuzz(func(t *testing.T, maps []byte, address uint64) {
		if a, ok := findArea(maps, address); ok && a.kind == "" {
			t.Errorf("%+v", a)
		}
	})
}

// TestShorten: a name keeps its begin and is bounded.
func TestShorten(t *testing.T) {
	long := strings.Repeat("std::vector<", 60)
	if got := shorten(long, longestLockName); got != long[:longestLockName]+"..." {
		t.Errorf("%q", got)
	}
	if got := shorten("ordersé", 7); got != "orders..." {
		t.Errorf("%q", got)
	}
	if got := shorten("orders", longestLockName); got != "orders" {
		t.Errorf("%q", got)
	}
}

// TestLockLabel: neither the name nor the symbols of a user's file show, and a label is bounded.
func TestLockLabel(t *testing.T) {
	s := bpf.Symbol{Name: "merger_with_acme", Plus: 8, Address: 0x5018}
	for name, want := range map[string]string{
		"/usr/bin/shop":                          "merger_with_acme+8",
		"/usr/lib/libshop.so.1":                  "merger_with_acme+8 (libshop.so.1)",
		"/home/ann/acme.so.1":                    "library+0x5018",
		"/home/ann/acme.sol":                     "library+0x5018",
		"/dev/shm/acme":                          "program+0x5018",
		"/usr/lib/" + strings.Repeat("x.so", 50): "merger_with_acme+8 (" + strings.Repeat("x.so", 12) + "...)",
	} {
		t.Run(name, func(t *testing.T) {
			in := symbolsIn{}
			in.file, in.private = fileInWords(name)
			if got := in.label(s); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
	}
	long := symbolsIn{file: "program"}.label(bpf.Symbol{Name: strings.Repeat("n", 500)})
	if len(long) != longestLockName+3 {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}
