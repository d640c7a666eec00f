package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/host/hosttest"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// localISA returns the virtualisation of the CPU that runs the test.
func localISA() ISA {
	if _, ebx, _, _ := local.CPUID(0, 0); ebx == 0x756e6547 { // Genu
		return VMX
	}
	return SVM
}

func always(VM) (bool, string) { return true, "" }

// own returns the counts of this process.
func own(t *testing.T, m *VMs, alive Alive) (mine, ended Machine) {
	t.Helper()
	m.Machines(alive, func(x Machine) {
		switch {
		case x.PID == os.Getpid():
			mine = x
		case x.Ended == "mine":
			ended = x
		}
	})
	return mine, ended
}

// TestKVM runs a virtual machine whose exits are known. Returns to user space are counted
// everywhere; exits only if the hardware, or an emulator of it, runs the guest. A KVM that
// emulates every instruction never fires that tracepoint.
//
// Under software emulation (qemu -accel tcg -cpu max) it runs with the modules irqbypass, ccp
// (if the kernel has it), kvm and kvm-amd, inserted in this order.
func TestKVM(t *testing.T) {
	v := hosttest.NewTinyVM(t)
	c := openProgram(t, KVM(false, false, false), Limits{})
	times := openProgram(t, KVMTimes, Limits{})
	m, tm := NewVMs(c, localISA()), NewVMs(times, localISA())
	v.Enter(t, 10) // faults of the first instructions
	was, _ := own(t, m, always)
	events := c.Events()
	const n = 500
	signals := v.Enter(t, n)
	got, _ := own(t, m, always)

	if io := got.Userspace["io"] - was.Userspace["io"]; io != n {
		t.Errorf("%d returns to user space for I/O were counted, want %d (%v)", io, n, got.Userspace)
	}
	if s := got.Userspace["signal"] - was.Userspace["signal"]; int(s) != signals {
		t.Errorf("%d returns for signals were counted, want %d", s, signals)
	}
	if got.Start != startTicks(t) {
		t.Errorf("the process started at tick %d by its key, %d by /proc", got.Start, startTicks(t))
	}
	t.Logf("exits %v, user space %v", got.Exits, got.Userspace)
	var exits uint64
	for _, n := range got.Exits {
		exits += n
	}
	switch {
	case exits == 0:
		t.Log("kvm_exit is silent on this machine: its KVM runs guests without hardware")
	case got.Exits[NotTold] > 0:
		t.Log("the reasons of exits are closed: tracefs cannot be read")
		if d := got.Exits[NotTold] - was.Exits[NotTold]; d < 2*n || d != exits-was.Exits[NotTold] {
			t.Errorf("%d exits were counted, want at least %d and all without a reason (%v)", d, 2*n, got.Exits)
		}
	default:
		io := map[ISA]string{VMX: "io_instruction", SVM: "io"}[localISA()]
		for _, reason := range []string{"cpuid", io} {
			if d := got.Exits[reason] - was.Exits[reason]; d != n {
				t.Errorf("%d exits for %s were counted, want %d (%v)", d, reason, n, got.Exits)
			}
		}
		found := map[int]uint64{}
		tm.Times(always, func(vm VM, kind int, l *Latency) {
			if vm.PID == os.Getpid() {
				found[kind] = l.Count()
			}
		})
		// The last exit has no entry after it.
		if found[1] < n-1 || found[0] < n-1 {
			t.Errorf("%v times out of the guest by %v, want at least %d of the first two each", found, Handled, n-1)
		}
	}
	if d := c.Events() - events; d < n {
		t.Errorf("%d runs of the programs, want at least %d", d, n)
	}

	// The process counts as ended once: its counts stay in the sum, and its next exit gives it a
	// slot again.
	_, ended := own(t, m, func(vm VM) (bool, string) { return vm.PID != os.Getpid(), "mine" })
	if !maps.Equal(ended.Userspace, got.Userspace) {
		t.Errorf("the ended machine has %v, want what the living one had: %v", ended.Userspace, got.Userspace)
	}
	v.Enter(t, 7)
	again, ended := own(t, m, always)
	if again.Userspace["io"] != 7 || ended.Userspace["io"] != got.Userspace["io"] {
		t.Errorf("after its slot was given back the machine has %d and the ended have %d returns for I/O, want 7 and %d", again.Userspace["io"], ended.Userspace["io"], got.Userspace["io"])
	}
}

// startTicks is field 22 of /proc/self/stat.
func startTicks(t *testing.T) uint32 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	n, err := strconv.ParseUint(strings.Fields(rest)[19], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// TestKVMHooks also opens the hooks of confidential guests: those that this kernel lacks are
// named, and the others count.
func TestKVMHooks(t *testing.T) {
	needKernel(t)
	c, err := KVM(true, true, true).Open(local)
	if err != nil {
		probetest.Skip(t, "", fmt.Errorf("no KVM hook: %w", err))
	}
	defer c.Close()
	if !c.has("kvm:kvm_userspace_exit") {
		t.Errorf("no hook for returns to user space: %v", c.Lost)
	}
	for _, name := range []string{"kvm:kvm_vmgexit_enter", "kvm:kvm_rmp_fault", "handle_tdvmcall", "kvm_gmem_get_pfn"} {
		t.Run(name, func(t *testing.T) {
			t.Logf("hook %s: %v", name, c.has(name))
			if !c.has(name) && !strings.Contains(fmt.Sprint(c.Lost), "hook "+name) {
				t.Errorf("hook %s is neither live nor named in %v", name, c.Lost)
			}
		})
	}
}

func TestReasons(t *testing.T) {
	for _, c := range []struct {
		table []string
		cell  int
		want  string
	}{
		{vmxReasons[:], 77, "tdcall"}, {vmxReasons[:], 200, "unknown_200"}, {vmxReasons[:], exitUntold, "not_told"}, {svmReasons[:], exitUntold - 1, "unknown"},
		{svmReasons[:], 0x72, "cpuid"}, {svmReasons[:], 0xc3, "vmgexit"}, {svmReasons[:], 0xc8 + 0x10, "page_state_change"}, {armReasons[:], 1, "wfx"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if got := exitReason(c.table, c.cell); got != c.want {
				t.Errorf("cell %d is %q, want %q", c.cell, got, c.want)
			}
		})
	}
	for _, table := range [][]string{vmxReasons[:], svmReasons[:], armReasons[:], userReasons[:], tdvmcalls[:]} {
		names := slices.DeleteFunc(slices.Clone(table), func(s string) bool { return s == "" })
		slices.Sort(names)
		if n := len(names); len(slices.Compact(names)) != n {
			t.Errorf("a name stands for two reasons in %q", table)
		}
		if len(table) > exitUntold-1 {
			t.Errorf("a table of %d reasons reaches the cells beyond it", len(table))
		}
	}
}

// Any content of the maps gives machines or nothing, never a panic.
func FuzzMachines(f *testing.F) {
	f.Add([]byte{}, []byte{1})
	key := binary.NativeEndian.AppendUint64(nil, 42<<32|7)
	f.Add(key, binary.NativeEndian.AppendUint64(make([]byte, 8*kvmCells*4), 9))
	f.Fuzz(func(t *testing.T, keys, counts []byte) {
		h := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: slices.Clone(counts), "counts": slices.Clone(counts), "vms": slices.Clone(keys)}, nil
		}}
		for _, p := range []*Program{KVM(true, true, true), KVMTimes} {
			c, err := p.Open(h)
			if err != nil {
				t.Fatal(err)
			}
			m := NewVMs(c, SVM)
			for _, alive := range []bool{true, false, true} {
				m.Machines(func(VM) (bool, string) { return alive, "k" }, func(Machine) {})
			}
			m = NewVMs(c, ARM)
			m.Times(always, func(VM, int, *Latency) {})
			if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Fatal(err)
			}
		}
	})
}
