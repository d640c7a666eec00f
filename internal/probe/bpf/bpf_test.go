package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe"
)

func TestNames(t *testing.T) {
	var raw []byte
	for _, s := range []string{"", "nginx", "a\nb\"c\\", "x\xff\xfe", "x\xfe\xff", "", "other", "fifteen-bytes-x", "nginx\x00rest"} {
		raw = append(raw, (s + strings.Repeat("\x00", commLen))[:commLen]...)
	}
	var n names
	for slot, want := range []struct {
		label string
		first int
	}{
		{"other", 0}, {"nginx", 1}, {"a\nb\"c\\", 2}, {"x\xff\xfe", 3}, {"x\xfe\xff", 4}, {"(unnamed)", 5}, {"other", 0}, {"fifteen-bytes-x", 7}, {"nginx", 1},
		{"(unnamed)", 5}, // beyond the written ones
	} {
		t.Run(want.label, func(t *testing.T) {
			for range 2 { // the second time from the cache
				if first := n.firstSlot(raw, slot); first != want.first || n.label[first] != want.label {
					t.Errorf("slot %d is %q of slot %d, want %q of slot %d", slot, n.label[first], first, want.label, want.first)
				}
			}
		})
	}
}

func TestSyscallNames(t *testing.T) {
	for nr, want := range map[int]string{-1: "unknown", nrUnknown: "unknown", 1 << 30: "unknown", nrCompat: "compat", numbers: "other", 509: "unknown_509"} {
		if got := SyscallName(nr); got != want {
			t.Errorf("system call %d is %q, want %q", nr, got, want)
		}
	}
	if got := SyscallName(unix.SYS_GETPPID); got != "getppid" {
		t.Errorf("getppid is called %q", got)
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct{ cpus, row, max, want int }{
		{2, pairs, defaultBytes, 2},
		{128, pairs, defaultBytes, 128},
		{129, pairs, defaultBytes, 128},
		{4096, pairs, defaultBytes, 128},
		{1000, slots * faultCells, defaultBytes, 64},
		{100, pairs, 1, 1},
	} {
		if got := rows(c.cpus, c.row, c.max); got != c.want {
			t.Errorf("%d CPUs with rows of %d cells in %d bytes share %d rows, want %d", c.cpus, c.row, c.max, got, c.want)
		}
	}
}

// Corrupt or short maps give numbers or nothing, never a panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{}, []byte{1}, []byte("redis"))
	f.Add(make([]byte, 8*pairs), slices.Repeat([]byte{1, 2, 0, 0, 0, 0, 0, 0}, pairs), []byte("redis"))
	f.Add(slices.Repeat([]byte{0xff}, 4099), slices.Repeat([]byte{0xff}, 8*pairs+3), slices.Repeat([]byte{0xff}, 999))
	f.Fuzz(func(t *testing.T, counts, keys, names []byte) {
		h := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: counts, "counts": counts, "keys": keys, "names": names, "times": counts, "timed_numbers": keys}, nil
		}}
		for _, p := range []*Program{Syscalls, Switches, RunQueue, Faults, PageCache} {
			c, err := p.Open(h)
			if err != nil {
				t.Fatal(err)
			}
			labelled := func(process string) {
				if process == "" {
					t.Error("a process without a label")
				}
			}
			own := func(c *Counters) {
				if err := (Table{c}).Narrow([]int{7}, func(int) (Member, bool) { return Member{Own: true, Name: "own"}, true }); err != nil {
					t.Error(err)
				}
			}
			switch p {
			case Syscalls:
				own(c)
				SyscallCounts{c}.ByProcess(func(process, syscall string, n uint64) { labelled(process) })
				SyscallCounts{c}.Own(func(pid int, process, syscall string, n uint64) { labelled(process) })
				SyscallCounts{c}.Times(func(syscall string, l *Latency) { labelled(syscall) })
			case Switches:
				own(c)
				SwitchCounts{c}.ByProcess(func(process string, _ Switched) { labelled(process) })
				SwitchCounts{c}.Own(func(_ int, process string, _ Switched) { labelled(process) })
			case RunQueue:
				QueueTimes{c}.Waits().Buckets()
			case Faults:
				own(c)
				FaultCounts{c}.ByProcess(func(process string, space, cause int, n uint64) { labelled(process + Spaces[space] + Causes[cause]) })
				FaultCounts{c}.Own(func(_ int, process string, space, cause int, n uint64) {
					labelled(process + Spaces[space] + Causes[cause])
				})
			case PageCache:
				PageCacheCounts{c}.Pages(func(operation int, n uint64) { labelled(Operations[operation]) })
			}
			c.Spent()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestMissingRecording(t *testing.T) {
	h := &host.Host{Maps: func(string) (map[string][]byte, error) {
		return map[string][]byte{runsMap: nil, "counts": nil, "names": nil}, nil
	}}
	if _, err := Syscalls.Open(h); err == nil || !strings.Contains(err.Error(), "keys") {
		t.Errorf("opened without the map keys: %v", err)
	}
	h.Maps = func(string) (map[string][]byte, error) { return nil, fs.ErrNotExist }
	if _, err := Syscalls.Open(h); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened without a recording: %v", err)
	}
}

func TestRefused(t *testing.T) {
	h := &host.Host{Root: t.TempDir()}
	verifier := &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"0: (b7) r0 = 0", "R1 invalid mem access 'scalar'", "processed 2 insns (limit 1000000)", ""}}
	for _, c := range []struct {
		err, is      error
		says, remedy string
	}{
		{verifier, unix.EACCES, "R1 invalid mem access 'scalar'", "kernel's version"},
		{errors.Join(unix.ENOENT, unix.EINVAL), unix.EINVAL, "no such file or directory; invalid argument", "kernel's version"},
		{unix.ENOMEM, unix.ENOMEM, "cannot allocate memory", "more memory"},
		{unix.EPERM, unix.EPERM, "operation not permitted", ""},
	} {
		t.Run(c.says, func(t *testing.T) {
			err := refused(h, "syscalls", fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", c.err)))
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || !errors.Is(err, c.is) {
				t.Errorf("%v: the error is %q", c.err, err)
			}
			if r := probe.Remedy(err); r == "" || !strings.Contains(r, c.remedy) {
				t.Errorf("%v: the advice is %q", c.err, r)
			}
		})
	}
	if err := noTypes(fs.ErrNotExist); !strings.Contains(probe.Remedy(err), "CONFIG_DEBUG_INFO_BTF") {
		t.Errorf("advice without BTF: %q", probe.Remedy(err))
	}
}
