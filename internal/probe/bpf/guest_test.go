package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// needFunction skips the test if the kernel lacks a function, or does not allow tracing it.
func needFunction(t *testing.T, function string) {
	t.Helper()
	needKernel(t)
	symbols, err := kallsyms()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(symbols, " "+function+"\n") {
		t.Skipf("this kernel has no function %s", function)
	}
	if functions, err := traceable(); err != nil {
		probetest.Skip(t, "", fmt.Errorf("this kernel's functions cannot be traced: %w", err))
	} else if !strings.Contains("\n"+functions, "\n"+function+"\n") {
		t.Skipf("this kernel does not let %s be traced", function)
	}
}

var (
	kallsyms  = onceRead("/proc/kallsyms")
	traceable = onceRead("/sys/kernel/tracing/available_filter_functions")
)

func onceRead(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		b, err := os.ReadFile(name)
		return string(b), err
	})
}

// Every variant of a hook whose function the kernel has must attach, not only the first: each is
// for kernels that lack the earlier ones.
func TestGuestFunctionsAttach(t *testing.T) {
	for _, p := range []*Program{GuestMemory(true), GuestExits(false), GuestReports(TDReport), Bounce} {
		spec, err := p.load()
		if err != nil {
			t.Fatal(err)
		}
		for _, hk := range p.hooks {
			for _, v := range hk.variants {
				function := spec.Programs[v.program].AttachTo
				if strings.HasSuffix(v.program, "_btf") || strings.HasSuffix(v.program, "_raw") || strings.HasSuffix(v.program, "_nameless") {
					continue
				}
				t.Run(v.program, func(t *testing.T) {
					needFunction(t, function)
					one := *p
					one.hooks = []hook{{name: hk.name, variants: []variant{v}}}
					c, err := one.Open(local)
					if function == hookFull && errors.Is(err, ebpf.ErrNotSupported) {
						probetest.Skip(t, "", fmt.Errorf("this kernel's %s has more arguments than can be traced: %w", function, err))
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := errors.Join(c.Detach(), c.Attach(), c.Close()); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// The programs count the calls of a kernel module (e2e/kernels/ccguest): the functions of
// conversions, which do nothing outside a confidential VM, and stand-ins for attestation
// drivers.
func TestGuestFunctionsFire(t *testing.T) {
	const module = "/sys/module/ccguest"
	if _, err := os.Stat(module); err != nil {
		probetest.Skip(t, "ccguest", err)
	}
	const n = 25
	trigger := func(t *testing.T) {
		if err := os.WriteFile(module+"/parameters/trigger", []byte(strconv.Itoa(n)), 0o200); err != nil {
			t.Fatal(err)
		}
	}
	for _, kprobes := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory kprobes=%v", kprobes), func(t *testing.T) {
			p := GuestMemory(false)
			for i := range p.hooks {
				at := 0
				if kprobes {
					at = 1
				}
				p.hooks[i].variants = p.hooks[i].variants[at : at+1]
			}
			c := openProgram(t, p, Limits{})
			if c.Lost != nil {
				t.Fatal(c.Lost)
			}
			trigger(t)
			for _, s := range []Span{(GuestMemoryCounts{c}).ToShared(), (GuestMemoryCounts{c}).ToPrivate()} {
				if s.Calls != n || s.Units != 2*n || s.Failed != 0 || s.Time.Count() != n || s.Time.Sum() <= 0 {
					t.Errorf("%d calls with %d pages, %d failed, %d timed, want %d, %d, 0 and %d", s.Calls, s.Units, s.Failed, s.Time.Count(), n, 2*n, n)
				}
			}
			if got := c.Events(); got != 4*n {
				t.Errorf("%d runs of the programs, want %d", got, 4*n)
			}
		})
	}
	t.Run("reports", func(t *testing.T) {
		if _, err := os.Stat("/sys/kernel/btf/ccguest"); err != nil {
			probetest.Skip(t, "types of ccguest", err)
		}
		c := openProgram(t, GuestReports(TDXQuote, SEVReport, CCAToken), Limits{})
		if c.Lost != nil {
			t.Fatal(c.Lost)
		}
		trigger(t)
		for r, failed := range map[Report]uint64{TDXQuote: 0, SEVReport: 0, CCAToken: n} {
			if s := (GuestReportCounts{c}).Report(r); s.Calls != n || s.Failed != failed || s.Time.Count() != n {
				t.Errorf("%s: %d calls, %d failed, %d timed, want %d, %d and %d", Reports[r], s.Calls, s.Failed, s.Time.Count(), n, failed, n)
			}
		}
	})
}

// Kernels with the tracepoints of some vendors are unavailable: only the verifier can check the
// programs for them.
func TestVendorTracepointsLoad(t *testing.T) {
	needKernel(t)
	spec, err := loadGuestExits()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ve_raw", "hypercall_raw"} {
		t.Run(name, func(t *testing.T) {
			only := spec.Copy()
			only.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
			coll, err := ebpf.NewCollection(only)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			coll.Close()
		})
	}
}

// recorded opens a program on cells with the given values.
func recorded(t *testing.T, p *Program, values map[int]uint64) *Counters {
	t.Helper()
	b := make([]byte, 8*p.row)
	for i, v := range values {
		binary.NativeEndian.PutUint64(b[8*i:], v)
	}
	ran := make([]byte, 2*8*runsRow) // of two CPUs
	for i, n := range map[int]uint64{0: 6, 1: 7, nextCell: 1 << 40, runsRow: 2, runsRow + mostCell: unlimited, runsRow + timedCell: 1} {
		binary.NativeEndian.PutUint64(ran[8*i:], n)
	}
	c, err := p.Open(&host.Host{Maps: func(string) (map[string][]byte, error) { return map[string][]byte{runsMap: ran, "counts": b}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGuestDecode(t *testing.T) {
	c := recorded(t, GuestMemory(true), map[int]uint64{
		spanCalls: 3, spanUnits: 1536, spanDone: 3, spanFailed: 1, spanHist + 10: 3, spanHist + histSum: 3000,
		spanCells + spanCalls: 2, 2*spanCells + spanDone: 7,
	})
	s := GuestMemoryCounts{c}.ToShared()
	if s.Calls != 3 || s.Units != 1536 || s.Failed != 1 || s.Time.Count() != 3 || s.Time.Sum() != 3e-6 || !s.Begun || !s.Ended {
		t.Errorf("to shared: %+v", s)
	}
	if s := (GuestMemoryCounts{c}).ToPrivate(); s.Calls != 2 || s.Units != 0 || (GuestMemoryCounts{c}).Accepted().Calls != 0 {
		t.Errorf("to private: %+v", s)
	}
	if n := c.Events(); n != 6+7+2 {
		t.Errorf("%d runs of the programs, want 15", n)
	}

	c = recorded(t, GuestExits(true), map[int]uint64{10: 5, 95: 1, guestHypercalls + 12: 7, guestHypercalls + exitReasons + 2: 9})
	got := map[int]uint64{}
	count := func(i int, n uint64) { got[i] += n }
	GuestExitCounts{c}.Exceptions(count)
	GuestExitCounts{c}.Hypercalls(func(i int, n uint64) { count(i+1000, n) }, count)
	for i, want := range map[int]uint64{10: 5, 95: 1, 1012: 7, 0x10002: 9} {
		if got[i] != want {
			t.Errorf("reason %#x: %d, want %d", i, got[i], want)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}

	// Short maps give less, never a panic.
	for _, p := range []*Program{GuestMemory(true), GuestExits(true), GuestReports(TDReport, TDXQuote, SEVReport, CCAToken)} {
		short := &host.Host{Maps: func(string) (map[string][]byte, error) {
			return map[string][]byte{runsMap: make([]byte, 13), "counts": make([]byte, 13)}, nil
		}}
		c, err := p.Open(short)
		if err != nil {
			t.Fatal(err)
		}
		GuestMemoryCounts{c}.Accepted()
		GuestReportCounts{c}.Report(CCAToken)
		GuestExitCounts{c}.Hypercalls(count, count)
		c.Spent()
	}
}
