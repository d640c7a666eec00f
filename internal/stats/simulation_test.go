package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise is the model of a run's value around 1: 3 % multiplicative noise, and in
// 8 % of the runs an extra delay of 25 % on average. With drift, all runs of an
// experiment share an AR(1) process (0.95, steps of 3 %) that moves from run to run.
type noise struct {
	rng   *rand.Rand
	drift bool
	level float64
}

func (s *noise) run() float64 {
	x := math.Exp(0.03 * s.rng.NormFloat64())
	if s.rng.Float64() < 0.08 {
		x *= 1 + 0.25*s.rng.ExpFloat64()
	}
	if s.drift {
		s.level = 0.95*s.level + 0.03*s.rng.NormFloat64()
		x *= math.Exp(s.level)
	}
	return x
}

// start lets the drift reach its stationary state.
func (s *noise) start() {
	s.level = 0
	if s.drift {
		s.level = 0.03 / math.Sqrt(1-0.95*0.95) * s.rng.NormFloat64()
	}
}

// interleaved runs n pairs in random order within each; ratio is the truth.
func (s *noise) interleaved(n int, ratio float64) (base, treat []float64) {
	s.start()
	base, treat = make([]float64, n), make([]float64, n)
	for i := range n {
		if s.rng.IntN(2) == 0 {
			base[i], treat[i] = s.run(), ratio*s.run()
		} else {
			treat[i], base[i] = ratio*s.run(), s.run()
		}
	}
	return base, treat
}

// blocked runs all of one arm, then all of the other.
func (s *noise) blocked(n int, ratio float64) (base, treat []float64) {
	s.start()
	base, treat = make([]float64, n), make([]float64, n)
	for i := range base {
		base[i] = s.run()
	}
	for i := range treat {
		treat[i] = ratio * s.run()
	}
	return base, treat
}

// share is how often an event came in r repetitions.
func share(events, r int) float64 { return float64(events) / float64(r) }

// slack is three Monte Carlo standard errors of a share p out of r.
func slack(p float64, r int) float64 { return 3 * math.Sqrt(p*(1-p)/float64(r)) }

// The seed of all simulations here; each cell has a stream of its own.
const seed = 3

// cell is a number of pairs, with or without drift.
type cell struct {
	n     int
	drift bool
}

// simulate runs f for each cell and prints the rows in order.
func simulate(t *testing.T, sizes []int, header string, f func(c cell, s *noise) string) {
	t.Helper()
	var cells []cell
	for _, drift := range []bool{false, true} {
		for _, n := range sizes {
			cells = append(cells, cell{n, drift})
		}
	}
	rows := make([]string, len(cells))
	for i, c := range cells {
		rows[i] = f(c, &noise{rng: rand.New(rand.NewPCG(seed, uint64(i))), drift: c.drift})
	}
	t.Logf("seed %d\n%s\n%s", seed, header, strings.Join(rows, "\n"))
}

// TestSimulationInterval: the rank interval keeps its promises, with and without drift: false alarms at most at the
// attained level, and the truth covered at least 93 times in a hundred.
func TestSimulationInterval(t *testing.T) {
	const repetitions = 2000
	simulate(t, []int{6, 8, 10, 15, 20, 30, 50, 60}, "| drift | n | attained level | false alarms | covers +5 % | finds +5 % |", func(c cell, s *noise) string {
		interval := func(ratio float64) (low, high, level float64) {
			base, treat := s.interleaved(c.n, ratio)
			d := make([]float64, c.n)
			for i := range d {
				d[i] = math.Log(treat[i]) - math.Log(base[i])
			}
			low, high, attained, _ := walsh(d).interval(0.95)
			return low, high, 1 - attained
		}
		var alarms, covered, found int
		var level float64
		for range repetitions {
			var low, high float64
			low, high, level = interval(1)
			alarms += count(low > 0 || high < 0)
			low, high, _ = interval(1.05)
			covered += count(low <= math.Log(1.05) && math.Log(1.05) <= high)
			found += count(low > 0)
		}
		if p := share(alarms, repetitions); p > level+slack(level, repetitions) {
			t.Errorf("%+v: false alarms %.3f, the level is %.4f", c, p, level)
		}
		if p := share(covered, repetitions); p < 0.93 {
			t.Errorf("%+v: the interval covers the truth %.3f times", c, p)
		}
		return fmt.Sprintf("| %v | %d | %.2f %% | %.1f %% | %.1f %% | %.0f %% |", c.drift, c.n, 100*level,
			100*share(alarms, repetitions), 100*share(covered, repetitions), 100*share(found, repetitions))
	})
}

// TestSimulationVerdict: the verdicts, which the bootstrap has to agree to. The
// margin is 3 %; an effect of just the margin may be called equivalent one time
// in twenty, and material half as often as the level says.
func TestSimulationVerdict(t *testing.T) {
	const repetitions = 400
	simulate(t, []int{6, 10, 20}, "| drift | n | false verdicts | equivalent at 0 % | at 3 %: equivalent | material | cost at +5 % | +10 % | material at +10 % |", func(c cell, s *noise) string {
		type tally struct{ cost, gain, equivalent, material int }
		run := func(ratio float64) (r tally) {
			for range repetitions {
				base, treat := s.interleaved(c.n, ratio)
				x := Paired(base, treat, Options{Margin: 0.03, Better: -1, Seed: s.rng.Uint64()})
				r.cost += count(x.Verdict == Cost)
				r.gain += count(x.Verdict == Gain)
				r.equivalent += count(x.Verdict == Equivalent)
				r.material += count(x.Verdict == Cost && x.Material)
			}
			return r
		}
		none, edge, five, ten := run(1), run(1.03), run(1.05), run(1.10)
		for what, k := range map[string]struct {
			events int
			limit  float64
		}{"false verdicts": {none.cost + none.gain, 0.05}, "3 % called equivalent": {edge.equivalent, 0.05}, "3 % called material": {edge.material, 0.025}} {
			if p := share(k.events, repetitions); p > k.limit+slack(k.limit, repetitions) {
				t.Errorf("%+v: %s in %.3f of experiments", c, what, p)
			}
		}
		p := func(k int) float64 { return 100 * share(k, repetitions) }
		return fmt.Sprintf("| %v | %d | %.1f %% | %.0f %% | %.1f %% | %.1f %% | %.0f %% | %.0f %% | %.0f %% |", c.drift, c.n,
			p(none.cost+none.gain), p(none.equivalent), p(edge.equivalent), p(edge.material), p(five.cost), p(ten.cost), p(ten.material))
	})
}

// TestSimulationPilot: with the pairs that the margin and the SD require, an effect of 10 % fails a gate with a
// margin of 3 % in at least 19 of 20 cases.
func TestSimulationPilot(t *testing.T) {
	const repetitions = 300
	for _, sd := range []float64{0.01, 0.02, 0.04} {
		n := PairsFor(sd*math.Sqrt2, 0.03, 0.05, 0.80)
		found := 0
		for i := range uint64(repetitions) {
			base, treat := arms(seed<<32|i, n, sd, 1.10)
			c := Paired(base, treat, Options{Margin: 0.03, Better: -1, Seed: i})
			found += count(c.Verdict == Cost && c.Material)
		}
		t.Logf("noise %.0f %%, %d pairs: material in %d of %d", 100*sd, n, found, repetitions)
		if share(found, repetitions) < 0.95 {
			t.Errorf("noise %g, %d pairs: found %d of %d", sd, n, found, repetitions)
		}
	}
}

// TestSimulationUnpaired: without drift the Mann-Whitney interval holds its
// level; with drift, all runs of one arm before the other, no analysis does. That
// is why the runner interleaves.
func TestSimulationUnpaired(t *testing.T) {
	const repetitions = 1000
	simulate(t, []int{6, 10, 20}, "| drift | n per arm | blocked, Mann-Whitney | blocked, signed rank |", func(c cell, s *noise) string {
		var unpaired, paired int
		level := 0.05
		for range repetitions {
			base, treat := s.blocked(c.n, 1)
			low, high, attained, _ := shifts(logs(base), logs(treat)).interval(0.95)
			unpaired += count(low > 0 || high < 0)
			level = 1 - attained
			d := logs(treat)
			for i, b := range logs(base) {
				d[i] -= b
			}
			low, high, _, _ = walsh(d).interval(0.95)
			paired += count(low > 0 || high < 0)
		}
		p := share(unpaired, repetitions)
		if !c.drift && p > level+slack(level, repetitions) {
			t.Errorf("%+v: false alarms %.3f without drift, the level is %.4f", c, p, level)
		}
		if c.drift && (p < 0.15 || share(paired, repetitions) < 0.15) {
			t.Errorf("%+v: false alarms %.3f and %.3f; drift should spoil a blocked design", c, p, share(paired, repetitions))
		}
		return fmt.Sprintf("| %v | %d | %.1f %% | %.1f %% |", c.drift, c.n, 100*p, 100*share(paired, repetitions))
	})
}

// TestSimulationSteady: how often a steady run is recognized, and how much of it MSER-5 and the criteria cut off
// needlessly.
func TestSimulationSteady(t *testing.T) {
	const repetitions = 1000
	for _, windows := range []int{12, 30, 60} {
		for _, sd := range []float64{0.01, 0.02, 0.03, 0.05} {
			rng := rand.New(rand.NewPCG(seed, uint64(windows)))
			x := make([]float64, windows)
			accepted, cut := 0, 0
			for range repetitions {
				for i := range x {
					x[i] = math.Exp(sd * rng.NormFloat64())
				}
				if s := Steady(x, SteadyOptions{}); s.OK {
					accepted, cut = accepted+1, cut+s.Cut
				}
			}
			p := share(accepted, repetitions)
			t.Logf("| %d | %.0f %% | %.1f %% | %.0f %% |", windows, 100*sd, 100*p, 100*share(cut, accepted*windows))
			if sd <= 0.02 && p < 0.95 {
				t.Errorf("%d steady windows with %.0f %% noise are accepted in %.3f of runs", windows, 100*sd, p)
			}
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
