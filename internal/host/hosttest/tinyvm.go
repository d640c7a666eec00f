package hosttest

import (
	"encoding/binary"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
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
	kvmGetStatsFD    = 0xaece
	kvmExitIO        = 2
)

// TinyVM is a virtual machine with one CPU in real mode that executes cpuid and
// out for ever. Each out returns to this process.
type TinyVM struct {
	vm, vcpu int
	run      []byte
}

// NewTinyVM makes one, where /dev/kvm is usable, that ends with the test.
func NewTinyVM(t testing.TB) *TinyVM {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the guest is x86 code")
	}
	kvm, err := unix.Open("/dev/kvm", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("open /dev/kvm: %v; needs KVM", err)
	}
	defer unix.Close(kvm)
	v := &TinyVM{}
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

// Enter runs the CPU until it has written n times, and returns how often
// KVM_RUN returned for a signal instead.
func (v *TinyVM) Enter(t testing.TB, n int) (signals int) {
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

// Stats opens the binary statistics of the machine and of its CPU. They are
// closed with the test.
func (v *TinyVM) Stats(t testing.TB) {
	t.Helper()
	for _, fd := range []int{v.vm, v.vcpu} {
		own := ioctl(t, fd, kvmGetStatsFD, nil)
		t.Cleanup(func() { unix.Close(own) })
	}
}

func ioctl(t testing.TB, fd int, request uintptr, arg []byte) int {
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
