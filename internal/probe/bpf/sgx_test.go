package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/probetest"
)

// stubTrigger makes the module of e2e/kernels/stub simulate the life of as many enclaves as are
// written to it. The module's functions have the names, behind a prefix, and the signatures of
// the SGX driver's.
const stubTrigger = "/sys/module/isgx/parameters/trigger"

// stubLife holds the stub's events in each life; its source explains them.
var stubLife = map[SGXEvent]uint64{
	SGXOpened: 2, SGXCreated: 1, SGXInitialized: 1, SGXRemoved: 2, SGXAdded: 5,
	SGXBusy: 3, SGXNoMemory: 2, SGXInterrupted: 1, SGXFailed: 1,
	SGXFreed: 9, SGXEvicted: 16 + 4, SGXMarkedOld: 7,
	SGXReclaimedBackground: 1, SGXReclaimedDirect: 1,
	SGXFaultsResolved: 4, SGXFaultsFailed: 1,
}

const (
	stubAllocated = 5 + 1 + 3 // added, a version array, in faults
	stubLoaded    = 3
	stubFaults    = 4 + 1
)

// TestSGXFires counts the stub module's events, with each kind of hook.
func TestSGXFires(t *testing.T) {
	if _, err := os.Stat(stubTrigger); err != nil {
		probetest.Skip(t, "stub of SGX", err)
	}
	for kind, variant := range map[string]int{"fentry and fexit": 0, "kprobe and kretprobe": 1} {
		t.Run(kind, func(t *testing.T) {
			p := *sgxProgram("stub_")
			p.hooks = slices.Clone(p.hooks)
			for i, h := range p.hooks {
				p.hooks[i].variants = h.variants[variant : variant+1]
			}
			c := openProgram(t, &p, Limits{})
			if c.Lost != nil {
				t.Fatal(c.Lost)
			}
			checkLives(t, c, 40, variant == 1)
			if err := errors.Join(c.Detach(), os.WriteFile(stubTrigger, []byte("10"), 0), c.Attach()); err != nil {
				t.Fatal(err)
			}
			checkLives(t, c, 40+20, variant == 1)
		})
	}
}

// TestSGXRenamed attaches to a driver in which one function has another name: its count is
// absent, and the rest is counted.
func TestSGXRenamed(t *testing.T) {
	if _, err := os.Stat(stubTrigger); err != nil {
		probetest.Skip(t, "stub of SGX", err)
	}
	p := *sgxProgram("stub_")
	load := p.load
	p.load = func() (*ebpf.CollectionSpec, error) {
		spec, err := load()
		if err == nil {
			spec.Programs["sgx_vma_fault_fexit"].AttachTo = "stub_renamed"
		}
		return spec, err
	}
	p.hooks = slices.Clone(p.hooks)
	last := len(p.hooks) - 1
	p.hooks[last].variants = []variant{p.hooks[last].variants[0], {"sgx_vma_fault_kretprobe", atSymbol("stub_renamed", link.Kretprobe)}}
	c := openProgram(t, &p, Limits{})
	if c.Lost == nil || !strings.Contains(c.Lost.Error(), "hook sgx_vma_fault exit") {
		t.Errorf("lost: %v", c.Lost)
	}
	if err := os.WriteFile(stubTrigger, []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	for e := range sgxEvents {
		n, ok := SGXCounts{c}.Total(e)
		if fault := e == SGXFaultsResolved || e == SGXFaultsFailed; ok == fault || ok && n != 5*stubLife[e] {
			t.Errorf("event %d: counted %d (live %v), want %d", e, n, ok, 5*stubLife[e])
		}
	}
	if fault, background, _ := (SGXCounts{c}).Times(); fault != nil || background == nil || (SGXCounts{c}).Live(SGXFaults) || !(SGXCounts{c}).Live(SGXPages) {
		t.Error("the wrong times are there")
	}
}

// checkLives runs the stub until the counters must show so many lives, of which two thirds or
// all are new.
func checkLives(t *testing.T, c *Counters, lives uint64, kretprobe bool) {
	t.Helper()
	before, _ := SGXCounts{c}.Total(SGXCreated)
	if err := os.WriteFile(stubTrigger, fmt.Append(nil, lives-before), 0); err != nil {
		t.Fatal(err)
	}
	if missed, err := c.Missed(); err != nil || missed > 0 {
		t.Errorf("missed %d: %v", missed, err)
	}
	for e := range sgxEvents {
		want := stubLife[e] * lives
		if e == SGXAdded && kretprobe {
			want += lives // the version array, which a kretprobe cannot tell from a page
		}
		if n, ok := (SGXCounts{c}).Total(e); !ok || n != want {
			t.Errorf("event %d: counted %d (live %v), want %d", e, n, ok, want)
		}
	}
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	me := strings.TrimSpace(string(self))
	var got [sgxBy]uint64
	SGXCounts{c}.ByProcess(func(process string, allocated, loaded, faults uint64) {
		if process == me {
			got = [sgxBy]uint64{allocated, loaded, faults}
		}
	})
	if want := [sgxBy]uint64{stubAllocated * lives, stubLoaded * lives, stubFaults * lives}; got != want {
		t.Errorf("by process %s: %v, want %v", me, got, want)
	}
	fault, background, direct := SGXCounts{c}.Times()
	for _, x := range []struct {
		what   string
		l      *Latency
		n      uint64
		atMost float64
	}{{"fault", fault, stubFaults, 1}, {"background", background, 1, 1}, {"direct", direct, 1, 1}} {
		// Each call in the stub takes at least 200 us by its own clock.
		if x.l == nil || x.l.Count() != x.n*lives || x.l.Sum() < 200e-6*float64(x.n*lives) || math.IsNaN(x.l.Quantile(0.5)) {
			t.Errorf("%s: %v times, want %d of at least 200 us", x.what, x.l, x.n*lives)
		}
	}
	events, seconds := c.Spent()
	if want := float64(lives) * stubRuns; events != want || len(seconds) == 0 {
		t.Errorf("%v runs of the programs, want %v", events, want)
	}
}

// stubRuns is the number of program runs in a life: the calls of functions with one hook, and
// twice those of functions with two.
const stubRuns = 3 + 2 + 2*3 + 2 + (9 + 7) + 9 + 2*2 + 20 + 4 + 20 + 2*5

// TestSGXHooks attaches to the running kernel's driver, which every kernel with CONFIG_X86_SGX
// has whether or not the hardware is there: the functions that the kernel lists must be live.
func TestSGXHooks(t *testing.T) {
	needKernel(t)
	found, err := symbols(local, func(s string) bool { return strings.HasPrefix(s, "sgx_") })
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range found {
		name, _, _ := strings.Cut(s.name, ".")
		have[name] = true
	}
	if !have["sgx_alloc_epc_page"] {
		t.Skip("this kernel has no SGX driver (CONFIG_X86_SGX)")
	}
	c, err := SGX.Open(local)
	if errors.Is(err, unix.EPERM) {
		probetest.Skip(t, "", fmt.Errorf("this kernel forbids it: %w", err))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	SGXCounts{c}.Hooks(func(hook string, live bool) {
		function, _, _ := strings.Cut(hook, " ")
		if t.Logf("%s: %v", hook, live); have[function] && !live {
			t.Errorf("hook %s is not live: %v", hook, c.Lost)
		}
	})
	for e := range sgxEvents {
		if n, _ := (SGXCounts{c}).Total(e); n != 0 {
			t.Logf("event %d: %d", e, n)
		}
	}
}

// The program that reads free EPC is tested on values that every kernel has: the first word of
// its type information, which is also in sysfs, and, if the kernel lists its variables, one that
// counts up and one that is also in /proc.
func TestWord(t *testing.T) {
	needKernel(t)
	open := func(t *testing.T, name string) *Word {
		t.Helper()
		w, err := openWord(local, name)
		switch {
		case errors.Is(err, unix.EPERM):
			probetest.Skip(t, "", fmt.Errorf("this kernel forbids it: %w", err))
		case probe.Remedy(err) != "":
			probetest.Skip(t, "", fmt.Errorf("%w (%s)", err, probe.Remedy(err)))
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	t.Run("constant", func(t *testing.T) {
		f, err := os.Open("/sys/kernel/btf/vmlinux")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var want [8]byte
		if _, err := f.Read(want[:]); err != nil {
			t.Fatal(err)
		}
		if v, err := open(t, "__start_BTF").Read(); err != nil || v != binary.NativeEndian.Uint64(want[:]) {
			t.Errorf("read %#x (%v), /sys/kernel/btf/vmlinux begins with %#x", v, err, want)
		}
	})
	t.Run("clock", func(t *testing.T) {
		w := open(t, "jiffies_64")
		first, err := w.Read()
		if err != nil {
			t.Fatal(err)
		}
		await.Event(t, "jiffies_64 counts up", func() error {
			v, err := w.Read()
			if err != nil {
				t.Fatal(err)
			}
			if v <= first {
				return fmt.Errorf("it stands at %d", v)
			}
			return nil
		})
	})
	t.Run("forks", func(t *testing.T) {
		forks := func() uint64 {
			b, err := os.ReadFile("/proc/stat")
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(b), "\nprocesses ")
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		w := open(t, "total_forks")
		before := forks()
		v, err := w.Read()
		if after := forks(); err != nil || v < before || v > after {
			t.Errorf("total_forks is %d, /proc/stat says %d to %d (%v)", v, before, after, err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		if w, err := openWord(local, "no_such_variable"); err == nil {
			t.Errorf("opened a variable that is not there: %v", w.Close())
		}
	})
}

// BenchmarkWord measures the cost of reading free EPC.
func BenchmarkWord(b *testing.B) {
	needKernel(b)
	w, err := openWord(local, "__start_BTF")
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for b.Loop() {
		if _, err := w.Read(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzSymbol(f *testing.F) {
	f.Add("ffffffff81000000 T _stext")
	f.Add("ffffffffc0a01000 t stub_sgx_open\t[isgx]")
	f.Add("0000000000000000 b sgx_nr_free_pages")
	f.Add("fffffffffffffffff T x")
	f.Fuzz(func(t *testing.T, line string) {
		s, ok := parseSymbol(line)
		if ok && (s.name == "" || !strings.Contains(line, s.name) || strings.Contains(s.name, "\t")) {
			t.Errorf("%q read as %+v", line, s)
		}
	})
}
