package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/mutate"
)

// TestGenerators: what each known load generator prints is read, and without any of its lines a number is unknown, not
// another. The archive has outputs NAME and the numbers that they say as NAME/want.
// stand-in: memtier
func TestGenerators(t *testing.T) {
	a, err := txtar.ParseFile(filepath.Join("testdata", "generators", "outputs.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, f := range a.Files {
		text[f.Name] = string(f.Data)
	}
	read := func(program, out string) map[string]float64 {
		p, err := foreignParams(bench.Params{"load": program}, program)
		if err != nil {
			t.Fatal(err)
		}
		scale, err := p.Number("time-scale", true)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, v := range foreignPatterns {
			if p[v.name] == unprinted {
				continue
			}
			per := 1.0
			if v.name == "mean" || v.name == "tail" {
				per = scale
			}
			g := generatorOf(program)
			if n, err := foreignSum(p[v.name], out, v.summed || v.name == "answered", per); err == nil && (v.name != "failed" || g.doubt(out) == nil) {
				got[v.name] = n
			}
		}
		return got
	}
	tried := map[string]bool{}
	for name, out := range text {
		want, ok := text[name+"/want"]
		if !ok {
			continue
		}
		program := ""
		for _, g := range generators { // the longest that the name begins with
			if strings.HasPrefix(name, g.name) && len(g.name) > len(program) {
				program = g.name
			}
		}
		tried[program] = true
		whole := map[string]float64{}
		for line := range strings.Lines(want) {
			key, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			if whole[key], err = (bench.Params{"v": v}).Number("v", false); err != nil {
				t.Fatal(err)
			}
		}
		// Damage to a line changes no number of another one, and what it leaves is a number that can be.
		at := map[string][]int{} // lines of each pattern
		p, _ := foreignParams(bench.Params{"load": program}, program)
		for _, v := range foreignPatterns { // one match may have several lines
			re, err := customPattern(p, v.name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range re.FindAllStringIndex(out, -1) {
				for i := strings.Count(out[:m[0]], "\n"); i <= strings.Count(out[:m[1]], "\n"); i++ {
					at[v.name] = append(at[v.name], i)
				}
			}
		}
		for i, line := range strings.Split(out, "\n") {
			for _, pattern := range generatorOf(program).twice {
				if regexp.MustCompile(pattern).MatchString(line) {
					at["failed"] = append(at["failed"], i)
				}
			}
		}
		mutate.Try(t, name, []byte(out), " \t:,[]", func(m mutate.Mutation) error {
			got := read(program, string(m.Data))
			for key, v := range got {
				if !(v >= 0) || math.IsInf(v, 0) {
					return fmt.Errorf("%s is %v", key, v)
				}
			}
			for key, v := range whole {
				if g, ok := got[key]; m.Line >= 0 && !slices.Contains(at[key], m.Line) && (!ok || math.Abs(g-v) > 1e-12*v) {
					return fmt.Errorf("%s is %v, want %v", key, g, v)
				}
			}
			return nil
		})
		if got := read(program, out); !maps.EqualFunc(got, whole, func(x, y float64) bool { return math.Abs(x-y) <= 1e-12*math.Abs(y) }) {
			t.Errorf("%s: %v, want %v", name, got, whole)
		}
	}
	for _, g := range generators {
		if !tried[g.name] {
			t.Errorf("no output of %s", g.name)
		}
	}
}

// TestCountedTwice: ab counts a wrong answer of another length in two lines. How many have failed is then not known, and
// everything that needs the number is missing with that reason.
func TestCountedTwice(t *testing.T) {
	const ab = "Complete requests:      1000\nFailed requests:        400\n   (Connect: 0, Receive: 0, Length: 400, Exceptions: 0)\nNon-2xx responses:      400\n" +
		"Requests per second:    2500.00 [#/sec] (mean)\nTime per request:       3.200 [ms] (mean)\n  99%     21\n"
	for _, c := range []struct {
		name, out, failed string // a pattern of the user's
		errors            float64
	}{
		{"both", ab, "", math.NaN()},
		{"length alone", strings.ReplaceAll(ab, "Non-2xx responses:      400\n", ""), "", 0.4},
		{"status alone", strings.NewReplacer("Failed requests:        400", "Failed requests:        0", "Length: 400", "Length: 0").Replace(ab), "", 0.4},
		{"the user knows", ab, `^Failed requests:\s+(\d+)$`, 0.4},
	} {
		t.Run(c.name, func(t *testing.T) {
			params, err := bench.Complete("workload gateway-load", gatewayLoad.Params, bench.Params{"load": "ab -c {connections} https://{host}:{port}/64", "failed": c.failed})
			if err != nil {
				t.Fatal(err)
			}
			report, err := json.Marshal(load.Foreign{Seconds: 0.5, Together: 0.5, Cores: 2, Outputs: []string{c.out}})
			if err != nil {
				t.Fatal(err)
			}
			o := bench.Outcome{Params: params, Outside: host.Output{Stdout: report}}
			samples, err := parseGatewayLoad(o)
			got := map[string]float64{}
			for _, s := range samples {
				got[s.Desc.Name] = s.Value
			}
			for name, want := range map[string]float64{"said_requests_per_second": 2500, "said_mean_seconds": 0.0032, "error_ratio": c.errors, "requests_total": 1000 * (1 - c.errors), "requests_per_second": 2000 * (1 - c.errors)} {
				v, is := got[name]
				if is == math.IsNaN(want) || is && math.Abs(v-want) > 1e-9 {
					t.Errorf("%s: %s is %v (there: %v), want %v", c.name, name, v, is, want)
				}
				if math.IsNaN(want) && (err == nil || !strings.Contains(err.Error(), name+": between 400 and 800 answers were wrong: ab counts an answer of another length and another status in two lines")) {
					t.Errorf("%s: %s is missing for the reasons %v", c.name, name, err)
				}
			}
			if _, err := checkGatewayLoad(o); (err != nil) != math.IsNaN(c.errors) || err != nil && !strings.Contains(err.Error(), "between 400 and 800") {
				t.Errorf("%s: the check says %v", c.name, err)
			}
		})
	}
}

// TestForeignSum: a number that the load generator does not print is unknown, not 0, and one that has no meaning too.
func TestForeignSum(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		summed        bool
		want          float64 // NaN: an error
	}{
		{wrkPatterns.lost, "  Socket errors: connect 1, read 20, write 300, timeout 4000\nRequests/sec:     20.0\n", true, 4321},
		{wrkPatterns.lost, "Requests/sec:     20.0\n", true, 0},
		{wrkPatterns.lost, "unable to connect\n", true, math.NaN()},
		{`^Rate:(?: (\d+))?`, "Rate:\n", false, math.NaN()},
		{`^Rate: (\d+)`, "Rate: 1\nRate: 2\n", false, math.NaN()},
		{`^Rate: (\S+)`, "Rate: 1,234.5\n", false, 1234.5},
		{`^Rate: (\S+)`, "Rate: 0,512\n", false, math.NaN()},
		{`^Rate: (\S+)`, "Rate: -1\n", false, math.NaN()},
		{`^Rate: (\S+)`, "Rate: nan\n", false, math.NaN()},
		{`^Mean: (\S+)`, "Mean: 1.02s\n", false, 1.02},
		{`^Mean: (\S+)`, "Mean: 980.5ms\n", false, 0.9805},
		{`^Mean: (\S+)`, "Mean: 12\n", false, 12},
		{`^Mean: (\S+)`, "Mean: 12parsecs\n", false, math.NaN()},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := foreignSum(c.pattern, c.text, c.summed, 1)
			if (err != nil) != math.IsNaN(c.want) || err == nil && math.Abs(got-c.want) > 1e-12 {
				t.Errorf("%s in %q: %v, %v; want %v", c.pattern, c.text, got, err, c.want)
			}
		})
	}
}

// TestForeignParams: where the load generator is not known, the user says how it reports, failures too.
func TestForeignParams(t *testing.T) {
	ask := bench.Params{"load": "./mine", "answered": "a", "failed": "f", "lost": "l", "rate": "r"}
	if p, err := foreignParams(ask, "./mine"); err != nil || p["tail"] != unprinted || p["answered"] != "a" || p["time-scale"] != "1" {
		t.Errorf("%v, %v", p, err)
	}
	for _, name := range []string{"answered", "failed", "lost", "rate"} {
		t.Run(name, func(t *testing.T) {
			without := maps.Clone(ask)
			without[name] = ""
			if _, err := foreignParams(without, "./mine"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("without %s: %v", name, err)
			}
		})
	}
	p, err := foreignParams(bench.Params{"load": "/usr/bin/wrk", "rate": "mine"}, "/usr/bin/wrk")
	if err != nil || p["rate"] != "mine" || p["lost"] != wrkPatterns.lost {
		t.Errorf("%v, %v", p, err)
	}
	w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == "gateway-load" })]
	full, _ := bench.Complete("workload", w.Params, bench.Params{"load": "mine x", "answered": "(a)", "failed": unprinted, "lost": unprinted, "rate": "(r)"})
	if _, err := w.Job(full); err != nil {
		t.Error(errors.New("a load generator that prints no failures is refused: " + err.Error()))
	}
}
