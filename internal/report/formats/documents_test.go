package formats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/tee"
)

var day = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

func num(v float64) *float64 { return &v }

// documents returns the documents that every format must write.
func documents() map[string]report.Document {
	one := func(e ...*result.Experiment) report.Document {
		return report.Document{Experiments: e, Made: day.Add(8 * time.Hour)}
	}
	overhead := one(startup())
	overhead.Findings = []findings.Finding{{
		Rule: "enclave-exits", Subject: "startup", Title: "startup leaves its enclave 41,000 times a second", Severity: findings.Warning, Confidence: findings.Medium,
		Share: &[2]float64{0.31, 0.44}, Remedy: "Batch system calls, or use exitless calls where a core can be spared.",
	}, {Rule: "memory", Subject: "machine", Title: "No memory pressure during the runs", Severity: findings.Info, Confidence: findings.High}}
	platforms := one(machines())
	platforms.Prices = []report.Price{
		{Name: "c3-standard-8", PerHour: 0.4176, Currency: "USD", Date: "2026-11-02", Source: "list price, us-central1"},
		{Name: "m7a.2xlarge", PerHour: 0.46368, Currency: "USD", Date: "2026-11-02", Source: "list price, us-east-1"},
	}
	return map[string]report.Document{
		"overhead":  overhead,
		"missing":   one(absent()),
		"invalid":   one(refused()),
		"ladder":    one(layers()),
		"sweep":     one(threads()),
		"platforms": platforms,
		"relative":  one(joined(3)),
		"suite":     one(startup(), refused(), threads()),
		"blank":     one(&result.Experiment{}),
		"empty":     {},
	}
}

// builder makes the runs of an experiment from a model: a median per arm, noise, and the drift of the machine.
type builder struct {
	e   *result.Experiment
	rng *rand.Rand
	at  time.Time
}

func newBuilder(name, id string, w result.Workload, kind result.Kind, grade result.Grade, pairs int) *builder {
	return &builder{rng: rand.New(rand.NewPCG(7, uint64(len(name)))), at: day, e: &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: id, Name: name, StartedAt: day,
		Tool:     result.Tool{Name: "teescope", Version: "0.3.0", Go: "go1.26.0"},
		Design:   result.Design{Kind: kind, Grade: grade, Seed: 4021773, PairsPlanned: pairs, Alpha: 0.05, Margin: 0.03, Primary: w.Metrics[0].Name, Subject: "environment"},
		Workload: w,
	}}
}

func (b *builder) env(id string, role result.Role, launcher, teeType string) *result.Environment {
	v := result.Environment{
		ID: id, Role: role, Launcher: launcher, Params: map[string]string{}, Missing: map[string]string{},
		TEE: result.TEE{Type: teeType, Active: teeType != "none"},
		Hardware: result.Hardware{
			CPUModel: "Intel(R) Xeon(R) Gold 6548Y+", CPUVendor: "GenuineIntel", CPUFamily: "6-207-2", Microcode: "0x21000283", CPUs: 8, Sockets: 1, ThreadsPerCore: 2, SMT: "on",
			Governor: "performance", MemoryBytes: 32 << 30, Serial: "sha256:3d1f",
		},
		Software: result.Software{
			Kernel: "6.18.2-amd64", OS: "Debian GNU/Linux 13", Cmdline: "root=/dev/vda1 quiet", Hypervisor: "none", ClockSource: "tsc", CachePolicy: "as found",
			Versions: map[string]string{"gramine": "1.9"}, Worker: map[string]string{"compiler": "musl-gcc 14.2", "flags": "-O2 -static"},
		},
		Fingerprint: "sha256:6f1e0b2c9d8a7f6e5d4c3b2a19081716" + id, OpenSeconds: num(0.02),
	}
	if teeType != "none" {
		v.TEE.Facts = []tee.Facts{{Kind: teeType, Role: tee.Guest, Active: true}}
		v.TEE.Settings = map[string]string{"enclave_size": "512M", "debug": "off"}
		v.OpenSeconds = num(1.84)
	}
	b.e.Environments = append(b.e.Environments, v)
	return &b.e.Environments[len(b.e.Environments)-1]
}

func (b *builder) kase(id string, params map[string]string) {
	b.e.Cases = append(b.e.Cases, result.Case{ID: id, Params: params, Identity: fmt.Sprintf("sha256:%032x", len(id)*7919+len(params))})
}

// run adds a run with values near the given medians, in the order of the metrics.
func (b *builder) run(env, kase string, pair, position int, noise float64, medians ...float64) *result.Run {
	r := result.Run{
		ID: fmt.Sprintf("p%02d-%s-%s", pair, kase, env), Env: env, Case: kase, Pair: pair, Position: position,
		StartedAt: b.at, Seconds: 1, Status: result.OK, OutputDigest: "sha256:9c1185a5", Clock: "tsc",
		Interference: result.Interference{StealRatio: num(0.001), ForeignCPU: num(0.012), LoadBefore: num(0.2), Missing: map[string]string{"cpu_hertz": "blind: the hypervisor hides the counters"}},
	}
	common := math.Exp(b.rng.NormFloat64()*noise) * (1 + 0.0015*float64(len(b.e.Runs)))
	for i, m := range medians {
		v := m * common * math.Exp(b.rng.NormFloat64()*noise/3)
		r.Metrics = append(r.Metrics, result.Metric{Name: b.e.Workload.Metrics[i].Name, Value: &v, Source: result.Measured, N: 1})
	}
	b.at = b.at.Add(3 * time.Second)
	b.e.Runs = append(b.e.Runs, r)
	return &b.e.Runs[len(b.e.Runs)-1]
}

func (b *builder) count(r *result.Run, name string, value float64, trust result.Trust, labels ...string) {
	l := map[string]string{"process": "startup"}
	for i := 0; i+1 < len(labels); i += 2 {
		l[labels[i]] = labels[i+1]
	}
	value *= math.Exp(b.rng.NormFloat64() * 0.02)
	r.Counters = append(r.Counters, result.Counter{Name: name, Labels: l, Value: num(value * 1000), PerOperation: &value, Scope: "process", Trust: trust})
}

func hostCount(r *result.Run, name string, value float64, helper string) {
	c := result.Counter{Name: name, Labels: map[string]string{}, Value: num(value * 1000), PerOperation: &value, Scope: "machine", Trust: result.Full}
	if helper != "" {
		c.Labels["helper"] = helper
	}
	r.HostCounters = append(r.HostCounters, c)
}

// compare makes a comparison of the runs' medians with an interval of plausible width.
func (b *builder) compare(base, treat, kase, metric string, isPrimary bool, half float64) *result.Comparison {
	d := b.e.Desc(metric)
	bm, n, _ := report.Median(b.e, base, kase, metric)
	tm, _, _ := report.Median(b.e, treat, kase, metric)
	r := *tm / *bm
	cost := r
	if d.Better == "higher" {
		cost = 1 / r
	}
	f := math.Exp(half)
	c := result.Comparison{
		Baseline: base, Treatment: treat, Case: kase, Metric: metric, Primary: isPrimary, Estimator: "hodges-lehmann of paired log ratios",
		Ratio: num(r), Low: num(r / f), High: num(r * f), Confidence: 0.95, Cost: num(cost), CostLow: num(cost / f), CostHigh: num(cost * f),
		BootLow: num(r / f * 1.002), BootHigh: num(r * f * 0.998), Pairs: n, BaseMedian: bm, TreatMedian: tm, SDLog: num(half * 1.4), MDE: num(half * 1.2),
		Margin: 0.03, NoiseFloor: num(0.011), Bound: result.Exact, Grade: b.e.Design.Grade,
	}
	switch {
	case cost/f > 1:
		c.Verdict, c.Material = stats.Cost, cost/f > 1.03
	case cost*f < 1:
		c.Verdict, c.Material = stats.Gain, cost*f < 1/1.03
	case cost/f > 1/1.03 && cost*f < 1.03:
		c.Verdict = stats.Equivalent
	default:
		c.Verdict, c.PairsNeeded = stats.Inconclusive, 34
	}
	name := strings.ReplaceAll(strings.TrimSuffix(metric, "_"+d.Unit), "_", " ")
	switch c.Verdict {
	case stats.Equivalent:
		c.Headline = fmt.Sprintf("%s and %s are the same on %s within ±3 %%: %.3fx [%.3f, %.3f], grade %s, %d pairs.", treat, base, name, cost, cost/f, cost*f, c.Grade, n)
	case stats.Inconclusive:
		c.Headline = fmt.Sprintf("These runs cannot tell what %s costs against %s on %s: %.3fx [%.3f, %.3f], grade %s, %d pairs; 34 pairs would settle it.", treat, base, name, cost, cost/f, cost*f, c.Grade, n)
	case stats.Gain:
		c.Headline = fmt.Sprintf("%s is faster than %s on %s: %.2fx [%.2f, %.2f], grade %s, %d pairs.", treat, base, name, cost, cost/f, cost*f, c.Grade, n)
	default:
		c.Headline = fmt.Sprintf("%s costs %.2fx [%.2f, %.2f] of %s on %s, grade %s, %d pairs.", treat, cost, cost/f, cost*f, base, name, c.Grade, n)
	}
	b.e.Comparisons = append(b.e.Comparisons, c)
	return &b.e.Comparisons[len(b.e.Comparisons)-1]
}

func (b *builder) done(command string) *result.Experiment {
	end := b.at.Add(2 * time.Second)
	b.e.EndedAt = &end
	b.e.Tool.Command = strings.Fields(command)
	return b.e
}

var startupWorkload = result.Workload{
	Name: "startup", Version: 2, Doc: "Time from starting a process to its first useful byte, split into load, ready and first answer.", Operations: "startup_operations",
	Metrics: []result.MetricDesc{
		{Name: "startup_ready_seconds", Help: "Start to ready.", Unit: "seconds", Better: "lower"},
		{Name: "startup_load_seconds", Help: "Start to the first instruction of main.", Unit: "seconds", Better: "lower"},
		{Name: "startup_answer_seconds", Help: "Ready to first answer.", Unit: "seconds", Better: "lower"},
		{Name: "startup_memory_bytes", Help: "Resident memory when ready.", Unit: "bytes", Better: "none"},
	},
}

// startup: a plain comparison with a clear cost, an outlier, an excluded pair and counters.
func startup() *result.Experiment {
	b := newBuilder("startup", "0b9f2f8e-6f3c-4f0e-9d3e-2a6d1f1b7c11", startupWorkload, result.Interleaved, result.GradeA, 10)
	b.env("native", result.Baseline, "native", "none")
	sgx := b.env("gramine-sgx", result.Treatment, "gramine-sgx", "sgx")
	sgx.TEE.Declared = true
	sgx.Software.Cmdline = "root=/dev/vda1 quiet nosgx=0"
	b.kase("default", map[string]string{})
	for pair := range 10 {
		for pos := range 2 {
			if (pair*7+pos)%2 == 0 {
				r := b.run("native", "default", pair, pos, 0.02, 0.0124, 0.0031, 0.00042, 5.1e6)
				b.count(r, "tee_syscalls_total", 4.1, result.Full, "syscall", "mmap")
				b.count(r, "tee_syscalls_total", 2.0, result.Full, "syscall", "read")
				b.count(r, "tee_page_faults_total", 61, result.Full, "space", "user", "cause", "no_page_found")
				b.count(r, "tee_context_switches_total", 3, result.Full, "kind", "voluntary")
			} else {
				r := b.run("gramine-sgx", "default", pair, pos, 0.035, 0.0386, 0.0291, 0.00071, 61e6)
				b.count(r, "tee_syscalls_total", 38, result.Partial, "syscall", "mmap")
				b.count(r, "tee_syscalls_total", 2.1, result.Full, "syscall", "read")
				b.count(r, "tee_page_faults_total", 802, result.Partial, "space", "user", "cause", "no_page_found")
				b.count(r, "tee_context_switches_total", 11, result.Full, "kind", "voluntary")
				b.count(r, "tee_sgx_enclave_exits_total", 412, result.Full)
				r.Counters = append(r.Counters, result.Counter{Name: "tee_llc_misses_total", Labels: map[string]string{}, Scope: "process", Trust: result.None, Note: "a production enclave hides its hardware events"})
				if pair == 6 {
					v := *r.Metrics[0].Value * 1.3
					r.Metrics[0].Value, r.Status, r.Reason = &v, result.Excluded, "steal of 9 % during the run"
				}
			}
		}
	}
	c := b.compare("native", "gramine-sgx", "default", "startup_ready_seconds", true, 0.045)
	c.Changed = []result.Difference{
		{Field: "launcher", Baseline: "native", Treatment: "gramine-sgx"}, {Field: "tee.type", Baseline: "none", Treatment: "sgx"},
		{Field: "software.cmdline", Baseline: "root=/dev/vda1 quiet", Treatment: "root=/dev/vda1 quiet nosgx=0"}, {Field: "tee.settings.enclave_size", Baseline: "", Treatment: "512M"},
	}
	b.compare("native", "gramine-sgx", "default", "startup_load_seconds", false, 0.05)
	b.compare("native", "gramine-sgx", "default", "startup_answer_seconds", false, 0.11)
	m := b.compare("native", "gramine-sgx", "default", "startup_memory_bytes", false, 0.01)
	m.Cost, m.CostLow, m.CostHigh, m.Verdict, m.Material = nil, nil, nil, "", false
	b.e.Attribution = []result.Attribution{
		{Baseline: "native", Treatment: "gramine-sgx", Case: "default", Counter: "tee_page_faults_total", Metric: "tee_page_faults_total", Delta: 741, UnitCost: num(2.1e-5), Share: num(0.594), Unexplained: num(0.283)},
		{Baseline: "native", Treatment: "gramine-sgx", Case: "default", Counter: "tee_sgx_enclave_exits_total", Metric: "tee_sgx_enclave_exits_total", Delta: 412, UnitCost: num(7.8e-6), Share: num(0.123), Unexplained: num(0.283)},
		{Baseline: "native", Treatment: "gramine-sgx", Case: "default", Counter: "tee_context_switches_total", Delta: 8, Reason: "no unit cost was measured on this host"},
	}
	b.e.Guards = []result.Guard{
		{ID: "tee-declared", Level: result.Warn, Message: "the launcher says that gramine-sgx is an enclave; nothing inside showed it", Help: "Run on a host with a quoting service, and attest the result.", Treatment: "gramine-sgx"},
		{ID: "outliers", Level: result.Note, Message: "one run of gramine-sgx stands apart (modified z-score 4.2); it is kept", Help: "Look at the order of the runs.", Treatment: "gramine-sgx"},
	}
	b.e.References = []result.Reference{
		{ID: "scone", Citation: "SCONE, OSDI 2016", Workload: "Linux services", TEE: "SGX1", Low: 0.83, High: 1.67, Unit: "cost_ratio", Caveat: "throughput, authors' framework", Source: result.Literature},
		{ID: "jvm", Citation: "Gramine TLS scaling study", Workload: "JVM TLS server start", TEE: "SGX", Low: 3.2, High: 65, Unit: "seconds", Caveat: "start-up only", Source: result.Literature},
	}
	return b.done("teescope bench run startup --env native --env gramine-sgx,manifest=startup.manifest --out startup.json")
}

// absent: everything that can be missing is missing.
func absent() *result.Experiment {
	b := newBuilder("startup", "7d6a3c1e-0000-4000-8000-1b6d1f1b7c22", startupWorkload, result.Interleaved, result.GradeA, 6)
	b.e.Environments = []result.Environment{
		{ID: "native", Role: result.Baseline, Missing: map[string]string{"hardware.cpu_model": "/proc/cpuinfo: permission denied", "software.kernel": "uname is not allowed here"}},
		{ID: "vm", Role: result.Treatment, TEE: result.TEE{Type: "unknown"}, Missing: map[string]string{"tee.type": "CPUID leaf 0x21 could not be read"}},
		{ID: "", Role: result.Intermediate},
	}
	b.kase("default", nil)
	b.e.Runs = []result.Run{
		{ID: "p01-native", Env: "native", Case: "default", StartedAt: day, Seconds: 1, Status: result.OK, Metrics: []result.Metric{{Name: "startup_ready_seconds", Reason: "the worker printed no ready line", Source: result.Measured}},
			Counters: []result.Counter{{Name: "tee_syscalls_total", Scope: "process", Trust: result.Full, Note: "the source was off"}}, Missing: map[string]string{"startup_load_seconds": "the loader prints no time"}},
		{ID: "p01-vm", Env: "vm", Case: "default", Status: result.Failed, Reason: "exit status 127: not found"},
		{ID: "p02-native", Env: "native", Case: "default", StartedAt: day.Add(time.Second), Status: result.OK},
		{},
	}
	b.e.Comparisons = []result.Comparison{
		{Baseline: "native", Treatment: "vm", Case: "default", Metric: "startup_ready_seconds", Primary: true, Verdict: stats.Invalid, Reasons: []string{"no pair has both values"}},
		{Baseline: "native", Treatment: "vm", Case: "default", Metric: "startup_load_seconds"},
		{},
	}
	b.e.Attribution = []result.Attribution{{Reason: "no counters"}}
	b.e.Guards = []result.Guard{{ID: "pairs", Level: result.Refuse, Message: "no valid pair of 6", Help: "Look at the raw output of p01-vm."}, {}}
	b.e.References = []result.Reference{{}}
	b.e.EndedAt = nil
	return b.e
}

var fioWorkload = result.Workload{
	Name: "fio", Version: 1, Doc: "Random and sequential reads and writes of a file, from fio's json+ output.",
	Metrics: []result.MetricDesc{
		{Name: "fio_read_bytes_per_second", Help: "Read throughput.", Unit: "bytes_per_second", Better: "higher"},
		{Name: "fio_latency_seconds", Help: "Completion latency.", Unit: "seconds", Better: "lower"},
	},
}

// refused: a guard makes the primary verdict invalid; there is also a histogram.
func refused() *result.Experiment {
	b := newBuilder("fio random read", "5f1d4a92-11aa-4f0e-8d3e-2a6d1f1b7c33", fioWorkload, result.Blocked, result.GradeB, 6)
	b.env("vm", result.Baseline, "qemu", "none").Software.Hypervisor = "KVM"
	cvm := b.env("cvm", result.Treatment, "qemu", "sev")
	cvm.TEE.Debug = true
	cvm.Software.Hypervisor = "KVM"
	b.kase("rw=randread", map[string]string{"rw": "randread"})
	for pair := range 6 {
		for pos, env := range []string{"vm", "cvm"} {
			speed, latency := 38e9, 85e-6
			if env == "cvm" {
				speed, latency = 1.2e9, 892e-6
			}
			r := b.run(env, "rw=randread", pair, pos, 0.05, speed, latency)
			r.Metrics[1].Histogram = &result.Histogram{Bounds: []float64{1e-4, 1e-3, 1e-2}, Counts: []uint64{uint64(900 + pair), 80, 19, 1}, Sum: 1000 * latency}
			r.Metrics[1].N = 1000 + int64(pair)
		}
	}
	c := b.compare("vm", "cvm", "rw=randread", "fio_read_bytes_per_second", true, 0.09)
	c.Verdict, c.Material, c.Bound = stats.Invalid, false, result.AtMost
	c.Ratio, c.Low, c.High, c.Cost, c.CostLow, c.CostHigh, c.BootLow, c.BootHigh, c.MDE, c.SDLog = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	c.Headline = "No ratio of cvm to vm on fio read: vm reads 35.4 GiB/s, more than the disk can (6.8 GiB/s)."
	c.Reasons = []string{"a value is above a physical ceiling"}
	c.Changed = []result.Difference{{Field: "tee.type", Baseline: "none", Treatment: "sev"}, {Field: "software.page_cache_policy", Baseline: "host cache on", Treatment: "host cache off"}}
	b.compare("vm", "cvm", "rw=randread", "fio_latency_seconds", false, 0.12)
	b.e.Guards = []result.Guard{
		{ID: "ceiling", Level: result.Refuse, Message: "vm reads 35.4 GiB/s from a disk whose specification says 6.8 GiB/s: a cache answered", Help: "Switch the host's cache off (cache=none), or read more than the host's memory.", Metric: "fio_read_bytes_per_second", Values: map[string]float64{"ceiling_bytes_per_second": 7.3e9}},
		{ID: "dimensions", Level: result.Warn, Message: "two things differ between the arms: tee.type and software.page_cache_policy", Help: "Set the same cache policy in both arms.", Treatment: "cvm"},
		{ID: "debug", Level: result.Refuse, Message: "cvm runs with its memory open for debugging", Help: "Start it with a policy that forbids debugging.", Treatment: "cvm", Metric: "fio_read_bytes_per_second"},
	}
	return b.done("teescope bench run fio --env vm=qemu --env cvm=qemu,tee=sev-snp --param rw=randread --quick")
}

var redisWorkload = result.Workload{
	Name: "redis", Version: 1, Doc: "Pipelined GETs against a redis server, closed loop.", Operations: "redis_requests",
	Metrics: []result.MetricDesc{
		{Name: "redis_get_requests_per_second", Help: "Requests answered.", Unit: "requests_per_second", Better: "higher"},
		{Name: "redis_latency_p99_seconds", Help: "99th percentile of the response time.", Unit: "seconds", Better: "lower"},
	},
}

// layers: three environments in order, each step against the one below, and the whole.
func layers() *result.Experiment {
	b := newBuilder("redis GET by layers", "9e0d4a92-22bb-4f0e-8d3e-2a6d1f1b7c44", redisWorkload, result.Interleaved, result.GradeA, 10)
	b.env("native", result.Baseline, "native", "none")
	b.env("gramine-direct", result.Intermediate, "gramine-direct", "none")
	b.env("gramine-sgx", result.Treatment, "gramine-sgx", "sgx")
	b.kase("default", map[string]string{})
	model := map[string][]float64{"native": {612e3, 1.1e-3}, "gramine-direct": {402e3, 1.6e-3}, "gramine-sgx": {196e3, 3.4e-3}}
	exits := map[string]float64{"native": 0, "gramine-direct": 0, "gramine-sgx": 0.41}
	for pair := range 10 {
		for pos, env := range []string{"native", "gramine-direct", "gramine-sgx"} {
			r := b.run(env, "default", pair, pos, 0.03, model[env]...)
			b.count(r, "tee_syscalls_total", map[string]float64{"native": 0.25, "gramine-direct": 0.31, "gramine-sgx": 0.33}[env], result.Full, "syscall", "epoll_wait")
			b.count(r, "tee_sgx_enclave_exits_total", exits[env], result.Full)
			b.count(r, "tee_context_switches_total", 0.02, result.Full, "kind", "voluntary")
			if pair > 0 {
				continue
			}
			hostCount(r, "tee_context_switches_total", map[string]float64{"native": 0.37, "gramine-direct": 0.5, "gramine-sgx": 3.04}[env], "")
			if env == "gramine-sgx" {
				hostCount(r, "tee_context_switches_total", 1.85, "ksgxd")
			}
			hostCount(r, "tee_process_cpu_seconds_total", 2.1e-6, "")
			r.HostCounters = append(r.HostCounters, result.Counter{Name: "tee_llc_misses_total", Labels: map[string]string{}, Scope: "machine", Trust: result.None, Note: "the hypervisor gives this VM no performance counters"})
		}
	}
	step := func(base, treat string, rung int, half float64) {
		c := b.compare(base, treat, "default", "redis_get_requests_per_second", true, half)
		c.Rung = rung
		c.Changed = []result.Difference{{Field: "launcher", Baseline: base, Treatment: treat}}
	}
	step("native", "gramine-direct", 1, 0.03)
	step("gramine-direct", "gramine-sgx", 2, 0.04)
	step("native", "gramine-sgx", 0, 0.035)
	b.compare("native", "gramine-direct", "default", "redis_latency_p99_seconds", false, 0.06)
	b.compare("native", "gramine-sgx", "default", "redis_latency_p99_seconds", false, 0.08)
	b.e.References = []result.Reference{
		{ID: "teemon", Citation: "TEEMon, Middleware 2020", Workload: "redis GET, pipeline 8", TEE: "sgx", Low: 4.3, High: 10, Unit: "cost_ratio", Caveat: "SGX1 with 94 MB EPC; native limited by the link", Source: result.Literature},
	}
	return b.done("teescope bench run redis --env native --env gramine-direct --env gramine-sgx --out redis.json")
}

var zipWorkload = result.Workload{
	Name: "cpu-7zip", Version: 1, Doc: "7z b: compression and decompression of generated data, from 1 to N threads.",
	Metrics: []result.MetricDesc{
		{Name: "cpu_7zip_rating_instructions_per_second", Help: "Total rating.", Unit: "instructions_per_second", Better: "higher"},
		{Name: "cpu_7zip_compress_bytes_per_second", Help: "Compression speed.", Unit: "bytes_per_second", Better: "higher"},
	},
}

// threads: a sweep in which the confidential arm's first point is slow, so its efficiency looks better than possible.
func threads() *result.Experiment {
	b := newBuilder("cpu-7zip", "3c0d4a92-33cc-4f0e-8d3e-2a6d1f1b7c55", zipWorkload, result.Interleaved, result.GradeA, 8)
	b.env("native", result.Baseline, "native", "none")
	b.env("tdx", result.Treatment, "qemu", "tdx")
	points := []int{1, 2, 4, 8, 16, 32}
	rating := map[string][]float64{"native": {4544e6, 8900e6, 17200e6, 33000e6, 60000e6, 88000e6}, "tdx": {2803e6, 8850e6, 17150e6, 32000e6, 52100e6, 64200e6}}
	for _, n := range points {
		b.kase("threads="+strconv.Itoa(n), map[string]string{"threads": strconv.Itoa(n), "dictionary": "25"})
	}
	for pair := range 8 {
		for i, n := range points {
			for pos, env := range []string{"native", "tdx"} {
				b.run(env, "threads="+strconv.Itoa(n), pair, pos, 0.02, rating[env][i], rating[env][i]/1100)
			}
		}
	}
	half := []float64{0.03, 0.025, 0.012, 0.03, 0.025, 0.03}
	for i, n := range points {
		c := b.compare("native", "tdx", "threads="+strconv.Itoa(n), zipWorkload.Metrics[0].Name, true, half[i])
		c.Changed = []result.Difference{{Field: "launcher", Baseline: "native", Treatment: "qemu"}, {Field: "tee.type", Baseline: "none", Treatment: "tdx"}}
		b.compare("native", "tdx", "threads="+strconv.Itoa(n), zipWorkload.Metrics[1].Name, false, half[i]*1.2)
	}
	b.e.Guards = []result.Guard{{ID: "efficiency", Level: result.Warn, Message: "tdx has an efficiency of 158 % at 2 threads: its own single-thread value is the outlier", Help: "Read the cost, not the efficiency; look at what slows one thread.", Treatment: "tdx", Case: "threads=2"}}
	return b.done("teescope bench run cpu-7zip --env native --env tdx=qemu,tee=tdx --param 'threads=1 2 4 8 16 32'")
}

// machines: separate results of three clouds side by side.
// joined is results of several machines with the same two arms, whose cost is larger on each machine than on the one before.
func joined(machines int) *result.Experiment {
	b := newBuilder("start-up", "7c0d4a92-44dd-4f0e-8d3e-2a6d1f1b7c66", result.Workload{
		Name: "startup", Version: 1, Doc: "Start of a process.",
		Metrics: []result.MetricDesc{{Name: "startup_seconds", Help: "Start.", Unit: "seconds", Better: "lower"}},
	}, result.Unpaired, result.GradeD, 12)
	b.kase("default", map[string]string{"touch": "16MiB"})
	for m := range machines {
		for arm, name := range []string{"native", "runsc"} {
			id := fmt.Sprintf("cloud-%c/%s", 'a'+m, name)
			v := b.env(id, result.Treatment, name, "none")
			v.Hardware.Serial, v.Joined = fmt.Sprint("sha256:", m), &result.Joined{ID: fmt.Sprint(m), Name: fmt.Sprintf("cloud-%c", 'a'+m), Env: name, Kind: result.Interleaved}
			if m == 2 {
				v.Hardware.MemoryBytes, v.Missing["hardware.memory_bytes"] = 0, "the paravisor shows no memory map"
			}
			for k := range 12 {
				r := b.run(id, "default", k, arm, 0.02, 0.008*float64(m+1)*[]float64{1, 12 + 3*float64(m)}[arm])
				r.StartedAt = r.StartedAt.AddDate(m, 0, 0) // measured a year apart
			}
		}
	}
	b.e.Environments[0].Role = result.Baseline
	for _, v := range b.e.Environments[1:] {
		b.compare(b.e.Environments[0].ID, v.ID, "default", "startup_seconds", true, 0.05)
	}
	return b.done("teescope compare cloud-a.json cloud-b.json cloud-c.json")
}

func machines() *result.Experiment {
	b := newBuilder("secure channel", "1a0d4a92-44dd-4f0e-8d3e-2a6d1f1b7c66", result.Workload{
		Name: "channel", Version: 1, Doc: "Round trips over an attested channel in one process.",
		Metrics: []result.MetricDesc{{Name: "channel_round_trips_per_second", Help: "Round trips.", Unit: "round_trips_per_second", Better: "higher"}},
	}, result.Unpaired, result.GradeD, 12)
	for i, m := range []struct {
		id, cpu, kernel, tee string
		cloud                result.Cloud
		vcpu                 int
	}{
		{"gcp-plain", "Intel(R) Xeon(R) Platinum 8481C", "6.8.0-1021-gcp", "none", result.Cloud{Provider: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "c3-standard-8"}, 8},
		{"aws-snp", "AMD EPYC 9R14", "6.14.0-1012-aws", "sev", result.Cloud{Provider: "aws", Region: "us-east-1", Zone: "us-east-1b", InstanceType: "m7a.2xlarge"}, 8},
		{"azure-tdx", "Intel(R) Xeon(R) Platinum 8573C", "6.11.0-1018-azure", "tdx", result.Cloud{Provider: "azure", Region: "westeurope", InstanceType: "Standard_DC8es_v6"}, 8},
	} {
		v := b.env(m.id, []result.Role{result.Baseline, result.Intermediate, result.Treatment}[i], "native", m.tee)
		v.Hardware.CPUModel, v.Hardware.CPUs, v.Software.Kernel, v.Software.Hypervisor = m.cpu, m.vcpu, m.kernel, "KVM"
		v.Cloud, v.Hardware.Serial = &m.cloud, "sha256:"+m.id
		if m.id == "azure-tdx" {
			v.Hardware.MemoryBytes, v.Missing["hardware.memory_bytes"] = 0, "the paravisor shows no memory map"
			v.TEE.Declared = true
		}
	}
	b.kase("default", map[string]string{"payload": "64"})
	for _, env := range []string{"gcp-plain", "aws-snp", "azure-tdx"} {
		for k := range 12 {
			b.run(env, "default", k, 0, 0.06, map[string]float64{"gcp-plain": 81200, "aws-snp": 20400, "azure-tdx": 17800}[env])
		}
	}
	for _, env := range []string{"aws-snp", "azure-tdx"} {
		c := b.compare("gcp-plain", env, "default", "channel_round_trips_per_second", true, 0.07)
		c.Headline = fmt.Sprintf("%s needs %.2fx the time of gcp-plain on channel round trips: a difference of platforms (grade D), not the overhead of a TEE.", env, *c.Cost)
		c.Reasons = []string{"the hosts differ in CPU, kernel and cloud: no cause can be named"}
		c.Changed = []result.Difference{
			{Field: "hardware.cpu_model", Baseline: b.e.Environment("gcp-plain").Hardware.CPUModel, Treatment: b.e.Environment(env).Hardware.CPUModel},
			{Field: "software.kernel", Baseline: b.e.Environment("gcp-plain").Software.Kernel, Treatment: b.e.Environment(env).Software.Kernel},
			{Field: "cloud.provider", Baseline: "gcp", Treatment: b.e.Environment(env).Cloud.Provider}, {Field: "tee.type", Baseline: "none", Treatment: b.e.Environment(env).TEE.Type},
		}
	}
	b.e.Guards = []result.Guard{{ID: "dimensions", Level: result.Warn, Message: "the arms differ in 4 dimensions: hardware, kernel, cloud and TEE", Help: "Compare the same machine with the TEE on and off."}}
	return b.done("teescope compare gcp.json aws.json azure.json --prices prices.csv")
}
