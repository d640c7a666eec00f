package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// Requests of include/uapi/linux/kvm.h on x86.
const (
	kvmCreateVM      = 0xae01
	kvmVCPUMmapSize  = 0xae04
	kvmCreateVCPU    = 0xae41
	kvmSetUserMemory = 0x4020ae46
	kvmRun           = 0xae80
	kvmSetRegs       = 0x4090ae82
	kvmGetSregs      = 0x8138ae83
	kvmSetSregs      = 0x4138ae84
	kvmExitIO        = 2
)

// tinyVM is a virtual machine with one CPU in real mode that executes cpuid and
// out for ever. Each out returns to this process.
type tinyVM struct {
	vm, vcpu int
	run      []byte
}

// newTinyVM needs /dev/kvm: KVM in the kernel, or on a kernel in a software
// emulator with AMD's extensions (qemu -accel tcg -cpu max) the modules irqbypass,
// ccp, kvm and kvm-amd inserted in that order.
func newTinyVM(t *testing.T) *tinyVM {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the guest is x86 code")
	}
	kvm, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("open /dev/kvm: %v; needs KVM", err)
	}
	defer unix.Close(kvm)
	v := &tinyVM{}
	v.vm = ioctl(t, kvm, kvmCreateVM, nil)
	t.Cleanup(func() { unix.Close(v.vm) })
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	copy(memory, []byte{
		0x0f, 0xa2, // cpuid
		0xe6, 0x10, // out 0x10, al
		0xeb, 0xfa, // jmp to the first
	})
	const at = 0x1000
	region := make([]byte, 32)
	for i, x := range []uint64{0, at, uint64(len(memory)), uint64(uintptr(unsafe.Pointer(&memory[0])))} {
		binary.LittleEndian.PutUint64(region[i*8:], x)
	}
	ioctl(t, v.vm, kvmSetUserMemory, region)
	v.vcpu = ioctl(t, v.vm, kvmCreateVCPU, nil)
	t.Cleanup(func() { unix.Close(v.vcpu) })
	v.run, err = unix.Mmap(v.vcpu, 0, ioctl(t, kvm, kvmVCPUMmapSize, nil), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(v.run) })
	sregs := make([]byte, 0x138)
	ioctl(t, v.vcpu, kvmGetSregs, sregs)
	clear(sregs[:8])    // base of the code segment
	clear(sregs[12:14]) // its selector
	ioctl(t, v.vcpu, kvmSetSregs, sregs)
	regs := make([]byte, 0x90)
	binary.LittleEndian.PutUint64(regs[16*8:], at) // rip
	binary.LittleEndian.PutUint64(regs[17*8:], 2)  // flags
	ioctl(t, v.vcpu, kvmSetRegs, regs)
	return v
}

// enter runs the CPU until it has written n times, and returns how often
// KVM_RUN returned for a signal instead.
func (v *tinyVM) enter(t *testing.T, n int) (signals int) {
	t.Helper()
	for n > 0 {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(v.vcpu), kvmRun, 0)
		switch reason := binary.LittleEndian.Uint32(v.run[8:]); {
		case errno == unix.EINTR:
			signals++
		case errno != 0:
			t.Fatalf("KVM_RUN: %v", errno)
		case reason == kvmExitIO:
			n--
		default:
			t.Fatalf("KVM_RUN returned for reason %d, want %d (io)", reason, kvmExitIO)
		}
	}
	return signals
}

func ioctl(t *testing.T, fd int, request uintptr, arg []byte) int {
	t.Helper()
	var p unsafe.Pointer
	if arg != nil {
		p = unsafe.Pointer(&arg[0])
	}
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(p))
	if errno != 0 {
		t.Fatalf("ioctl %#x: %v", request, errno)
	}
	return int(r)
}

// localISA is the virtualisation of the CPU that runs the test.
func localISA() ISA {
	if _, ebx, _, _ := host.Local().CPUID(0, 0); ebx == 0x756e6547 { // Genu
		return VMX
	}
	return SVM
}

func always(VM) bool { return true }

// own is what was counted of this process.
func own(t *testing.T, m *VMs, alive func(VM) bool) (mine, ended Machine) {
	t.Helper()
	m.Machines(alive, func(x Machine) {
		switch {
		case x.PID == os.Getpid():
			mine = x
		case x.VM == EndedVMs:
			ended = x
		}
	})
	return mine, ended
}

// TestKVM runs a virtual machine whose exits are known. Returns to user space
// are counted everywhere; exits where the hardware, or an emulator of it, runs
// the guest. A KVM that emulates every instruction leaves that tracepoint silent.
func TestKVM(t *testing.T) {
	v := newTinyVM(t)
	c := openProgram(t, KVM(false, false, false), Limits{})
	times := openProgram(t, KVMTimes, Limits{})
	m, tm := NewVMs(c, localISA()), NewVMs(times, localISA())
	v.enter(t, 10) // faults of the first instructions
	was, _ := own(t, m, always)
	events := c.Events()
	const n = 500
	signals := v.enter(t, n)
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
	if exits == 0 {
		t.Log("kvm_exit is silent on this machine: its KVM runs guests without hardware")
	} else {
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

	// The process is taken for dead once: what it counted stays in the sum, and
	// it has a slot again with its next exit.
	_, ended := own(t, m, func(vm VM) bool { return vm.PID != os.Getpid() })
	if !maps.Equal(ended.Userspace, got.Userspace) {
		t.Errorf("the ended machine has %v, want what the living one had: %v", ended.Userspace, got.Userspace)
	}
	v.enter(t, 7)
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

// TestKVMHooks takes the hooks of confidential guests too: what this kernel
// lacks is said by name, and the others count.
func TestKVMHooks(t *testing.T) {
	needKernel(t)
	c, err := KVM(true, true, true).Open(host.Local())
	if err != nil {
		t.Skipf("no KVM hook: %v", err)
	}
	defer c.Close()
	if !c.has("kvm:kvm_userspace_exit") {
		t.Errorf("no hook for returns to user space: %v", c.Lost)
	}
	for _, name := range []string{"kvm:kvm_vmgexit_enter", "kvm:kvm_rmp_fault", "handle_tdvmcall", "kvm_gmem_get_pfn"} {
		t.Logf("hook %s: %v", name, c.has(name))
		if !c.has(name) && !strings.Contains(fmt.Sprint(c.Lost), "hook "+name) {
			t.Errorf("hook %s is neither live nor named in %v", name, c.Lost)
		}
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
		if got := exitReason(c.table, c.cell); got != c.want {
			t.Errorf("cell %d is %q, want %q", c.cell, got, c.want)
		}
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

// Any content of the maps gives machines or nothing.
func FuzzMachines(f *testing.F) {
	f.Add([]byte{}, []byte{1})
	key := binary.NativeEndian.AppendUint64(nil, 42<<32|7)
	f.Add(key, binary.NativeEndian.AppendUint64(make([]byte, 8*kvmCells*4), 9))
	f.Fuzz(func(t *testing.T, keys, counts []byte) {
		h := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{"counts": slices.Clone(counts), "vms": slices.Clone(keys)}, nil
		}}
		for _, p := range []*Program{KVM(true, true, true), KVMTimes} {
			c, err := p.Open(h)
			if err != nil {
				t.Fatal(err)
			}
			m := NewVMs(c, SVM)
			for _, alive := range []bool{true, false, true} {
				m.Machines(func(VM) bool { return alive }, func(Machine) {})
			}
			m = NewVMs(c, ARM)
			m.Times(always, func(VM, int, *Latency) {})
			if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
				t.Fatal(err)
			}
		}
	})
}
