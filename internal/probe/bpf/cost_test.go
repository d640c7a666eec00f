package bpf

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"weak"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/teescope/teescope/internal/host"
)

// BenchmarkCost measures what an attached program costs per event, by a clock
// that is not the kernel's BPF statistics: the CPU time of a pinned program that
// makes a fixed number of events, with nothing attached, with an empty program
// and with ours, in random order in each round. The difference of empty and none
// is dispatch, that of ours and empty is the body. Reported are medians over the
// rounds of the differences within a round, and the ends of the 95 % interval of
// the sum of both; run it with -benchtime=40x.
func BenchmarkCost(b *testing.B) {
	for _, c := range []struct {
		name, program, empty string
		from                 *Program
		args                 []string
		events               func(did) float64
	}{
		{"sys_enter", "sys_enter_btf", "empty_sys_enter", Syscalls, []string{"getppid", "300000"}, func(did) float64 { return 300000 }},
		{"sched_switch", "sched_switch_btf", "empty_sched_switch", Switches, []string{"switches", "15000"},
			func(d did) float64 { return float64(d.Voluntary + d.Involuntary) }},
		{"page_fault_user", "page_fault_user_btf", "empty_page_fault_user", Faults, []string{"faults", "write", "20000"}, func(did) float64 { return 20000 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			needKernel(b)
			path, err := eventsProgram()
			if err != nil {
				b.Skip(err)
			}
			programs := []*ebpf.Program{nil, loadAlone(b, nil, c.empty), loadAlone(b, c.from, c.program)}
			var off, dispatch, body, both []float64
			for b.Loop() {
				var ns [3]float64
				for _, i := range rand.Perm(len(programs)) {
					ns[i] = perEvent(b, programs[i], c.events, path, c.args)
				}
				off = append(off, ns[0])
				dispatch = append(dispatch, ns[1]-ns[0])
				body = append(body, ns[2]-ns[1])
				both = append(both, ns[2]-ns[0])
			}
			low, high := medianInterval(both)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(off), "ns-without")
			b.ReportMetric(median(dispatch), "ns-dispatch")
			b.ReportMetric(median(body), "ns-body")
			b.ReportMetric(median(both), "ns-both")
			b.ReportMetric(low, "ns-both-low")
			b.ReportMetric(high, "ns-both-high")
		})
	}
}

// loadAlone loads one program of an object with maps of its own; from is nil
// for an empty one.
func loadAlone(b *testing.B, from *Program, name string) *ebpf.Program {
	b.Helper()
	load := loadEmpty
	if from != nil {
		load = from.load
	}
	spec, err := load()
	if err != nil {
		b.Fatal(err)
	}
	if from != nil {
		if err := (&Counters{program: from}).size(spec, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
	p, err := loadProgram(spec, name, nil, btf.NewCache())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	return p
}

// perEvent is the CPU time of one event in nanoseconds with p attached.
func perEvent(b *testing.B, p *ebpf.Program, events func(did) float64, path string, args []string) float64 {
	b.Helper()
	if p != nil {
		l, err := typed(nil, p)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
	}
	best := 0.0
	// The least of three: what disturbs only ever adds.
	for range 3 {
		out, err := exec.Command(path, append([]string{"--cpu", "1"}, args...)...).Output()
		if err != nil {
			b.Fatal(err)
		}
		var d did
		if err := json.Unmarshal(out, &d); err != nil {
			b.Fatal(err)
		}
		if ns := d.CPUSeconds * 1e9 / events(d); best == 0 || ns < best {
			best = ns
		}
	}
	return best
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// medianInterval is the 95 % interval of the median from order statistics
// (normal approximation of the binomial), or the whole range of few values.
func medianInterval(v []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(v))
	n := float64(len(s))
	k := max(0, int(n/2-0.98*math.Sqrt(n)))
	return s[k], s[len(s)-1-k]
}

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
			defer c.Close()
		}
		kernel.Lock()
		kernel.types = weak.Pointer[btf.Cache]{}
		kernel.Unlock()
	}
}
