package bpf

// The user-space side of sgx.bpf.c: what to load, where to attach it, and how to read its counters. It counts what the
// in-tree SGX driver does: enclaves, pages added, evicted and loaded back, faults.

//go:generate ./compile.sh sgx sgx.bpf.c

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// SGXEvent is something that the in-tree SGX driver did.
type SGXEvent int

// The events, in the order of sgx.bpf.c; those of a failed allocation are the reasons,
// those of reclaiming are batches of at most 16 pages.
const (
	SGXOpened SGXEvent = iota // enclave objects: each is released once, created or not
	SGXCreated
	SGXInitialized
	SGXRemoved
	SGXAdded
	SGXBusy // no free page where the caller may not reclaim: a fault that is retried
	SGXNoMemory
	SGXInterrupted
	SGXFailed
	SGXFreed
	SGXEvicted
	SGXMarkedOld
	SGXReclaimedBackground
	SGXReclaimedDirect
	SGXFaultsResolved // includes retries: the driver returns the same
	SGXFaultsFailed
	sgxEvents
)

// Counts by process, in the order of sgx.bpf.c.
const (
	sgxAllocatedBy = iota
	sgxLoadedBy
	sgxFaultsBy
	sgxBy
)

// Cells of sgx.bpf.c.
const (
	sgxFirstEvent        = slots * sgxBy
	sgxFaultTime         = sgxFirstEvent + int(sgxEvents)
	sgxReclaimBackground = sgxFaultTime + histCells
	sgxReclaimDirect     = sgxReclaimBackground + histCells
	sgxRow               = sgxReclaimDirect + histCells
)

// The hooked functions of the driver, and where to hook them. All are internal to the kernel, so
// any may be missing in some kernel.
var sgxFunctions = []struct {
	name        string
	entry, exit bool
}{
	{"sgx_open", false, true},
	{"sgx_encl_create", false, true},
	{"sgx_ioctl", true, true},
	{"sgx_encl_release", true, false},
	{"sgx_alloc_epc_page", false, true},
	{"sgx_free_epc_page", true, false},
	{"sgx_reclaim_pages", true, true},
	{"sgx_encl_ewb", true, false},
	{"sgx_encl_eldu", false, true},
	{"sgx_encl_test_and_clear_young", false, true},
	{"sgx_vma_fault", true, true},
}

// sgxFeeds names the hooks without which an event is not counted.
var sgxFeeds = [sgxEvents][]string{
	SGXOpened:              {"sgx_open exit", "sgx_encl_release entry"},
	SGXCreated:             {"sgx_encl_create exit"},
	SGXInitialized:         {"sgx_ioctl entry", "sgx_ioctl exit"},
	SGXRemoved:             {"sgx_encl_release entry"},
	SGXAdded:               {"sgx_ioctl entry", "sgx_ioctl exit", "sgx_alloc_epc_page exit"},
	SGXBusy:                {"sgx_alloc_epc_page exit"},
	SGXNoMemory:            {"sgx_alloc_epc_page exit"},
	SGXInterrupted:         {"sgx_alloc_epc_page exit"},
	SGXFailed:              {"sgx_alloc_epc_page exit"},
	SGXFreed:               {"sgx_free_epc_page entry"},
	SGXEvicted:             {"sgx_encl_ewb entry"},
	SGXMarkedOld:           {"sgx_encl_test_and_clear_young exit"},
	SGXReclaimedBackground: {"sgx_reclaim_pages exit"},
	SGXReclaimedDirect:     {"sgx_reclaim_pages exit"},
	SGXFaultsResolved:      {"sgx_vma_fault exit"},
	SGXFaultsFailed:        {"sgx_vma_fault exit"},
}

var sgxSlots = slotCells{each: sgxBy, events: sgxBy}

// SGX counts what the in-tree SGX driver does: enclaves, pages of the Enclave
// Page Cache, faults and reclaiming.
var SGX = sgxProgram("")

// sgxProgram is SGX at functions whose names have a prefix, which lets a test see the
// programs fire on a machine without SGX.
func sgxProgram(prefix string) *Program {
	p := &Program{
		Name: "sgx",
		spec: spec{
			load: func() (*ebpf.CollectionSpec, error) {
				spec, err := loadSgx()
				if err != nil {
					return nil, err
				}
				for _, s := range spec.Programs {
					s.AttachTo = prefix + s.AttachTo
				}
				// Several programs count into the same cells, and on a preemptible kernel
				// one may interrupt another: all additions are atomic.
				return spec, spec.Variables["banks_shared"].Set(uint8(1))
			},
			sized: map[string]func(int) uint32{"cache": func(cpus int) uint32 { return uint32(cpus * sgxBy * 64) }},
		},
		layout: layout{
			row:   sgxRow,
			read:  []string{"counts", "names"},
			tell:  []string{"cache"},
			reset: []string{"since"},
		},
		filter: filter{
			slots: sgxSlots,
		},
	}
	for _, f := range sgxFunctions {
		// Entries come first, so no exit finds a call whose beginning was not seen.
		if f.entry {
			p.hooks = append(p.hooks, hook{name: f.name + " entry", variants: []variant{
				{f.name + "_fentry", typed},
				{f.name + "_kprobe", atSymbol(prefix+f.name, link.Kprobe)},
			}})
		}
		if f.exit {
			p.hooks = append(p.hooks, hook{name: f.name + " exit", variants: []variant{
				{f.name + "_fexit", typed},
				{f.name + "_kretprobe", atSymbol(prefix+f.name, link.Kretprobe)},
			}})
		}
	}
	return p
}

// atSymbol attaches to a function, or to the only copy of it that the compiler made
// with fewer or constant arguments, named with a suffix.
func atSymbol(name string, attach func(string, *ebpf.Program, *link.KprobeOptions) (link.Link, error)) func(*host.Host, *ebpf.Program) (link.Link, error) {
	return func(h *host.Host, p *ebpf.Program) (link.Link, error) {
		l, err := attach(name, p, nil)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) {
			return l, err
		}
		found, serr := symbols(h, func(s string) bool {
			return strings.HasPrefix(s, name+".isra.") || strings.HasPrefix(s, name+".constprop.")
		})
		if serr != nil || len(found) != 1 {
			return nil, err
		}
		return attach(found[0].name, p, nil)
	}
}

// symbol is a line of /proc/kallsyms.
type symbol struct {
	name    string
	address uint64
}

// symbols returns the kernel's symbols whose names match, with address 0 if the kernel
// hides addresses from this process.
func symbols(h *host.Host, match func(string) bool) ([]symbol, error) {
	f, err := os.Open(h.Path("/proc/kallsyms"))
	if err != nil {
		return nil, fmt.Errorf("look up kernel symbols: %w", err)
	}
	defer f.Close()
	var out []symbol
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return nil, fmt.Errorf("read /proc/kallsyms: %w", err)
			}
			return out, nil
		}
		if s, ok := parseSymbol(lines.Text()); ok && match(s.name) {
			out = append(out, s)
		}
	}
}

// parseSymbol takes apart "ffffffff81000000 T _stext" and, of a module,
// "ffffffffc0a01000 t f	[module]".
func parseSymbol(line string) (s symbol, ok bool) {
	address, rest, _ := strings.Cut(line, " ")
	_, rest, ok = strings.Cut(rest, " ")
	s.name, _, _ = strings.Cut(rest, "\t")
	if !ok || s.name == "" {
		return s, false
	}
	for _, c := range []byte(address) {
		digit := strings.IndexByte("0123456789abcdef", c)
		if digit < 0 || s.address>>60 != 0 {
			return s, false
		}
		s.address = s.address<<4 | uint64(digit)
	}
	return s, true
}

// SGXCounts reads the counters of SGX.
type SGXCounts struct{ *Counters }

// Total is how often an event has happened since the programs were attached; ok is
// false if a hook that it needs is not live.
func (c SGXCounts) Total(e SGXEvent) (n uint64, ok bool) {
	for _, hook := range sgxFeeds[e] {
		if !c.has(hook) {
			return 0, false
		}
	}
	return c.counts().sum(sgxFirstEvent + int(e)), true
}

// ByProcess emits for each process that had any the EPC pages allocated for it, those
// loaded back, and its faults on enclave memory; a count that is not live is 0. It
// returns how many were folded.
func (c SGXCounts) ByProcess(emit func(process string, allocated, loaded, faults uint64)) (folded uint64) {
	return sumOf(sgxSlots.byName(c.Counters, func(process string, n []uint64) {
		emit(process, n[sgxAllocatedBy], n[sgxLoadedBy], n[sgxFaultsBy])
	}))
}

// SGXCount is what ByProcess counts.
type SGXCount string

// The counts by process, as the hook that counts each.
const (
	SGXPages  SGXCount = "sgx_alloc_epc_page exit"
	SGXLoads  SGXCount = "sgx_encl_eldu exit"
	SGXFaults SGXCount = "sgx_vma_fault exit"
)

// Live reports whether a count by process is counted.
func (c SGXCounts) Live(n SGXCount) bool { return c.has(string(n)) }

// Times returns how long faults on enclave memory took, and batches of reclaiming by
// the kernel's thread and by threads that wanted a page; nil if the hooks at either end
// are not live.
func (c SGXCounts) Times() (fault, background, direct *Latency) {
	cells := c.counts()
	read := func(function string, cell int) *Latency {
		if !c.has(function+" entry") || !c.has(function+" exit") {
			return nil
		}
		l := &Latency{}
		cells.addTo(l, cell)
		return l
	}
	return read("sgx_vma_fault", sgxFaultTime), read("sgx_reclaim_pages", sgxReclaimBackground), read("sgx_reclaim_pages", sgxReclaimDirect)
}

// Hooks says of each hook whether it could be attached.
func (c SGXCounts) Hooks(emit func(name string, live bool)) {
	for _, h := range c.program.hooks {
		emit(h.name, c.has(h.name))
	}
}
