package formats

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/store/storetest"
	"github.com/teescope/teescope/internal/tee"
	"github.com/teescope/teescope/internal/verdict"
)

var day = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

func num(v float64) *float64 { return &v }

// catalog and conclude are those of the product: every comparison, sentence, guard and attribution of the documents is made by it
// from runs.
var catalog = &explain.Catalog{Prices: prices.Catalog(), Causes: causes.All}

func options() verdict.Options { return verdict.Options{Diff: environment.Diff, Catalog: catalog} }

// documents returns the documents that every format must write.
func documents(t testing.TB) map[string]report.Document {
	one := func(e ...*result.Experiment) report.Document {
		return report.Document{Experiments: e, Made: day.Add(8 * time.Hour), Catalog: catalog}
	}
	overhead := one(startup(t))
	overhead.Findings = observed(t)
	platforms := one(machines(t))
	platforms.Prices = []report.Price{
		{Name: "c3-standard-8", PerHour: 0.4176, Currency: "USD", Date: "2026-11-02", Source: "list price, us-central1"},
		{Name: "m7a.2xlarge", PerHour: 0.46368, Currency: "USD", Date: "2026-11-02", Source: "list price, us-east-1"},
	}
	return map[string]report.Document{
		"overhead":  overhead,
		"missing":   one(absent()),
		"invalid":   one(refused()),
		"ladder":    one(layers()),
		"four":      one(fourArms()),
		"sweep":     one(threads()),
		"platforms": platforms,
		"relative":  one(joined(t, 3)),
		"suite":     one(startup(t), refused(), threads()),
		"blank":     one(&result.Experiment{}),
		"empty":     {},
	}
}

// found keeps what observed returns.
var found []findings.Finding

// observed returns what rules find in their own fixtures.
func observed(t testing.TB) (out []findings.Finding) {
	if found != nil {
		return slices.Clone(found)
	}
	for _, name := range []string{"enclave_transitions", "cpu_steal"} {
		a, err := txtar.ParseFile(filepath.Join("..", "..", "findings", "rules", "testdata", name, "fires.txtar"))
		if err != nil {
			t.Fatal(err)
		}
		part := func(name string) string {
			return string(a.Files[slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })].Data)
		}
		since, err := time.ParseDuration(part("at")[:len(part("at"))-1])
		if err != nil {
			t.Fatal(err)
		}
		o := findings.DefaultOptions()
		o.Now, o.Started = func() time.Time { return time.Unix(0, 0).Add(since) }, time.Unix(0, 0)
		rule := rules.All[slices.IndexFunc(rules.All, func(r *findings.Rule) bool { return r.Name == name })]
		e := findings.New([]*findings.Rule{rule}, storetest.Load(t, part("load")), o)
		e.Evaluate(t.Context())
		for _, r := range e.Records() {
			out = append(out, r.Finding)
		}
	}
	if len(out) < 2 {
		t.Fatalf("the rules find only %+v", out)
	}
	found = out
	return slices.Clone(out)
}

// builder makes the runs of an experiment from a model: a median per arm, noise, and the drift of the machine.
type builder struct {
	e   *result.Experiment
	rng *rand.Rand
	at  time.Time
}

func newBuilder(name, id string, w result.Workload, kind result.Kind, pairs int) *builder {
	return &builder{rng: rand.New(rand.NewPCG(7, uint64(len(name)))), at: day, e: &result.Experiment{
		SchemaVersion: result.SchemaVersion, ID: id, Name: name, StartedAt: day,
		Tool:     result.Tool{Name: "teescope", Version: "0.3.0", Go: "go1.26.0"},
		Design:   result.Design{Kind: kind, Seed: 4021773, PairsPlanned: pairs, Alpha: 0.05, Margin: 0.03, Primary: w.Metrics[0].Name, Subject: "environment"},
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

// totals adds the CPU time of the workload per operation, in seconds, and the sums over kinds of what was counted.
func totals(r *result.Run, cpu float64) {
	sums := map[string]float64{"tee_process_cpu_seconds_total": cpu, "tee_wait_seconds_total": 0}
	for _, c := range r.Counters {
		sums[c.Name] += *c.PerOperation
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		v, per := 1000*sums[name], sums[name]
		r.Counters = append(r.Counters, result.Counter{Name: name, Labels: map[string]string{}, Value: &v, PerOperation: &per, Scope: "process", Trust: result.Full})
	}
}

// declare makes a TEE one that the launcher shows and nothing inside.
func declare(v *result.Environment, value string) {
	v.TEE.Declared, v.TEE.Facts = true, nil
	v.TEE.Evidence = []tee.Evidence{{Source: "launcher", Value: value}}
}

func hostCount(r *result.Run, name string, value float64, helper string) {
	c := result.Counter{Name: name, Labels: map[string]string{}, Value: num(value * 1000), PerOperation: &value, Scope: "machine", Trust: result.Full}
	if helper != "" {
		c.Labels["helper"] = helper
	}
	r.HostCounters = append(r.HostCounters, c)
}

// done concludes the experiment, as the engine does when its runs have ended.
func (b *builder) done(o verdict.Options, command ...string) *result.Experiment {
	end := b.at.Add(2 * time.Second)
	b.e.EndedAt = &end
	b.e.Tool.Command = command
	verdict.Conclude(b.e, o)
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

// startup: a plain comparison with a clear cost, an outlier, an excluded pair, counters, prices and a noise floor.
func startup(t testing.TB) *result.Experiment {
	b := newBuilder("startup", "0b9f2f8e-6f3c-4f0e-9d3e-2a6d1f1b7c11", startupWorkload, result.Interleaved, 10)
	b.env("native", result.Baseline, "native", "none")
	sgx := b.env("gramine-sgx", result.Treatment, "gramine-sgx", "sgx")
	declare(sgx, "the loader's output names an enclave")
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
				b.count(r, explain.EnclaveEntries, 0, result.Full, "runtime", "gramine")
				totals(r, 0.0118)
			} else {
				r := b.run("gramine-sgx", "default", pair, pos, 0.035, 0.0386, 0.0291, 0.00071, 61e6)
				b.count(r, "tee_syscalls_total", 38, result.Partial, "syscall", "mmap")
				b.count(r, "tee_syscalls_total", 2.1, result.Full, "syscall", "read")
				b.count(r, "tee_page_faults_total", 802, result.Full, "space", "user", "cause", "no_page_found")
				b.count(r, "tee_context_switches_total", 11, result.Full, "kind", "voluntary")
				b.count(r, explain.EnclaveEntries, 412, result.Full, "runtime", "gramine")
				totals(r, 0.0365)
				r.Counters = append(r.Counters, result.Counter{Name: "tee_llc_misses_total", Labels: map[string]string{}, Scope: "process", Trust: result.None, Note: "a production enclave hides its hardware events"})
				if pair == 6 {
					v := *r.Metrics[0].Value * 1.3
					r.Metrics[0].Value, r.Status, r.Reason = &v, result.Excluded, "steal of 9 % during the run"
				}
			}
		}
	}
	b.e.UnitCosts = &result.UnitCosts{MeasuredAt: day, Units: []result.UnitCost{
		{Event: "syscall", Seconds: 2.1e-7, Low: 2e-7, High: 2.3e-7}, {Event: "fault_no_page_found", Seconds: 2.1e-5, Low: 1.9e-5, High: 2.4e-5},
		{Event: "switch_same_core", Seconds: 1.4e-6, Low: 1.2e-6, High: 1.7e-6},
	}}
	b.e.References = []result.Reference{
		{ID: "scone", Citation: "SCONE, OSDI 2016", Workload: "Linux services", TEE: "SGX1", Low: 0.83, High: 1.67, Unit: "cost_ratio", Caveat: "throughput, authors' framework", Source: result.Literature},
		{ID: "jvm", Citation: "Gramine TLS scaling study", Workload: "JVM TLS server start", TEE: "SGX", Low: 3.2, High: 65, Unit: "seconds", Caveat: "start-up only", Source: result.Literature},
	}
	o := options()
	var err error
	if o.Calibration, err = verdict.Calibrate(alike()); err != nil {
		t.Fatal(err)
	}
	return b.done(o, "teescope", "bench", "run", "startup", "--env", "native", "--env", "gramine-sgx,manifest=startup.manifest", "--out", "startup.json")
}

// alike is the calibration of startup's host: identical arms.
func alike() *result.Experiment {
	b := newBuilder("startup", "0b9f2f8e-6f3c-4f0e-9d3e-2a6d1f1b7c12", startupWorkload, result.Interleaved, 10)
	b.env("native", result.Baseline, "native", "none")
	b.env("native#2", result.Treatment, "native", "none")
	b.kase("default", map[string]string{})
	for pair := range 10 {
		for pos, env := range []string{"native", "native#2"} {
			b.run(env, "default", pair, pos, 0.01, 0.0124, 0.0031, 0.00042, 5.1e6)
		}
	}
	b.e.Design.Calibration = true
	return b.done(options(), "teescope", "bench", "calibrate", "startup")
}

// absent: everything that can be missing is missing.
func absent() *result.Experiment {
	b := newBuilder("startup", "7d6a3c1e-0000-4000-8000-1b6d1f1b7c22", startupWorkload, result.Interleaved, 6)
	b.e.Environments = []result.Environment{
		{ID: "native", Role: result.Baseline, Missing: map[string]string{"hardware.cpu_model": "/proc/cpuinfo: permission denied", "software.kernel": "uname is not allowed here"}},
		{ID: "vm", Role: result.Treatment, TEE: result.TEE{Type: "unknown"}, Missing: map[string]string{"tee.type": "CPUID leaf 0x21 could not be read"}},
	}
	b.kase("default", nil)
	b.e.Runs = []result.Run{
		{ID: "p01-native", Env: "native", Case: "default", StartedAt: day, Seconds: 1, Status: result.OK, Metrics: []result.Metric{{Name: "startup_ready_seconds", Reason: "the worker printed no ready line", Source: result.Measured}},
			Counters: []result.Counter{{Name: "tee_syscalls_total", Scope: "process", Trust: result.Full, Note: "the source was off"}}, Missing: map[string]string{"startup_load_seconds": "the loader prints no time"}},
		{ID: "p01-vm", Env: "vm", Case: "default", Status: result.Failed, Reason: "exit status 127: not found"},
		{ID: "p02-native", Env: "native", Case: "default", StartedAt: day.Add(time.Second), Status: result.OK},
		{},
	}
	b.done(options())
	// Parts of a document that somebody else wrote.
	b.e.EndedAt = nil
	b.e.Environments = append(b.e.Environments, result.Environment{Role: result.Intermediate})
	b.e.Comparisons = append(b.e.Comparisons, result.Comparison{})
	b.e.Attribution = append(b.e.Attribution, result.Attribution{Reason: "no counters"})
	b.e.Guards = append(b.e.Guards, result.Guard{})
	b.e.References = []result.Reference{{}}
	return b.e
}

var fioWorkload = result.Workload{
	Name: "fio", Version: 1, Doc: "Random and sequential reads and writes of a file, from fio's json+ output.",
	Metrics: []result.MetricDesc{
		{Name: "fio_read_bytes_per_second", Help: "Read throughput.", Unit: "bytes_per_second", Better: "higher"},
		{Name: "fio_latency_seconds", Help: "Completion latency.", Unit: "seconds", Better: "lower"},
	},
}

// refused: guards make the verdict invalid; there is also a histogram.
func refused() *result.Experiment {
	b := newBuilder("fio random read", "5f1d4a92-11aa-4f0e-8d3e-2a6d1f1b7c33", fioWorkload, result.Blocked, 6)
	vm := b.env("vm", result.Baseline, "qemu", "none")
	vm.Software.Hypervisor, vm.Software.CachePolicy = "KVM", "host cache on"
	cvm := b.env("cvm", result.Treatment, "qemu", "sev")
	cvm.TEE.Debug, cvm.TEE.Facts[0].Debug, cvm.TEE.Settings["debug"] = true, true, "on"
	cvm.Software.Hypervisor, cvm.Software.CachePolicy = "KVM", "host cache off"
	b.e.Design.Ceilings = []result.Ceiling{{Metric: "fio_read_bytes_per_second", Value: 7.3e9, Source: "data sheet of the disk"}}
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
	return b.done(options(), "teescope", "bench", "run", "fio", "--env", "vm=qemu", "--env", "cvm=qemu,tee=sev-snp", "--param", "rw=randread", "--quick")
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
	b := newBuilder("redis GET by layers", "9e0d4a92-22bb-4f0e-8d3e-2a6d1f1b7c44", redisWorkload, result.Interleaved, 10)
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
			b.count(r, explain.EnclaveEntries, exits[env], result.Full, "runtime", "gramine")
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
	b.e.References = []result.Reference{
		{ID: "teemon", Citation: "TEEMon, Middleware 2020", Workload: "redis GET, pipeline 8", TEE: "sgx", Low: 4.3, High: 10, Unit: "cost_ratio", Caveat: "SGX1 with 94 MB EPC; native limited by the link", Source: result.Literature},
	}
	return b.done(options(), "teescope", "bench", "run", "redis", "--env", "native", "--env", "gramine-direct", "--env", "gramine-sgx", "--out", "redis.json")
}

// fourArms: a container, an emulated guest, and a runtime in place of a TEE, with as many metrics and counters as a server under
// load has, on a machine that others keep busy.
func fourArms() *result.Experiment {
	w := redisWorkload
	w.Metrics = slices.Clone(w.Metrics)
	for _, name := range []string{"response_p50", "response_p90", "response_p999", "response_max", "service_p50", "service_p90", "service_p99", "service_p999", "service_max",
		"server_cpu_per_request", "connect_p50", "connect_p99", "fill"} {
		w.Metrics = append(w.Metrics, result.MetricDesc{Name: "redis_" + name + "_seconds", Help: "A time.", Unit: "seconds", Better: "lower"})
	}
	b := newBuilder("redis in four places", "1c0d4a92-44aa-4f0e-8d3e-2a6d1f1b7c66", w, result.Interleaved, 6)
	model := map[string]float64{"native": 1, "container": 1.06, "guest": 9.4, "tdx": 3.1}
	arms := []string{"native", "container", "guest", "tdx"}
	b.env("native", result.Baseline, "native", "none")
	b.env("container", result.Intermediate, "container", "none").Software.Limits = map[string]string{"container": "podman", "pids": "2048"}
	guest := b.env("guest", result.Intermediate, "qemu", "none")
	guest.TEE.Settings = map[string]string{"accelerator": "tcg: software emulation, whose times are not what a VM costs; no kvm: no /dev/kvm"}
	guest.Software.Kernel, guest.Software.Cmdline, guest.Software.ClockSource = "6.1.0-57-cloud-amd64", "console=ttyS0 panic=-1", "hpet"
	tdx := b.env("tdx", result.Treatment, "runsc", "none")
	tdx.StandsFor, tdx.Software.Kernel = "tdx", "4.19.0-gvisor"
	b.kase("default", map[string]string{})
	for pair := range 6 {
		for pos, env := range arms {
			values := []float64{612e3 / model[env]}
			for i := range len(w.Metrics) - 1 {
				values = append(values, float64(i+1)*1e-4*model[env])
			}
			r := b.run(env, "default", pair, pos, 0.03, values...)
			if env == "container" {
				r.Interference.ForeignCPU = num(0.62)
			}
			process := map[string]string{"guest": "qemu-system-x86"}[env]
			for i, call := range []string{"read", "write", "epoll_wait", "futex", "clock_gettime", "getpid", "openat", "close", "fstat", "mmap", "munmap", "brk", "accept4", "sendto", "recvfrom",
				"setsockopt", "getsockopt", "fcntl", "ioctl", "poll", "select", "nanosleep"} {
				b.count(r, "tee_syscalls_total", 0.5/float64(i+1)*model[env], result.Full, "syscall", call)
			}
			b.count(r, explain.WaitSamples, 1e-5*model[env], result.Full, "call", "futex", "state", "lock")
			for i := range r.Counters {
				if process != "" {
					r.Counters[i].Labels["process"] = process
				}
			}
			totals(r, 1.6e-6*model[env])
		}
	}
	b.e.UnitCosts = &result.UnitCosts{MeasuredAt: day, Units: []result.UnitCost{{Event: "syscall", Seconds: 2.1e-7, Low: 2e-7, High: 2.3e-7}}}
	return b.done(options(), "teescope", "bench", "run", "redis", "--env", "native", "--env", "container", "--env", "guest=vm", "--env", "tdx=runsc,stands_for=tdx", "--quick")
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
	b := newBuilder("cpu-7zip", "3c0d4a92-33cc-4f0e-8d3e-2a6d1f1b7c55", zipWorkload, result.Interleaved, 8)
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
	return b.done(options(), "teescope", "bench", "run", "cpu-7zip", "--env", "native", "--env", "tdx=qemu,tee=tdx", "--param", "threads=1 2 4 8 16 32")
}

// join compares results side by side.
func join(t testing.TB, es ...*result.Experiment) *result.Experiment {
	e, err := verdict.JoinResults(es, options())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// joined is results of several machines with the same two arms, whose cost is larger on each machine than on the one before.
func joined(t testing.TB, machines int) *result.Experiment {
	w := result.Workload{
		Name: "startup", Version: 1, Doc: "Start of a process.",
		Metrics: []result.MetricDesc{{Name: "startup_seconds", Help: "Start.", Unit: "seconds", Better: "lower"}},
	}
	var es []*result.Experiment
	for m := range machines {
		b := newBuilder(fmt.Sprintf("cloud-%c", 'a'+m), fmt.Sprintf("7c0d4a92-44dd-4f0e-8d3e-2a6d1f1b7c%02d", m), w, result.Interleaved, 12)
		b.at = b.at.AddDate(m, 0, 0) // measured a year apart
		b.e.StartedAt = b.at
		b.kase("default", map[string]string{"touch": "16MiB"})
		for arm, name := range []string{"native", "runsc"} {
			v := b.env(name, []result.Role{result.Baseline, result.Treatment}[arm], name, "none")
			v.Hardware.Serial = fmt.Sprint("sha256:", m)
			if m == 2 {
				v.Hardware.MemoryBytes, v.Missing["hardware.memory_bytes"] = 0, "the paravisor shows no memory map"
			}
		}
		for k := range 12 {
			for arm, name := range []string{"native", "runsc"} {
				b.run(name, "default", k, arm, 0.02, 0.008*float64(m+1)*[]float64{1, 12 + 3*float64(m)}[arm])
			}
		}
		es = append(es, b.done(options(), "teescope", "bench", "run", "startup", "--env", "native", "--env", "runsc"))
	}
	return join(t, es...)
}

// machines: separate results of three clouds side by side.
func machines(t testing.TB) *result.Experiment {
	w := result.Workload{
		Name: "channel", Version: 1, Doc: "Round trips over an attested channel in one process.",
		Metrics: []result.MetricDesc{{Name: "channel_round_trips_per_second", Help: "Round trips.", Unit: "round_trips_per_second", Better: "higher"}},
	}
	var es []*result.Experiment
	for i, m := range []struct {
		id, cpu, kernel, tee string
		cloud                result.Cloud
		trips                float64
	}{
		{"gcp-plain", "Intel(R) Xeon(R) Platinum 8481C", "6.8.0-1021-gcp", "none", result.Cloud{Provider: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "c3-standard-8"}, 81200},
		{"aws-snp", "AMD EPYC 9R14", "6.14.0-1012-aws", "sev", result.Cloud{Provider: "aws", Region: "us-east-1", Zone: "us-east-1b", InstanceType: "m7a.2xlarge"}, 20400},
		{"azure-tdx", "Intel(R) Xeon(R) Platinum 8573C", "6.11.0-1018-azure", "tdx", result.Cloud{Provider: "azure", Region: "westeurope", InstanceType: "Standard_DC8es_v6"}, 17800},
	} {
		b := newBuilder(m.cloud.Provider, fmt.Sprintf("1a0d4a92-44dd-4f0e-8d3e-2a6d1f1b7c%02d", i), w, result.Single, 12)
		v := b.env(m.id, result.Baseline, "native", m.tee)
		v.Hardware.CPUModel, v.Hardware.CPUs, v.Software.Kernel, v.Software.Hypervisor = m.cpu, 8, m.kernel, "KVM"
		v.Cloud, v.Hardware.Serial = &m.cloud, "sha256:"+m.id
		if m.id == "azure-tdx" {
			v.Hardware.MemoryBytes, v.Missing["hardware.memory_bytes"] = 0, "the paravisor shows no memory map"
			declare(v, "the provider's instance type is a confidential one")
		}
		b.kase("default", map[string]string{"payload": "64"})
		for k := range 12 {
			b.run(m.id, "default", k, 0, 0.06, m.trips)
		}
		es = append(es, b.done(options(), "teescope", "bench", "run", "channel", "--env", m.id+"=native"))
	}
	return join(t, es...)
}
