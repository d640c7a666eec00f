package rules

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// benchInterval is the time between two evaluations. One may take 1 % of it.
const benchInterval = 15 * time.Second

// BenchmarkEvaluate is one evaluation of all rules over the series of 200 quiet processes and 50 containers of a
// machine, at the default interval. Every rule has its metrics and is checked. It reports the share of a core used,
// and an estimate for 50 rules.
func BenchmarkEvaluate(b *testing.B) {
	st := storetest.Load(b, "load 5s\n"+quietMachine(`job="teescope",instance="vm1"`, 200))
	o := findings.DefaultOptions()
	at := time.Unix(600, 0)
	o.Now, o.Started = func() time.Time { return at }, time.Unix(0, 0)
	o.Own, o.Refusing = query.Machine{Job: "teescope", Instance: "vm1"}, func() error { return nil }
	e := findings.New(All, st, o)
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		e.Evaluate(b.Context())
	}
	each := (cpuTime(b) - before) / time.Duration(b.N)
	share := each.Seconds() / benchInterval.Seconds()
	b.ReportMetric(float64(each.Nanoseconds()), "cpu-ns/op")
	b.ReportMetric(100*share, "%core")
	b.ReportMetric(100*share*50/float64(len(All)), "%core/50rules")
	for _, r := range e.Rules() {
		if r.Answer != findings.Silent && r.Name != "anomaly" { // there is no history
			b.Errorf("%s is %s: %s", r.Name, r.Answer, r.Reason)
		}
	}
	if recs := e.Records(); len(recs) > 0 {
		b.Errorf("a quiet machine has findings: %+v", recs)
	}
}

// cpuTime returns the CPU time of this process, garbage collection included.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quietMachine returns the series of a machine in PromQL's test notation: some 8,900 with 200 processes.
func quietMachine(machine string, processes int) string {
	var load strings.Builder
	loaded := map[string]bool{}
	series := func(metric string, step float64, labels string) {
		loaded[metric] = true
		fmt.Fprintf(&load, "  %s{%s%s} 0+%gx120\n", metric, machine, labels, step)
	}
	gauge := func(metric string, value float64, labels string) {
		loaded[metric] = true
		fmt.Fprintf(&load, "  %s{%s%s} %gx120\n", metric, machine, labels, value)
	}
	for p := range processes {
		name := fmt.Sprintf(",process=\"p%d\"", p)
		for c := range 16 {
			series("tee_syscalls_total", float64(p+c), fmt.Sprintf("%s,syscall=\"c%d\"", name, c))
			if c < 8 {
				series(sampledCPU, 0.001, fmt.Sprintf("%s,mode=\"kernel\",call=\"c%d\"", name, c))
			}
			if c < 4 {
				series(sampledWait, 0.1, fmt.Sprintf("%s,state=\"sleep\",call=\"c%d\"", name, c))
			}
		}
		series("tee_syscalls_total", 1, name+`,syscall="clock_gettime"`)
		series(sampledCPU, 0.005, name+`,mode="user",call=""`)
		series(sampledCPU, 0.001, name+`,mode="fault",call=""`)
		series(sampledWait, 0.001, name+`,state="disk",call="fsync"`)
		series(sampledWait, 0.001, name+`,state="lock",call="futex"`)
		series("tee_tls_handshakes_total", 0.1, name)
		series("tee_process_cpu_seconds_total", 0.01, name)
		for _, k := range []string{"voluntary", "involuntary"} {
			series("tee_context_switches_total", float64(p), fmt.Sprintf("%s,kind=%q", name, k))
		}
		for _, space := range []string{"user", "kernel"} {
			for _, cause := range []string{"no_page_found", "write"} {
				series("tee_page_faults_total", float64(p), fmt.Sprintf("%s,space=%q,cause=%q", name, space, cause))
			}
		}
	}
	for c := range processes/4 + 1 {
		group := fmt.Sprintf(",id=\"/c%d\",name=\"c%d\"", c, c)
		series(cfsPeriods, 50, group)
		series(cfsThrottled, 1, group)
	}
	for d := range 16 {
		device := fmt.Sprintf(",device=\"d%d\"", d)
		series(diskBusy, 0.5, device)
		gauge(string(metric.CountedNetworks), 1, device)
		for _, m := range []string{"receive_drop", "transmit_drop"} {
			series("node_network_"+m+"_total", 0.01, device)
		}
		for _, m := range []string{"receive_packets", "transmit_packets"} {
			series("node_network_"+m+"_total", 1000, device)
		}
		series("node_cpu_seconds_total", 4.5, fmt.Sprintf(",cpu=\"%d\",mode=\"idle\"", d))
		series("node_cpu_seconds_total", 0.5, fmt.Sprintf(",cpu=\"%d\",mode=\"user\"", d))
	}
	for s := range 45 {
		gauge("teescope_source_up", 1, fmt.Sprintf(",source=\"s%d\"", s))
	}
	gauge("tee_clocksource_info", 1, `,name="tsc"`)
	gauge("teescope_budget_ratio", 0.01, "")
	gauge("up", 1, "")
	gauge(poolSize, 64<<20, "")
	gauge(poolUsed, 1<<20, "")
	for _, direction := range []string{"to_shared", "to_private"} {
		series(conversions, 5, fmt.Sprintf(",direction=%q", direction))
	}
	series(tcpOut, 5000, "")
	series(ioWaiting, 0.1, "")
	for _, r := range All {
		for _, m := range r.Needs {
			if !loaded[m] {
				series(m, 0, "")
			}
		}
	}
	return load.String()
}
