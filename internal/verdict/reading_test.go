package verdict

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// exact makes runs around a printed number, close enough that the medians round to it: publications print one number
// and no spread.
func exact(name, unit, direction, workload string, base, treat float64, arms ...string) *lab {
	l := newLab(name, unit, direction, arms...)
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
			[]string{"tdx costs 10.5x [", "892 µs in tdx against 85 µs in vm"}, []string{"40 %"}},
		{"3: +702 %, which is the difference in milliseconds",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.0898, 0.7913, "http", "https"), Options{}, "", "", stats.Cost,
			[]string{"https costs 8.81x [", "791 ms in https against 89.8 ms in http"}, []string{"702", "7.02"}},
		{"4: TLS and a proxy shown as the cost of a TEE",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.0898, 0.7913, "http", "https").env(1, func(e *result.Environment) {
				e.Params["proxy"], e.Software.Encryption = "nginx", map[string]string{"network": "TLS 1.3"}
			}), Options{}, "several-dimensions", result.Warn, stats.Cost,
			[]string{"encryption (software.encryption.network", "The arms also differ in encryption"}, []string{"TEE", "tdx"}},
		{"5: one TDX server 5 to 7 times faster than another",
			exact("latency_seconds", "seconds", "lower", "gateway", 0.6, 0.1, "prod5", "lab").env(1, func(e *result.Environment) {
				e.Hardware.Serial, e.Class = "host-2", "other"
			}), Options{}, "other-platform", result.Note, stats.Gain,
			[]string{"platform difference: lab against prod5", "grade D"}, []string{"overhead", "costs", "gives"}},
		{"6: 5 to 10 % slower and a 45 % loss, from a rating of 4,544 and 2,803",
			exact("rating", "mips", "higher", "cpu-7zip", 4544, 2803, "bare", "tdx"), Options{}, "", "", stats.Cost,
			[]string{"tdx costs 1.62x [", "2.8 k mips in tdx against 4.54 k mips in bare"}, []string{"45 %", "5-10 %"}},
		{"7: superlinear scaling, x3.76 from 1 to 2 threads where bare metal has x1.96",
			sweep(newLab("rating", "mips", "higher", "bare", "tdx"), "threads", []int{1, 2}, map[string][]float64{"bare": {4544, 4544 * 1.96}, "tdx": {2346, 2346 * 3.76}}),
			Options{}, "suspect-baseline", result.Warn, stats.Inconclusive,
			[]string{"tdx is 3.76 times as fast with threads=2 as with threads=1, an efficiency of 188 %, so its runs with threads=1 were probably too slow", "against bare the cost ratio of its medians is 1.94x at threads=1 and 1.010x at 2"}, []string{"superlinear"}},
		{"8: proofs of 16.4 G and 15.5 G cycles, one three times as large",
			exact("proof_seconds", "seconds", "lower", "zk", 100, 378, "native", "tdx").each("native", func(r *result.Run) { r.OutputDigest = "cycles=15.5G proof=8.4MB" }).
				each("tdx", func(r *result.Run) { r.OutputDigest = "cycles=16.4G proof=25.1MB" }), Options{}, "different-job", result.Refuse, stats.Invalid,
			[]string{"native gave cycles=15.5G proof=8.4MB, tdx gave cycles=16.4G proof=25.1MB"}, []string{"3.78"}},
		{"9: 3,341 TOPS from a data sheet",
			exact("int8_operations_per_second", "operations_per_second", "higher", "gpu", 485e12, 3341e12, "l4", "h100-cc").each("", func(r *result.Run) { r.Metrics[0].Source = result.VendorSpec }),
			Options{}, "spec-value", result.Refuse, stats.Invalid, []string{"comes from vendor_spec"}, []string{"6.9"}},
		{"10: -0.13 %, once",
			newLab("tokens_per_second", "tokens_per_second", "higher", "off", "cc").add("default", "off", 1, 1000, 0).add("default", "cc", 1, 998.7, 0),
			Options{}, "too-few-pairs", result.Warn, stats.Inconclusive, []string{"a verdict needs at least 6 pairs", "no verdict: cc against off on redis has a cost ratio of 1.001x without an interval"}, []string{"costs"}},
		{"11: 4 to 5 times the latency, the cost of AES-XTS, on three clouds",
			exact("echo_seconds", "seconds", "lower", "channel", 10e-6, 45e-6, "gcp", "aws-snp").env(1, func(e *result.Environment) {
				e.Hardware.Serial, e.Class, e.Hardware.CPUModel, e.Software.Kernel = "host-2", "other", "EPYC 7R13", "6.8"
			}), Options{}, "other-platform", result.Note, stats.Cost,
			[]string{"platform difference: aws-snp against gcp", "4.5x", "The arms also differ in host, kernel, processor"}, []string{"costs", "overhead"}},
		{"12: almost doubling, from 267,952 to 621,504",
			exact("requests_per_second", "requests_per_second", "higher", "redis", 267952, 621504, "sgx-old", "sgx-new"), Options{}, "", "", stats.Gain,
			[]string{"sgx-new costs only 0.431x ["}, []string{"doubl"}},
		{"13: 23 % of native, whose link was full",
			exact("bytes_per_second", "bytes_per_second", "higher", "redis", 117e6, 0.23*117e6, "native", "scone").ceiling("bytes_per_second", "", 125e6, "NIC eth0, 1 Gbit/s"), Options{}, "saturated", result.Warn, stats.Cost,
			[]string{"native reached the ceiling", "scone costs at least 4.35x ["}, nil},
		{"14: -58 % TCP with WireGuard and another MTU",
			exact("tcp_bits_per_second", "bits_per_second", "higher", "iperf", 10e9, 4.2e9, "gke", "constellation").env(0, func(e *result.Environment) {
				e.Hardware.NICs = []result.NIC{{Name: "eth0", MTU: 8896}}
			}).env(1, func(e *result.Environment) {
				e.Hardware.NICs = []result.NIC{{Name: "eth0", MTU: 1450}}
				e.Software.Encryption = map[string]string{"network": "WireGuard"}
			}), Options{}, "several-dimensions", result.Warn, stats.Cost,
			[]string{"network (hardware.nics.eth0.mtu 8896 / 1450)", "WireGuard", "The arms also differ in encryption, network"}, nil},
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
			text := p.Headline + "\n" + strings.Join(p.Details, " ") + "\n" + p.Open
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
	cost := func(c *result.Comparison, v, low, high float64) { // of the latency
		c.Cost, c.CostLow, c.CostHigh = f(v), f(low), f(high)
		c.Ratio, c.Low, c.High, c.TreatMedian = c.Cost, c.CostLow, c.CostHigh, f(v*85e-6)
	}
	const latency = " (latency)"
	medians := []string{"Latency: 264 µs in gramine-sgx against 85 µs in native."}
	none := []string{"A stand-in shows how the measurement works. It says nothing about the cost of the real thing."}
	long := "the client was the bottleneck of load=50% in native and in every other arm of this long experiment, as its CPUs were busy for all of the measured time"
	for _, c := range []struct {
		change  func(*result.Comparison)
		want    string
		details []string
		open    string
	}{
		{func(*result.Comparison) {}, "gramine-sgx costs 3.1x [2.9, 3.4] as much as native on redis GET" + latency, medians, ""},
		{func(c *result.Comparison) { c.BaseMedian, c.Case = nil, "default" }, "gramine-sgx costs 3.1x [2.9, 3.4] as much as native on redis (latency)", nil, ""},
		{func(c *result.Comparison) { c.Grade = result.GradeD },
			"platform difference: gramine-sgx against native on redis GET has a cost ratio of 3.1x [2.9, 3.4]" + latency, medians, ""},
		{func(c *result.Comparison) {
			c.Verdict, c.BaseMedian = stats.Equivalent, nil
			cost(c, 1.0042, 0.99, 1.012)
		},
			"gramine-sgx and native are equivalent within 3 % on redis GET: cost ratio 1.004x [0.990, 1.012]" + latency, nil, ""},
		{func(c *result.Comparison) {
			c.Verdict, c.PairsNeeded, c.BaseMedian = stats.Inconclusive, 34, nil
			cost(c, 1.02, 0.97, 1.08)
			c.Reasons = []string{"the interval contains 1 and reaches beyond the margin"}
		}, "inconclusive: gramine-sgx against native on redis GET has a cost ratio of 1.020x [0.970, 1.080]" + latency, nil, "34 pairs in all would probably decide (4 in 5)"},
		{func(c *result.Comparison) {
			c.Verdict, c.Reasons, c.BaseMedian = stats.Invalid, []string{"nothing shows that it was on"}, nil
		}, "invalid: gramine-sgx against native on redis GET (latency): nothing shows that it was on", nil, ""},
		{func(c *result.Comparison) { c.Verdict, c.Reasons, c.BaseMedian = stats.Invalid, []string{long}, nil }, // it moves below
			"invalid: gramine-sgx against native on redis GET" + latency, []string{capitalized(long) + "."}, ""},
		{func(c *result.Comparison) { c.Verdict, c.Primary, c.BaseMedian = "", false, nil },
			"gramine-sgx against native on redis GET has a cost ratio of 3.1x [2.9, 3.4]" + latency, []string{"Only the primary metric has a verdict."}, ""},
		{func(c *result.Comparison) { c.Verdict, c.BaseMedian = stats.Gain, nil; cost(c, 0.5, 0.45, 0.55) },
			"gramine-sgx costs only 0.5x [0.45, 0.55] as much as native on redis GET" + latency, nil, ""},
		{func(c *result.Comparison) { c.Bound, c.BaseMedian = result.AtMost, nil },
			"gramine-sgx costs at most 3.1x [2.9, 3.4] as much as native on redis GET (latency)", nil, ""},
		{func(c *result.Comparison) {
			c.Metric, c.Bound, c.BaseMedian = "requests_per_second", result.AtMost, nil
		}, "gramine-sgx costs at least 3.1x [2.9, 3.4] as much as native on redis GET (requests per second)", nil, ""},
		{func(c *result.Comparison) {
			c.Changed, c.BaseMedian = []result.Difference{{Field: "software.kernel"}, {Field: "launcher"}, {Field: "env_id"}}, nil
		}, "gramine-sgx costs 3.1x [2.9, 3.4] as much as native on redis GET" + latency, []string{"The arms also differ in kernel."}, ""},
		{func(c *result.Comparison) {
			c.Verdict, c.Low, c.High, c.CostLow, c.CostHigh, c.Pairs, c.PairsNeeded, c.BaseMedian = stats.Inconclusive, nil, nil, nil, nil, 1, 6, nil
			c.Reasons = []string{"1 valid pair of GET, at least 6 are needed"}
		}, "no verdict: gramine-sgx against native on redis GET has a cost ratio of 3.1x without an interval (latency)", nil, "a verdict needs at least 6 pairs"},
		// The printed ratio is the centre of the pairs, and the medians beside it give another, or even another side of 1.
		{func(c *result.Comparison) { c.TreatMedian = f(300e-6) },
			"gramine-sgx costs 3.1x [2.9, 3.4] as much as native on redis GET" + latency,
			[]string{"Latency: 300 µs in gramine-sgx against 85 µs in native.", "The ratio of these two medians is 3.53x. The headline's ratio is estimated from the pairs (Hodges-Lehmann), so it can differ."}, ""},
		{func(c *result.Comparison) {
			c.Metric, c.Verdict, c.Estimator, c.PairsNeeded = "requests_per_second", stats.Inconclusive, "hodges-lehmann-mann-whitney", 187
			c.Ratio, c.Low, c.High, c.Cost, c.CostLow, c.CostHigh = f(1/1.004), f(1/1.02), f(1/0.99), f(1.004), f(0.99), f(1.02)
			c.BaseMedian, c.TreatMedian = f(451e3), f(452e3)
		}, "inconclusive: gramine-sgx against native on redis GET has a cost ratio of 1.004x [0.990, 1.020] (requests per second)",
			[]string{"Requests per second: 452 k requests/s in gramine-sgx against 451 k requests/s in native.", "The ratio of these two medians is 0.998x. The headline's ratio is estimated from the unpaired runs (Hodges-Lehmann), so it can differ."},
			"187 unpaired runs in all would probably decide (4 in 5)"},
		// A stand-in has no grade and is no cost, whatever its verdict would be.
		{func(c *result.Comparison) { c.StandIn, c.BaseMedian = "gramine-sgx is emulated in software", nil },
			"stand-in: gramine-sgx against native on redis GET has a ratio of 3.1x [2.9, 3.4] (latency); gramine-sgx is emulated in software", none, ""},
		{func(c *result.Comparison) {
			c.StandIn, c.BaseMedian, c.Verdict, c.PairsNeeded = "gramine-sgx is really runsc, not sgx", nil, stats.Inconclusive, 34
		}, "stand-in: gramine-sgx against native on redis GET has a ratio of 3.1x [2.9, 3.4] (latency); gramine-sgx is really runsc, not sgx", none, ""},
	} {
		t.Run(c.want, func(t *testing.T) {
			cmp := base
			c.change(&cmp)
			phrase(e, &cmp)
			if cmp.Headline != c.want || !slices.Equal(cmp.Details, c.details) || cmp.Open != c.open {
				t.Errorf("got  %s\nwant %s\ndetails %q\nwant    %q\nopen %q\nwant %q", cmp.Headline, c.want, cmp.Details, c.details, cmp.Open, c.open)
			}
		})
	}
}

// TestOneDirection: whatever the verdict, the grade, the direction of the metric, the side of 1 and the bound, the only
// ratio of a headline is the cost ratio, and its words fit the side on which that is: "costs" with "only" below 1. Where it names
// medians, dividing them gives that ratio, or the headline says why not.
func TestOneDirection(t *testing.T) {
	numbers := regexp.MustCompile(`[\d.]+x`)
	said := 0
	for _, better := range []string{"lower", "higher"} {
		for _, treat := range []float64{0.2, 0.9, 0.99, 1, 1.01, 1.1, 4.21} { // in what is measured
			for _, noise := range []float64{0, 0.002, 0.05, 0.3} {
				for _, hosts := range [][2]string{{"h", "h"}, {"h", "i"}} {
					for _, n := range []int{1, 5, 8} {
						for _, bound := range []result.Bound{result.Exact, result.AtMost, result.AtLeast} {
							l := newLab("speed", "", better).add("default", "native", n, 100, noise).add("default", "gramine-sgx", n, 100*treat, noise)
							for i := range l.Environments {
								l.Environments[i].Hardware.Serial = hosts[i]
							}
							l.conclude(Options{})
							c := l.Comparisons[0]
							c.Bound = bound
							cost := *c.Ratio
							if better == "higher" {
								cost = 1 / cost
							}
							s := Sentence(l.Experiment, &c)
							where := fmt.Sprintf("%s is better, %g of the baseline with noise %g, %d pairs, hosts %q, bound %s: %s", better, treat, noise, n, hosts, bound, s)
							got := numbers.FindAllString(s, -1)
							if len(got) == 0 || got[0] != metric.Times(cost) {
								t.Errorf("%s\nwant the cost ratio %s, as in the table", where, metric.Times(cost))
								continue
							}
							said++
							medians := *c.TreatMedian / *c.BaseMedian
							if better == "higher" {
								medians = 1 / medians
							}
							far := math.Abs(math.Log(medians/cost)) > 0.011 || (medians-1)*(cost-1) < 0 && metric.Times(medians) != metric.Times(cost)
							if len(got) > 1 || len(strings.Fields(s)) > MostWords {
								t.Errorf("%s\nwant one ratio and at most %d words", where, MostWords)
							}
							c.Headline = s
							below := strings.Join(Details(l.Experiment, &c), " ")
							if says := strings.Contains(below, "is estimated from the pairs"); far && !says || says && !strings.Contains(below, "these two medians is "+metric.Times(medians)+".") {
								t.Errorf("%s\n%s\nthe medians give %s", where, below, metric.Times(medians))
							}
							overhead := hosts[0] == hosts[1]
							wants := map[string]bool{
								"costs only ":          c.Verdict == stats.Gain && overhead && bound == result.Exact,
								" costs ":              (c.Verdict == stats.Gain || c.Verdict == stats.Cost) && overhead,
								"platform difference:": !overhead && c.Verdict != stats.Inconclusive,
								"inconclusive:":        c.Verdict == stats.Inconclusive && c.CostLow != nil,
								"no verdict:":          c.CostLow == nil,
								"at least ":            c.CostLow != nil && (bound == result.AtLeast) == (better == "lower") && bound != result.Exact,
								"at most ":             c.CostLow != nil && (bound == result.AtMost) == (better == "lower") && bound != result.Exact,
								"faster":               false, "gives": false, "slower": false,
							}
							for word, want := range wants {
								if strings.Contains(strings.Split(s, " (")[0], word) != want {
									t.Errorf("%s\n%q: want %v", where, word, want)
								}
							}
							if c.Verdict == stats.Cost && cost <= 1 || c.Verdict == stats.Gain && cost >= 1 {
								t.Errorf("%s\nthe verdict is %s", where, c.Verdict)
							}
							// Guards name the same ratio.
							for _, g := range l.spoke("wide-interval") {
								if got := numbers.FindString(g.Message); got != metric.Times(cost) {
									t.Errorf("%s\nand the guard says %s", where, g.Message)
								}
							}
						}
					}
				}
			}
		}
	}
	if said < 1000 {
		t.Errorf("%d headlines were read", said)
	}
}

// TestSentencesEnd: no sentence of a comparison ends in a colon that nothing follows, also of a metric that is not the primary one.
func TestSentencesEnd(t *testing.T) {
	for _, n := range []int{0, 1, 5, 6} {
		l := newLab("latency_seconds", "seconds", "lower").add("default", "native", n, 1, 0.01).add("default", "gramine-sgx", 5, 2, 0.01)
		l.also("", "other_seconds", "seconds", "lower", 3).conclude(Options{})
		if len(l.Comparisons) != 2 {
			t.Fatalf("%d comparisons", len(l.Comparisons))
		}
		for _, c := range l.Comparisons {
			if s := c.Headline; strings.HasSuffix(strings.TrimSpace(s), ":") || strings.Contains(s, noReason) {
				t.Errorf("%d pairs: %q", n, s)
			}
		}
	}
}

// TestConcluded: what is concluded follows from the runs, whatever a document says: it may be of an older version, or edited. The
// document itself stays as it is.
func TestConcluded(t *testing.T) {
	l := redis().conclude(Options{})
	want, guards := l.Comparisons[0], len(l.Guards)
	edited := *want.Cost * 99
	l.Comparisons[0].Headline, l.Comparisons[0].Cost, l.Comparisons[0].Verdict = "gramine-sgx costs 99x", &edited, stats.Equivalent
	got := Concluded(l.Experiment, Options{})
	c := got.Comparisons[0]
	if c.Headline != want.Headline || *c.Cost != *want.Cost || c.Verdict != want.Verdict {
		t.Errorf("it says %q, %v, %s; want %q, %v, %s", c.Headline, *c.Cost, c.Verdict, want.Headline, *want.Cost, want.Verdict)
	}
	if l.Comparisons[0].Headline != "gramine-sgx costs 99x" || len(l.Guards) != guards {
		t.Errorf("the document itself says %q, with %d guards", l.Comparisons[0].Headline, len(l.Guards))
	}
}
