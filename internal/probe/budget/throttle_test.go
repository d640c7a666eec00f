package budget

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestRefusesToAttach: a reader that cannot be put back says so in its readings,
// and the governor goes on.
func TestRefusesToAttach(t *testing.T) {
	th := &Throttle{reader: refusing{}, attached: true}
	th.set(false, time.Now)
	if !th.attached {
		t.Error("counted as detached although it refused")
	}
}

type refusing struct{}

func (refusing) Attach() error                { return errors.New("no") }
func (refusing) Detach() error                { return errors.New("no") }
func (refusing) Limit([]float64, func()) bool { return false }
func (refusing) Spent() (float64, []float64)  { return 0, nil }

// TestRelativeError against a simulation: windows of a Poisson process with a
// rate that itself varies.
func TestRelativeError(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const periods, f, trials = 60, 0.05, 400
	var ratio []float64
	var claimed float64
	for range trials {
		var windows []window
		var total, seen float64
		for range periods {
			in, out := 0.0, 0.0
			level := 1000 * math.Exp(r.NormFloat64()*0.5)
			for i := range 20 {
				n := level * (0.5 + r.Float64())
				if i == 0 {
					in = n
				}
				out += n
			}
			total += out
			seen += in
			windows = append(windows, window{in / f, 1, f, 0})
		}
		ratio = append(ratio, seen*20/total-1)
		claimed += relativeError(windows) / trials
	}
	var ss float64
	for _, x := range ratio {
		ss += x * x
	}
	if real := math.Sqrt(ss / trials); claimed < 0.9*real || claimed > 3*real {
		t.Errorf("claimed a relative standard error of %g, it was %g", claimed, real)
	}
	// By hand: the differences give a variance of 4/2 * 0.5 twice, times 3/2; the doubt is a mean over the events.
	for _, c := range []struct {
		windows []window
		want    float64
	}{
		{[]window{{1, 1, 0.5, 0}, {3, 1, 0.5, 0}, {1, 1, 0.5, 0}}, math.Sqrt(3) / 5},
		{[]window{{1, 1, 0.5, 0.1}, {3, 1, 0.5, 0.2}, {1, 1, 0.5, 0.3}}, math.Sqrt(3)/5 + 0.2},
		{[]window{{1, 1, 1, 0}, {3, 1, 1, 0}, {1, 1, 1, 0}}, 0},
	} {
		if e := relativeError(c.windows); math.Abs(e-c.want) > 1e-12 {
			t.Errorf("%v: error %g, want %g", c.windows, e, c.want)
		}
	}
	for _, none := range [][]window{nil, {{1, 1, f, 0}, {2, 1, f, 0}}, {{0, 1, f, 0}, {0, 1, f, 0}, {0, 1, f, 0}}} {
		if e := relativeError(none); !math.IsNaN(e) {
			t.Errorf("%v: error %g from too little", none, e)
		}
	}
}
