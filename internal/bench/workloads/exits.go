package workloads

import (
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	exitSeconds = &metric.Desc{Name: "exit_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of one operation that a hypervisor handles, in seconds on the harness's clock: the median of the windows."}
	exitInside = &metric.Desc{Name: "exit_inside_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time of one operation that a hypervisor handles, in seconds on the worker's own clock: the median of the windows."}
	exitLatency = &metric.Desc{Name: "exit_latency_seconds", Unit: "seconds", Kind: metric.Histogram, Better: metric.Lower,
		Help: "Time of single operations in seconds, each including one reading of the worker's clock; the value is the mean."}
)

// exitTimes are the times of single operations.
var exitTimes = newSingleTimes(exitLatency, "exit_latency", 1, "operations were timed one by one",
	"the time of single operations, with a reading of the worker's clock, in seconds")

// exitCost measures the exits of a guest one reason at a time, as far as a program may cause them. In a confidential guest
// each is also an exception, whose handler asks the hypervisor. Natively the same program shows what the operation costs
// without one.
var exitCost = bench.Workload{
	Name:    "exits",
	Doc:     "Operations that a hypervisor handles, one reason at a time: CPUID leaves, an I/O port, a hypercall, an MSR, an interrupt to another CPU, memory-mapped I/O.",
	Version: 1,
	Params: append([]bench.Param{
		{Name: "reason", Default: "cpuid", Values: []string{"cpuid", "port", "hypercall", "msr", "ipi", "mmio"},
			Doc: "The operation. cpuid: the CPUID instruction. port: a byte to the unused I/O port 0x80 (as root). hypercall: a KVM hypercall, which KVM refuses to user programs after the exit. msr: a read of IA32_APIC_BASE through the kernel module msr (as root; includes a system call). ipi: an interrupt of a thread on another core by membarrier (needs two CPUs; includes a system call). While another program runs on the second CPU, no interrupt is sent, so the time is too low. mmio: a read of an HPET register through /dev/hpet (as root, on machines with that timer)."},
		{Name: "leaf", Default: "0x0", Doc: "Leaf of cpuid: 0x0, 0x7, 0xd, 0x15, 0x40000000."},
		{Name: "samples", Default: "10000", Doc: "Number of operations that are timed one by one, after the windows."},
	}, windowParams("100ms", "200ms")...),
	Metrics: func(p bench.Params) []*metric.Desc {
		return append([]*metric.Desc{exitSeconds, exitInside, exitLatency, clockDisagreement, operations}, exitTimes.quantilesFor(p)...)
	},
	Primary:    func(bench.Params) *metric.Desc { return exitSeconds },
	Operations: operations,
	Sweep:      map[string][]string{"leaf": {"0x0", "0x7", "0xd", "0x40000000"}},
	Estimate: func(p bench.Params) (time.Duration, int64) {
		n, _ := p.Int("samples", 1)
		return windowTime(p) + time.Duration(min(n, mostSamples))*100*time.Microsecond, 0
	},
	Job: func(p bench.Params) (bench.Job, error) {
		args, err := windowArgs(p)
		if err != nil {
			return bench.Job{}, err
		}
		samples, err := sampleCount(p)
		if err != nil {
			return bench.Job{}, err
		}
		leaf, err := strconv.ParseUint(p["leaf"], 0, 32)
		if err != nil {
			return bench.Job{}, fmt.Errorf("parameter leaf=%q: want a leaf like 0x7", p["leaf"])
		}
		job, err := microJob(append([]string{"exits", p["reason"], fmt.Sprint(leaf), fmt.Sprint(samples)}, args...)...)
		if p["reason"] == "msr" {
			job.Modules = []string{"msr"}
		}
		return job, err
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return nil, err
		}
		samples := []metric.Sample{
			{Desc: exitSeconds, Value: r.cost(part.byHarness)},
			{Desc: exitInside, Value: r.cost(part.byWorker)},
			r.disagreement(),
			{Desc: operations, Value: float64(r.operations)},
		}
		times, err := exitTimes.read(r.others, o.Params)
		return append(samples, times...), err
	},
	Series: windowSeries(func(_ bench.Params, cost float64) float64 { return cost }),
	Check: func(o bench.Outcome) (string, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return "", err
		}
		if err := r.check(o.Params); err != nil {
			return "", err
		}
		if err := exitTimes.check(r.others, o.Params); err != nil {
			return "", err
		}
		return digest("exits", o.Params["reason"], o.Params["leaf"], o.Params["windows"], o.Params["operations"], o.Params["samples"]), nil
	},
}
