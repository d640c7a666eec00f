package launchers

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// logs runs a job n times and returns the logarithms of its seconds.
func logs(t *testing.T, n int, p bench.Params) []float64 {
	t.Helper()
	env := open(t, &fake, p)
	var out []float64
	for range n {
		o, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"sleep", "0.123"}}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, math.Log(o.Inside.Wall.Seconds()/0.123))
	}
	return out
}

func moments(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}

func TestFakeDurations(t *testing.T) {
	const n = 4000
	if got := logs(t, 3, bench.Params{"sd": "0"}); !slices.Equal(got, []float64{0, 0, 0}) {
		t.Errorf("without noise: %v", got)
	}
	if a, b := logs(t, 20, nil), logs(t, 20, nil); !slices.Equal(a, b) {
		t.Errorf("one seed, two series: %v and %v", a, b)
	}
	if a, b := logs(t, 20, nil), logs(t, 20, bench.Params{"seed": "2"}); slices.Equal(a, b) {
		t.Error("two seeds, one series")
	}
	// The mean of n draws is outside four standard errors once in 16,000 times.
	if mean, sd := moments(logs(t, n, bench.Params{"cost": "1.25", "sd": "0.05"})); math.Abs(mean-math.Log(1.25)) > 4*0.05/math.Sqrt(n) || math.Abs(sd/0.05-1) > 0.05 {
		t.Errorf("cost 1.25, sd 0.05: mean %v, sd %v", math.Exp(mean), sd)
	}
	// Shared noise and drift affect both arms and cancel in the ratio of a pair.
	weather := bench.Params{"shared-sd": "0.2", "drift": "0.001", "sd": "0.01"}
	base := logs(t, n, weather)
	weather["seed"], weather["cost"] = "2", "1.1"
	treat := logs(t, n, weather)
	ratios := make([]float64, n)
	for i := range ratios {
		ratios[i] = treat[i] - base[i]
	}
	if mean, sd := moments(ratios); math.Abs(mean-math.Log(1.1)) > 4*0.0142/math.Sqrt(n) || math.Abs(sd/0.0142-1) > 0.05 {
		t.Errorf("pairs: ratio %v, sd %v", math.Exp(mean), sd)
	}
	if _, sd := moments(base); sd < 0.2 {
		t.Errorf("an arm alone: sd %v", sd)
	}
	if got := logs(t, 101, bench.Params{"sd": "0", "drift": "0.01"})[100]; math.Abs(got-100*math.Log(1.01)) > 1e-6 {
		t.Errorf("drift: %v", got)
	}
	slow := 0
	for _, v := range logs(t, n, bench.Params{"sd": "0.01", "slow-share": "0.3", "slow-ratio": "3"}) {
		if v > math.Log(2) {
			slow++
		}
	}
	if share := float64(slow) / n; math.Abs(share-0.3) > 4*math.Sqrt(0.3*0.7/n) {
		t.Errorf("a share of %v is slow", share)
	}
}

func TestFakeFailures(t *testing.T) {
	recorded, err := filepath.Abs("testdata/fake.out")
	if err != nil {
		t.Fatal(err)
	}
	job := bench.Job{Inside: host.Cmd{Argv: []string{"anything"}}}
	run := func(p bench.Params) (bench.Outcome, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if p["failure"] == "hang" {
			go cancel()
		}
		return open(t, &fake, p).Run(ctx, job)
	}
	if out, err := run(nil); err != nil || string(out.Inside.Stdout) != "done\n" || len(out.Processes) != 0 {
		t.Errorf("no failure: %v %q", err, out.Inside.Stdout)
	}
	if out, err := run(bench.Params{"failure": "run"}); err == nil || out.Inside.Code != 1 || len(out.Inside.Stdout) != 0 {
		t.Errorf("failure=run: %v %+v", err, out.Inside)
	}
	if out, err := run(bench.Params{"failure": "output"}); err != nil || strings.HasSuffix(string(out.Inside.Stdout), "\n") {
		t.Errorf("failure=output: %v %q", err, out.Inside.Stdout)
	}
	if _, err := run(bench.Params{"failure": "hang"}); err == nil {
		t.Error("failure=hang ends well")
	}
	if out, err := run(bench.Params{"output": recorded}); err != nil || string(out.Inside.Stdout[:8]) != "windows\n" || len(out.Inside.Lines) != 3 || out.Inside.Lines[2].At != out.Inside.Wall {
		t.Errorf("output from a file: %v %q %v", err, out.Inside.Stdout, out.Inside.Lines)
	}
	failed := 0
	env := open(t, &fake, bench.Params{"failure": "run", "failure-share": "0.25"})
	for range 400 {
		if _, err := env.Run(t.Context(), job); err != nil {
			failed++
		}
	}
	if failed < 65 || failed > 135 {
		t.Errorf("%d of 400 runs fail, want about 100", failed)
	}
	for _, p := range []bench.Params{{"failure": "open"}, {"seed": "x"}, {"sd": "NaN"}, {"cost": "-1"}, {"slow-share": "2"}, {"output": "/nowhere"}} {
		full, err := bench.Complete("fake", fake.Params, p)
		if err != nil {
			t.Fatal(err)
		}
		if env, err := fake.Open(t.Context(), host.Local(), full); err == nil || env != nil {
			t.Errorf("%v opens", p)
		}
	}
	if _, err := env.Run(t.Context(), bench.Job{Inside: host.Cmd{Argv: []string{"{work}/micro", "capture", "/proc"}}}); err == nil {
		t.Error("a fake shows an inside")
	}
	var d result.Environment
	if err := env.Describe(t.Context(), &d); err != nil || d.TEE.Type != "none" || !d.TEE.Declared || d.Software.Versions["fake"] == "" {
		t.Errorf("described as %+v (%v)", d, err)
	}
}
