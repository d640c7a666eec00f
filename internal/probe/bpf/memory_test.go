package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/teescope/teescope/internal/host"
)

// byCPUs are the programs whose memory docs/lab/performance.md lists.
func byCPUs() []*Program {
	never := func(*host.Host, *ebpf.Program) (link.Link, error) { panic("not opened here") }
	return []*Program{
		Syscalls, Switches, RunQueue, Faults, samplesProgram(SamplePeriod, never),
		tlsProgram(func(bool) func(*host.Host, *ebpf.Program) (link.Link, error) { return never }),
		PageCache, Block, TCP, TCPConnect, SGX, KVM(true, true, true), KVMTimes, Bounce,
	}
}

// mapped returns the bytes of the maps that a program's reader maps into its memory, which are resident from the start, on
// a machine with so many CPUs.
func mapped(t *testing.T, p *Program, cpus int) (n int) {
	t.Helper()
	spec, err := p.load()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.size(spec, Limits{}, cpus); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(p.reads(), p.write, p.tell, p.reset) {
		m := spec.Maps[name]
		if m == nil {
			t.Fatalf("%s has no map %s", p.Name, name)
		}
		n += int(m.MaxEntries) * int(m.ValueSize)
	}
	return n
}

// TestMemoryByCPUs: the memory that a program adds to the process is a fixed part and one for each CPU, up to a number of
// CPUs from which on they share rows. The table in the documents is what the maps are made with.
func TestMemoryByCPUs(t *testing.T) {
	var table strings.Builder
	fixed, each := 0, 0
	for _, p := range byCPUs() {
		one, two := mapped(t, p, 1), mapped(t, p, 2)
		perCPU := two - one
		most := "any number"
		if !p.rare {
			last := defaultBytes / (p.row * 8) // of CPUs with a row of their own
			most = fmt.Sprint(last)
			if got, want := mapped(t, p, last), one+(last-1)*perCPU; got != want {
				t.Errorf("%s maps %d bytes on %d CPUs, want %d", p.Name, got, last, want)
			}
			shared := rows(16*last, p.row, defaultBytes)
			if got, want := mapped(t, p, 16*last), one+(shared-1)*banked(p)+(16*last-1)*(perCPU-banked(p)); got != want {
				t.Errorf("%s maps %d bytes on %d CPUs that share %d rows, want %d", p.Name, got, 16*last, shared, want)
			}
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", p.Name, kib(one-perCPU), kib(perCPU), most)
		fixed, each = fixed+one-perCPU, each+perCPU
	}
	fmt.Fprintf(&table, "| all | %s | %s | |\n", kib(fixed), kib(each))
	t.Run("docs", func(t *testing.T) {
		docs, err := os.ReadFile("../../../docs/lab/performance.md")
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("the test runs without the repository")
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(docs), table.String()) {
			t.Errorf("docs/lab/performance.md lacks this table, or has another:\n%s", table.String())
		}
	})
}

// banked returns the bytes of a CPU's rows.
func banked(p *Program) int {
	n := p.row
	for _, row := range p.more {
		n += row
	}
	return n * 8
}

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }
