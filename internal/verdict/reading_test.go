package verdict

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// exact makes runs around a printed number, close enough that the medians round to it: publications print one number
// and no spread.
func exact(metric, unit, direction, workload string, base, treat float64, arms ...string) *lab {
	l := newLab(metric, unit, direction, arms...)
	l.Workload.Name = workload
	for pair := range 10 {
		wiggle := 1 + 0.002*float64(pair%5-2)
		l.run("default", l.Environments[0].ID, pair, base*wiggle)
		l.run("default", l.Environments[1].ID, pair, treat*(1+0.001*float64(pair%3-1)))
	}
	return l
}

// TestUnsafeReadings has numbers from published reports of TEE performance whose claims their own tables contradict.
// None of our sentences may repeat these claims.
func TestUnsafeReadings(t *testing.T) {
	for _, c := range []struct {
		name    string
		lab     *lab
		o       Options
		guard   string // that must speak; "" is none
		level   result.Level
		verdict stats.Verdict
		says    []string // parts of the headline or of the guard
		never   []string // parts of the headline
	}{
		{"1: 36,230 MiB/s of a disk whose link gives 15.75 GB/s",
			exact("read_bytes_per_second", "bytes_per_second", "higher", "fio", 36230*(1<<20), 1168*(1<<20), "vm", "tdx").ceiling("read_bytes_per_second", "", 15.75e9, "PCIe 5.0 x4"), Options{},
			"impossible-value", result.Refuse, stats.Invalid, []string{"35.4 GiB/s", "2.41 times what is possible (PCIe 5.0 x4: 14.7 GiB/s)"}, []string{"costs", "gives"}},
		{"2: random read +40 %, where 85 µs became 892 µs",
			exact("latency_seconds", "seconds", "lower", "fio", 85e-6, 892e-6, "vm", "tdx"), Options{}, "", "", stats.Cost,
			[]string{"tdx costs 10.5x [", "892 µs against 85 µs"}, []string{"40 %"}},
		{"3: +702 %, which is the difference in milliseconds",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.0898, 0.7913, "http", "https"), Options{}, "", "", stats.Cost,
			[]string{"https costs 8.81x [", "791 ms against 89.8 ms"}, []string{"702", "7.02"}},
		{"4: TLS and a proxy shown as the cost of a TEE",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.0898, 0.7913, "http", "https").env(1, func(e *result.Environment) {
				e.Params["proxy"], e.Software.Encryption = "nginx", map[string]string{"network": "TLS 1.3"}
			}), Options{}, "several-dimensions", result.Warn, stats.Cost,
			[]string{"encryption (software.encryption.network", "they also differ in encryption"}, []string{"TEE", "tdx"}},
		{"5: one TDX server 5 to 7 times faster than another",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.6, 0.1, "prod5", "lab").env(1, func(e *result.Environment) {
				e.Hardware.Serial, e.Class = "host-2", "other"
			}), Options{}, "other-platform", result.Note, stats.Gain,
			[]string{"platform difference: lab against prod5", "grade D"}, []string{"overhead", "costs", "gives"}},
		{"6: 5 to 10 % slower and a 45 % loss, from a rating of 4,544 and 2,803",
			exact("rating", "mips", "higher", "cpu-7zip", 4544, 2803, "bare", "tdx"), Options{}, "", "", stats.Cost,
			[]string{"tdx costs 1.62x [", "2.8 k mips against 4.54 k mips"}, []string{"45 %", "5-10 %"}},
		{"7: superlinear scaling, x3.76 from 1 to 2 threads where bare metal has x1.96",
			sweep(newLab("rating", "mips", "higher", "bare", "tdx"), "threads", []int{1, 2}, map[string][]float64{"bare": {4544, 4544 * 1.96}, "tdx": {2346, 2346 * 3.76}}),
			Options{}, "suspect-baseline", result.Warn, stats.Inconclusive,
			[]string{"gives 3.76 times threads=1, an efficiency of 188 %", "against bare it is 51.6 % at threads=1 and 99 % at 2"}, []string{"superlinear"}},
		{"8: proofs of 16.4 G and 15.5 G cycles, one three times as large",
			exact("proof_seconds", "seconds", "lower", "zk", 100, 378, "native", "tdx").each("native", func(r *result.Run) { r.OutputDigest = "cycles=15.5G proof=8.4MB" }).
				each("tdx", func(r *result.Run) { r.OutputDigest = "cycles=16.4G proof=25.1MB" }), Options{}, "different-job", result.Refuse, stats.Invalid,
			[]string{"native gave cycles=15.5G proof=8.4MB, tdx gave cycles=16.4G proof=25.1MB"}, []string{"3.78"}},
		{"9: 3,341 TOPS from a data sheet",
			exact("int8_operations_per_second", "operations_per_second", "higher", "gpu", 485e12, 3341e12, "l4", "h100-cc").each("", func(r *result.Run) { r.Metrics[0].Source = result.VendorSpec }),
			Options{}, "spec-value", result.Refuse, stats.Invalid, []string{"comes from vendor_spec"}, []string{"6.9"}},
		{"10: -0.13 %, once",
			newLab("tokens_per_second", "tokens_per_second", "higher", "off", "cc").add("default", "off", 1, 1000, 0).add("default", "cc", 1, 998.7, 0),
			Options{}, "too-few-pairs", result.Warn, stats.Inconclusive, []string{"1 valid pair of default", "no verdict: cc against off", "0.999x without an interval"}, []string{"costs"}},
		{"11: 4 to 5 times the latency, the cost of AES-XTS, on three clouds",
			exact("echo_seconds", "seconds", "lower", "channel", 10e-6, 45e-6, "gcp", "aws-snp").env(1, func(e *result.Environment) {
				e.Hardware.Serial, e.Class, e.Hardware.CPUModel, e.Software.Kernel = "host-2", "other", "EPYC 7R13", "6.8"
			}), Options{}, "other-platform", result.Note, stats.Cost,
			[]string{"platform difference: aws-snp against gcp", "4.5x", "they also differ in host, kernel, processor"}, []string{"costs", "overhead"}},
		{"12: almost doubling, from 267,952 to 621,504",
			exact("requests_per_second", "requests_per_second", "higher", "redis", 267952, 621504, "sgx-old", "sgx-new"), Options{}, "", "", stats.Gain,
			[]string{"sgx-new gives 2.32x ["}, []string{"doubl"}},
		{"13: 23 % of native, whose link was full",
			exact("bytes_per_second", "bytes_per_second", "higher", "redis", 117e6, 0.23*117e6, "native", "scone").ceiling("bytes_per_second", "", 125e6, "NIC eth0, 1 Gbit/s"), Options{}, "saturated", result.Warn, stats.Cost,
			[]string{"native stands at the ceiling", "scone costs at least 4.35x ["}, nil},
		{"14: -58 % TCP with WireGuard and another MTU",
			exact("tcp_bits_per_second", "bits_per_second", "higher", "iperf", 10e9, 4.2e9, "gke", "constellation").env(0, func(e *result.Environment) {
				e.Hardware.NICs = []result.NIC{{Name: "eth0", MTU: 8896}}
			}).env(1, func(e *result.Environment) {
				e.Hardware.NICs = []result.NIC{{Name: "eth0", MTU: 1450}}
				e.Software.Encryption = map[string]string{"network": "WireGuard"}
			}), Options{}, "several-dimensions", result.Warn, stats.Cost,
			[]string{"network (hardware.nics.eth0.mtu 8896 / 1450)", "WireGuard", "they also differ in encryption, network"}, nil},
		{"15: 7,815 msg/s, because 1,000 messages took as long as 100",
			sweep(newLab("messages_per_second", "messages_per_second", "higher", "jvm", "native-sgx"), "messages", []int{100, 1000},
				map[string][]float64{"jvm": {781, 7815}, "native-sgx": {781, 7815}}), Options{}, "linearity", result.Refuse, stats.Invalid,
			[]string{"10 times the work (messages=100 to 1000) takes"}, []string{"costs", "equivalent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.lab.conclude(c.o)
			p := l.Comparisons[0]
			if p.Verdict != c.verdict {
				t.Errorf("verdict %q, want %q: %q", p.Verdict, c.verdict, p.Reasons)
			}
			text := p.Headline
			spoke := false
			for _, g := range l.Guards {
				if g.ID == c.guard && g.Level == c.level {
					spoke = true
				}
				if g.ID == c.guard {
					text += "\n" + g.Message
				}
				if c.guard == "" && g.Level != result.Note {
					t.Errorf("%s speaks: %s", g.ID, g.Message)
				}
			}
			if c.guard != "" && !spoke {
				t.Errorf("%s did not speak at level %s: %+v", c.guard, c.level, l.Guards)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in\n%s", want, text)
				}
			}
			for _, bad := range c.never {
				if strings.Contains(p.Headline, bad) {
					t.Errorf("%q is in %q", bad, p.Headline)
				}
			}
		})
	}
}

func TestSentence(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	e := newLab("requests_per_second", "requests_per_second", "higher").Experiment
	e.Workload.Metrics = append(e.Workload.Metrics, result.MetricDesc{Name: "latency_seconds", Unit: "seconds", Better: "lower"})
	base := result.Comparison{Baseline: "native", Treatment: "gramine-sgx", Case: "GET", Metric: "latency_seconds", Primary: true, Pairs: 10,
		Grade: result.GradeA, Verdict: stats.Cost, Ratio: f(3.1), Low: f(2.9), High: f(3.4), Cost: f(3.1), CostLow: f(2.9), CostHigh: f(3.4),
		BaseMedian: f(85e-6), TreatMedian: f(263.5e-6), MDE: f(0.061), Margin: 0.03, Bound: result.Exact}
	for _, c := range []struct {
		change func(*result.Comparison)
		want   string
	}{
		{func(*result.Comparison) {}, "gramine-sgx costs 3.1x [2.9, 3.4] of native on redis GET (latency_seconds: 264 µs against 85 µs), grade A, 10 pairs"},
		{func(c *result.Comparison) { c.BaseMedian, c.Case = nil, "default" }, "gramine-sgx costs 3.1x [2.9, 3.4] of native on redis (latency_seconds), grade A, 10 pairs"},
		{func(c *result.Comparison) { c.Grade = result.GradeD },
			"platform difference: gramine-sgx against native on redis GET is 3.1x [2.9, 3.4] (latency_seconds: 264 µs against 85 µs), grade D, 10 pairs"},
		{func(c *result.Comparison) {
			c.Verdict, c.Ratio, c.Low, c.High = stats.Equivalent, f(1.0042), f(0.99), f(1.012)
			c.TreatMedian = f(85.4e-6)
		}, "gramine-sgx and native are equivalent within 3 % on redis GET: 1.004x [0.990, 1.012] (latency_seconds: 85.4 µs against 85 µs), grade A, 10 pairs"},
		{func(c *result.Comparison) {
			c.Verdict, c.Ratio, c.Low, c.High, c.PairsNeeded = stats.Inconclusive, f(1.02), f(0.97), f(1.08), 34
			c.Reasons = []string{"the interval contains 1 and reaches beyond the margin"}
		}, "inconclusive: gramine-sgx against native on redis GET is 1.020x [0.970, 1.080] (latency_seconds: 264 µs against 85 µs), grade A, 10 pairs; " +
			"10 pairs would find 6.1 % four times in five, 34 would settle it; the interval contains 1 and reaches beyond the margin"},
		{func(c *result.Comparison) {
			c.Verdict, c.Reasons = stats.Invalid, []string{"nothing shows that it was on"}
		},
			"invalid: gramine-sgx against native on redis GET (latency_seconds): nothing shows that it was on"},
		{func(c *result.Comparison) { c.Verdict, c.Primary = "", false },
			"gramine-sgx against native on redis GET is 3.1x [2.9, 3.4] (latency_seconds: 264 µs against 85 µs), grade A, 10 pairs, no verdict on a metric that is not the primary one"},
		{func(c *result.Comparison) {
			c.Verdict, c.Cost, c.CostLow, c.CostHigh = stats.Gain, f(0.5), f(0.45), f(0.55)
		}, "gramine-sgx costs only 0.5x [0.45, 0.55] of native on redis GET (latency_seconds: 264 µs against 85 µs), grade A, 10 pairs"},
		{func(c *result.Comparison) {
			c.Metric, c.Verdict, c.BaseMedian, c.TreatMedian = "requests_per_second", stats.Gain, f(100e3), f(310e3)
		}, "gramine-sgx gives 3.1x [2.9, 3.4] of native on redis GET (requests_per_second: 310 k requests/s against 100 k requests/s), grade A, 10 pairs"},
		{func(c *result.Comparison) {
			c.Metric, c.Bound, c.BaseMedian = "requests_per_second", result.AtMost, nil
		},
			"gramine-sgx costs at least 3.1x [2.9, 3.4] of native on redis GET (requests_per_second), grade A, 10 pairs"},
		{func(c *result.Comparison) {
			c.Changed = []result.Difference{{Field: "software.kernel"}, {Field: "launcher"}, {Field: "env_id"}}
		}, "gramine-sgx costs 3.1x [2.9, 3.4] of native on redis GET (latency_seconds: 264 µs against 85 µs), grade A, 10 pairs; they also differ in kernel"},
		{func(c *result.Comparison) {
			c.Verdict, c.Low, c.High, c.CostLow, c.CostHigh, c.Pairs = stats.Inconclusive, nil, nil, nil, nil, 1
			c.Reasons = []string{"1 valid pair of GET, at least 6 are needed"}
		}, "no verdict: gramine-sgx against native on redis GET 3.1x without an interval (latency_seconds: 264 µs against 85 µs), grade A, 1 pair: 1 valid pair of GET, at least 6 are needed"},
	} {
		cmp := base
		c.change(&cmp)
		if got := Sentence(e, &cmp); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
