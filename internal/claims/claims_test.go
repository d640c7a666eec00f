package claims

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/golden"
)

var update = flag.Bool("update", false, "write the golden reports")

// shipped returns the claims files of the repository.
func shipped(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("../../experiments/claims/*.csv")
	if err != nil || len(names) == 0 {
		t.Fatalf("claims files: %v, %v", names, err)
	}
	return names
}

func parse(t *testing.T, name string) *Table {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab, err := Read(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tab
}

// TestShipped compares the report on every shipped file with a golden one.
func TestShipped(t *testing.T) {
	for _, name := range shipped(t) {
		base := filepath.Base(name)
		t.Run(base, func(t *testing.T) {
			r := parse(t, name).Check()
			if len(r.Undecided) > 0 {
				t.Errorf("not decided: %q", r.Undecided)
			}
			var b strings.Builder
			if err := r.Text(&b, base); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "golden", strings.TrimSuffix(base, ".csv")+".txt")
			if *update {
				golden.Write(t, file, []byte(b.String()))
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b.String() != string(want) {
				t.Errorf("the report is not the golden one; got\n%s", b.String())
			}
		})
	}
}

// TestHeadlines: the refuted headlines of the sources, each with the kind of its fault and the arithmetic that a
// reader would do by hand.
func TestHeadlines(t *testing.T) {
	for _, c := range []struct {
		file, text string
		kind       Kind
		says       []string // in follows and readings
	}{
		{"phala-gateway", "702% latency", Difference, []string{"(791.3 ms - 89.8 ms) / 89.8 ms = +781.2 %", "791.3 ms - 89.8 ms = 701.5 ms"}},
		{"phala-gateway", "5-7x higher latency", Arithmetic, []string{"8.812 x"}},
		{"phala-gateway-load", "closed loop", Law, []string{"= 1,926 ms", "1,672 ms"}},
		{"phala-storage", "Write Throughput: 36.2 GB/s", Column, []string{"412 MiB/s", "seq_read[TDX-Lab, VM] = 36230 MiB/s"}},
		{"phala-storage", "Outperforms bare-metal", Row, []string{"1168 MiB/s", "seq_read[TDX-Lab, VM] = 36230 MiB/s"}},
		{"phala-storage", "cannot read its host's disk", Ceiling, []string{"9973 MiB/s", "4338 MiB/s"}},
		{"phala-storage", "~40% latency", Arithmetic, []string{"(892 us - 85 us) / 85 us = +949.4 %", "(482 us - 213 us) / 213 us = +126.3 %"}},
		{"phala-scaling", "5-10% slower", Arithmetic, []string{"(4,544 MIPS - 2,803 MIPS) / 4,544 MIPS = 38.31 %"}},
		{"phala-scaling", "45% performance loss", Arithmetic, []string{"38.31 %"}},
		{"phala-percore", "per-core compression", Column, []string{"40,677 MIPS / 8 threads = 5,085 MIPS", "40,677 MIPS / 32 cores = 1,271 MIPS"}},
		{"phala-zktls", "25.1k proofs", Metric, []string{"1 proof / 852.73 s", "proof_size[TEE GPU] = 25,123,323 B"}},
		{"phala-zktls", "289%", Arithmetic, []string{"(25,123,323 B - 8,340,752 B) / 8,340,752 B = +201.2 %"}},
		{"phala-zktls", "column proof_size", Jobs, []string{"3.012 x"}},
		{"phala-zktls", "the same number of cycles", Jobs, []string{"0.9471 x"}},
		{"phala-zktls", "18.3 kHz", Metric, []string{"18,312 kHz"}},
		{"phala-zktls", "GPU-accelerated", Best, []string{"TEE GPU is the last of 2"}},
		{"phala-hardware", "Hourly Cost", Direction, []string{"= 0.322 x", "2.5 $/h / 0.805 $/h = 3.106 x"}},
		{"phala-scaling", "scaling of rating", Scaling, []string{"7,889 MIPS / (2 x 2,803 MIPS) = 140.7 %", "71,665 MIPS / (16 x 7,889 MIPS) = 56.78 %"}},
		{"phala-scaling", "+12.5%", Points, []string{"+18.56 %", "79.91 % - 67.4 % = 12.51 points"}},
		{"phala-scaling", "+35.2% avg", Average, []string{"= 32.38 %"}},
		{"phala-scaling", "superior scaling", Best, []string{"bare metal 97,853 MIPS, TEE 71,665 MIPS"}},
		{"phala-llm", "gap of ITL", Law, []string{"123.30 token/s * 1.6743 s = 206.4 tokens"}},
		{"phala-llm", "5.29%", Row, []string{"itl_overhead[H100, Phi3-14B-128k] = 5.29 %"}},
		{"phala-llm-laws", "time outside of the GPU", Law, []string{"4.58 % / (100 % - 95.7 %) = 1.065", "6.85 % / (100 % - 88.3 %) = 0.5855"}},
		{"phala-llm-laws", "exponentially with model size", Scaling, []string{"-0.13 % is not above 0", "makes it 0.2417 % at 70, and it is 2.29 %"}},
		{"phala-llm-laws", "Every 10k token", Arithmetic, []string{"= 46.58 tokens"}},
		{"phala-llm-laws", "At >50k tokens", Arithmetic, []string{"= 253 tokens"}},
		{"cmt-channel", "memory encryption (Azure)", FixedCost, []string{"is 256 x, the value from 80.9 us to 51.2 us is 0.6329 x"}},
		{"cmt-channel", "Azure is fastest", Best, []string{"Azure SNP is the last of 3", "it is the best by channel: 1.62 ms"}},
		{"cmt-channel", "same payload", Order, []string{"1.62 ms against 1.85 ms", "725 MB/s against 825 MB/s"}},
		{"cmt-handshake", "of inference time on all three", Constant, []string{"100,000 us"}},
		{"cmt-handshake", "p99", Percentile, []string{"of 100 means", "is the largest of them"}},
		{"teemon-overhead", "from 5% to 17%", Arithmetic, []string{"max(100 % - 87 %, 100 % - 95 %) = 13 %"}},
		{"teemon-size", "87MB", Missing, []string{"78, 105, 127", "78 has the same digits"}},
		{"teemon-commits", "almost doubling", Arithmetic, []string{"= 2.319 x"}},
		{"constellation", "slight performance overhead", Arithmetic, []string{"(9406 Mbit/s - 4049 Mbit/s) / 9406 Mbit/s = 56.95 %"}},
		{"constellation", "2,400 IOPS", Ceiling, []string{"5344 IOPS"}},
	} {
		r := parse(t, "../../experiments/claims/"+c.file+".csv").Check()
		i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Text == c.text })
		if i < 0 {
			i = slices.IndexFunc(r.Findings, func(f Finding) bool { return strings.Contains(f.Text, c.text) })
		}
		if i < 0 {
			t.Errorf("%s: nothing is found on %q", c.file, c.text)
			continue
		}
		f := r.Findings[i]
		if f.Kind != c.kind {
			t.Errorf("%s: %q is found to be %s, want %s", c.file, c.text, f.Kind, c.kind)
		}
		all := strings.Join(append(slices.Clone(f.Follows), f.Readings...), "\n")
		for _, s := range c.says {
			if !strings.Contains(all, s) {
				t.Errorf("%s: %q does not say %q:\n%s", c.file, c.text, s, all)
			}
		}
	}
}

// small is a small file with every feature; tests change a line of it.
const small = `# source: a test
# column: arm arm
# column: threads thread scale
# column: rate req/s higher
# column: speedup x = rate / rate[threads=1]
# column: share % part
# claim: "half" rate[tee] / rate[native] = 50 %
arm,threads,rate,speedup,share
native,1,100,1.00,100
native,2,190,1.90,100
tee,1,50,1.00,50
tee,2,95,1.90,50
`

func TestSmall(t *testing.T) {
	check := func(data string) {
		t.Helper()
		tab, err := Parse([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		r := tab.Check()
		if len(r.Findings) != 0 || len(r.Undecided) != 0 || r.Claims != 1 || r.Cells != 4 {
			t.Errorf("report %+v", r)
		}
	}
	check(small)
	check("\ufeff" + strings.ReplaceAll(small, "\n", "\r\n")) // as Windows writes it
	check(strings.TrimSuffix(small, "\n"))
}

// TestBadFiles: an error names the line and what is expected.
func TestBadFiles(t *testing.T) {
	change := func(old, new string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(small, old, new, 1)
	}
	_, table, _ := strings.Cut(small, "50 %\n")
	for _, c := range []struct{ data, want string }{
		{"", "the file is empty"},
		{" \n\n", "the file is empty"},
		{"# source: x\n", "no table follows the header"},
		{table, "the header is missing"},
		{"\xff\xfe" + small, "not UTF-8"},
		{change("# source: a test\n", ""), "no `# source:`"},
		{change("# claim:", "# clam:"), `line 7: unknown key "clam"`},
		{change("# claim:", "# words"), `line 7: unknown key "words`},
		{change("# source: a test", "# source:"), "line 1: source is empty"},
		{change("share % part", "share furlong"), `line 6: column: share: unknown unit "furlong"`},
		{change("share % part", "share % part lots"), `line 6: column: share: do not know "lots"`},
		{change("share % part", "Share %"), "line 6: column: want a name"},
		{change("share % part", "rate %"), "line 6: column rate is there twice"},
		{change("scale", "scale work"), "line 3: column: threads has two kinds"},
		{change("# column: share % part\n", ""), `line 7: column "share" has no`},
		{change("arm,threads,rate,speedup,share", "arm,threads,rate,speedup,speedup"), `line 8: column "speedup" is there twice`},
		{change("arm,threads,rate,speedup,share", "arm,threads,rate,speedup"), `line 8: column "share" of line 6 is not in the table`},
		{change("native,2,190,1.90,100", "native,2,190,1.90"), "line 10: 4 cells, and the table has 5 columns"},
		{change("native,2,190,1.90,100", `native,2,"190,1.90,100`), `line 12: extraneous or missing "`},
		{change("native,2,190", "native,2,fast"), `line 10: column rate: "fast" is not a number`},
		{change("native,2,190", "native,2,1.9.0"), "line 10: column rate"},
		{change("native,2,190", "native,2,1e9"), `line 10: column rate: "1e9" is not a number`},
		{change("native,2,190", "native,two,190"), `line 10: column threads: "two" is not a number`},
		{change("native,2,190", "native,1,190"), "line 10: row has the same arm, labels and parameters as line 9"},
		{change("native,2,190", "# note: late"), "line 10: a header line after the table"},
		{change("rate[tee]", "speed[tee]"), `line 7: claim: no column "speed"`},
		{change("rate[tee]", "rate[sgx]"), `line 7: claim: no row is called "sgx"`},
		{change("rate[tee]", "rate[threads=3]"), "line 7: claim: no row has threads=3; there are 1, 2"},
		{change("rate[tee]", "rate[threads<3]"), "chosen with = only"},
		{change("rate[tee]", "rate[tee"), `line 7: claim: no row is called`},
		{change("rate[tee]", "(rate[tee]"), `want ")"`},
		{change("rate[tee] /", "rate[tee] rate"), "line 7: claim: want =, about"},
		{change("= 50 %", "= 50 furlong"), "unknown unit"},
		{change("= 50 %", "= 50 % or so"), `do not understand "or so"`},
		{change("= 50 %", "in 60..40 %"), "the range ends before it begins"},
		{change("= 50 %", "= 50 % within much"), "want a share like 5 %"},
		{change(`"half" `, ""), "in double quotes first"},
		{change(`"half"`, `"half`), "no closing quote"},
		{change("rate[tee] / rate[native] = 50 %", "best(share) = tee"), "says `higher` or `lower`"},
		{change("rate[tee] / rate[native] = 50 %", "best(rate) = sgx"), "no row has arm=sgx"},
		{change("rate[tee] / rate[native] = 50 %", "twice(rate) = 2"), `unknown function "twice"`},
		{change("rate[tee] / rate[native] = 50 %", strings.Repeat("(", 100)+"1"), "nested deeper"},
		{change("= rate / rate[threads=1]", "= "), "no formula after ="},
		{change("= rate / rate[threads=1]", "= rate / rate[threads=9]"), "line 5: column speedup: no row has threads=9"},
	} {
		_, err := Parse([]byte(c.data))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
}

// TestRules: one small table for each rule that the shipped files do not show.
func TestRules(t *testing.T) {
	const head = "# source: a test\n# column: arm arm\n"
	for name, c := range map[string]struct {
		data string
		kind Kind
		says string
	}{
		"negative time":  {head + "# column: latency ms\narm,latency\na,-3\n", Impossible, "latency[a] is -3 ms"},
		"part over 100":  {head + "# column: hit % part\narm,hit\na,104\n", Impossible, "hit[a] is 104 %"},
		"unit of a cell": {head + "# column: rate msg/s\narm,rate\na,260 MB/s\n", Unit, `"260 MB/s"`},
		"formula of other units": {head + "# column: rate msg/s\n# column: share % = rate * 2\narm,rate,share\na,1,200\n",
			Unit, "the formula gives a rate"},
		"fixed cost": {head + "# column: n msg work\n# column: rate msg/s higher\narm,n,rate\na,1000,7815\na,100,781\n",
			FixedCost, "10 x the work in 0.9994 x the time"},
		"fixed cost, elapsed": {head + "# column: n msg work\n# column: t s elapsed\narm,n,t\na,1000,0.13\na,100,0.13\n",
			FixedCost, "10 x the work in 1 x the time"},
		"baseline out of line": {head + "# column: c client scale\n# column: rate msg/s higher\narm,c,rate\na,1,7815\na,2,177\na,4,326\na,8,544\n",
			Scaling, "the baseline is out of line"},
		"direction": {head + "# column: t ms lower\n# claim: \"3x better\" advantage(t[a], t[b]) = 3.0 x\narm,t\na,30\nb,10\n",
			Direction, "t is better when lower"},
		"other base": {head + "# column: t ms lower\n# claim: \"67 % less\" change(t[a], t[b]) = 67 %\narm,t\na,30\nb,10\n",
			Base, "the other way round"},
		"average without a row": {head + "# column: t ms lower\n# claim: \"avg\" mean(t) = 15 ms\narm,t\na,10\nb,20\nc,90\n",
			Average, "without t[c]"},
		"worst": {head + "# column: t ms lower\n# claim: \"slowest\" worst(t) = a\narm,t\na,10\nb,20\n",
			Best, "a is the last of 2"},
	} {
		tab, err := Parse([]byte(c.data))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := tab.Check()
		if len(r.Findings) != 1 {
			t.Errorf("%s: findings %+v, undecided %q", name, r.Findings, r.Undecided)
			continue
		}
		f := r.Findings[0]
		if all := strings.Join(append(f.Follows, f.Readings...), "\n"); f.Kind != c.kind || !strings.Contains(all, c.says) {
			t.Errorf("%s: %s, want %s and %q:\n%s", name, f.Kind, c.kind, c.says, all)
		}
	}
}

// TestExponential: equal steps have equal factors, within what the rounding of the first two cells leaves open.
func TestExponential(t *testing.T) {
	for _, c := range []struct {
		a, b, far string // at 1, 2 and 4
		claim     string
		found     int
	}{
		{"80", "40", "10", "exponential(cost, size)", 0},
		{"80", "40", "10.9", "exponential(cost, size)", 0}, // within 10 %, and the cells are rounded
		{"80.0", "40.0", "20.0", "exponential(cost, size)", 1},
		{"80.0", "40.0", "20.0", "exponential(cost, size) within 100 %", 0},
		{"80.0", "40.0", "-0.1", "exponential(cost, size)", 1},
		{"8", "4", "1.3", "exponential(cost, size)", 0}, // 7.5 to 8.5 and 3.5 to 4.5 allow 0.6 to 1.6
		{"1.0", "2.0", "8.0", "exponential(cost, size)", 0},
		{"1.0", "2.0", "4.0", "exponential(cost, size)", 1}, // grows linearly
		{"0", "0", "5", "exponential(cost, size)", 0},       // no factor is known
	} {
		tab, err := Parse([]byte("# source: a test\n# column: size parameter\n# column: cost %\n# claim: \"exponentially\" " + c.claim +
			"\nsize,cost\n1," + c.a + "\n2," + c.b + "\n4," + c.far + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if r := tab.Check(); len(r.Findings) != c.found || len(r.Undecided) != 0 {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// TestRounding: a difference within rounding is no contradiction, a larger one is.
func TestRounding(t *testing.T) {
	f := func(a, b, printed string, found bool) {
		t.Helper()
		tab, err := Parse([]byte("# source: a test\n# column: arm arm\n# column: on op/s\n# column: off op/s\n# column: loss % = (off - on) / off\narm,on,off,loss\nx," + a + "," + b + "," + printed + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(tab.Check().Findings) > 0; got != found {
			t.Errorf("(%s - %s) / %s = %s %%: found %v", b, a, b, printed, got)
		}
	}
	f("66.58", "69.78", "4.58", false) // 4.586, truncated
	f("66.58", "69.78", "4.59", false) // rounded
	f("66.58", "69.78", "4.62", true)
	f("2.48", "2.48", "-0.13", false) // both rounded: -0.4 to 0.4
	f("2.48", "2.48", "-1.13", true)
	f("0.0546", "0.0463", "-18.02", false)
	f("90", "100", "10", false)
	f("80", "100", "10", true)
}

// TestUndecided: a value that cannot be computed is reported, and is not a finding.
func TestUndecided(t *testing.T) {
	for _, c := range []string{
		"rate[tee] / 0 op = 5",
		"linear(rate, threads) where threads=1",
		"exponential(rate, threads)", // two points fit any exponential
		"varies(rate) where tee",
	} {
		tab, err := Parse([]byte(strings.Replace(small, "rate[tee] / rate[native] = 50 %", c, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if r := tab.Check(); len(r.Findings) != 0 || len(r.Undecided) != 1 {
			t.Errorf("%s: %+v", c, r)
		}
	}
}

func TestUnits(t *testing.T) {
	for in, want := range map[string]float64{"ms": 1e-3, "µs": 1e-6, "MiB/s": 1 << 20, "Mbit/s": 1e6 / 8, "kIOPS": 1e3, "MIPS": 1e6, "TFLOPS": 1e12,
		"%": 0.01, "$/h": 1. / 3600, "kproof/s": 1e3, "Gbps": 1e9 / 8, "msg/s": 1, "min": 60, "thread": 1} {
		t.Run(in, func(t *testing.T) {
			u, err := parseUnit(in, nil)
			if err != nil || !same(u.scale, want) {
				t.Errorf("%s: %v, %v; want %v", in, u.scale, err, want)
			}
		})
	}
	for _, in := range []string{"", "mss", "s/s/s", "kk", "Kims", "/s", "m", "mB", "furlong"} {
		if u, err := parseUnit(in, nil); err == nil {
			t.Errorf("%q is accepted as %+v", in, u)
		}
	}
}

func TestGroup(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 1: "1", 701.5: "701.5", 781.18: "781.2", 38.31: "38.31", 1234567: "1,234,567", -15.62: "-15.62", 0.003: "0.003", 100: "100", 999.96: "1,000"} {
		if got := group(in); got != want {
			t.Errorf("group(%v) = %q, want %q", in, got, want)
		}
	}
}

// FuzzParse: no input panics, and what parses can be checked and printed.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("../../experiments/claims/*.csv")
	if err != nil || len(names) == 0 {
		f.Fatal(errors.Join(err, errors.New("no seeds")))
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<13 {
			return
		}
		if err := sound(data); err != nil {
			t.Error(err)
		}
	})
}
