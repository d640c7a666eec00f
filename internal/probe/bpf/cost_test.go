package bpf

import (
	"testing"
	"weak"

	"github.com/cilium/ebpf/btf"

	"github.com/teescope/teescope/internal/host"
)

// BenchmarkOpen is what attaching everything costs, with the kernel's type
// information read anew.
func BenchmarkOpen(b *testing.B) {
	needKernel(b)
	for b.Loop() {
		for _, p := range []*Program{Syscalls, Switches, Faults, PageCache} {
			c, err := p.Open(host.Local())
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			defer c.Close()
			b.StartTimer()
		}
		kernel.types = weak.Pointer[btf.Cache]{}
	}
}
