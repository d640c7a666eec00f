package verdict

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// NoiseFloor is the difference that identical arms show on a host: the outcome of an A/A
// experiment.
type NoiseFloor struct {
	Host       string           `json:"host_id"`
	Workload   string           `json:"workload"`
	Version    int              `json:"workload_version"`
	Metric     string           `json:"metric"`
	MeasuredAt time.Time        `json:"measured_at"`
	Cases      map[string]Floor `json:"cases"` // by the identity of the job
}

// Floor is the noise floor of one job. All are ratios minus 1.
type Floor struct {
	Case  string `json:"case_id"`
	Pairs int    `json:"n_pairs"`
	// Ratio is the estimate of the experiment, whose true value is 1.
	Ratio float64 `json:"ratio"`
	// Paired is the noise floor of interleaved pairs: the larger of the observed ratio and the 95 % quantile of the
	// ratios of the same pairs with randomly swapped arm labels (2000 draws). Identical arms stay below it in 19 of
	// 20 experiments of this size; a host that favours one arm raises it.
	Paired float64 `json:"paired"`
	// Drift is the noise floor of runs that were not interleaved: the far end of the 95 % interval between the first
	// and the second half of an arm's runs, for the worse arm. It covers drift over half of this experiment, not over
	// a week.
	Drift float64 `json:"drift"`
	// FalsePositives is the share of random halves of the pairs (at least 6, 200 draws, with the true labels) whose
	// interval excludes 1. For identical arms it is near the level of the test, which is Level at this size; it is
	// far above when the host favours one arm. Halves of one experiment overlap, so it is a check and not an estimate
	// of small rates. Null with fewer than 12 pairs.
	FalsePositives *float64 `json:"false_positives"`
	Level          float64  `json:"attainable_level"`
}

// The numbers of draws of a calibration.
const (
	relabels = 2000
	halves   = 200
)

// Calibrate returns the noise floor and the observed false-positive rate of an A/A experiment. It fails if the arms
// differ in anything declared.
func Calibrate(e *result.Experiment) (*NoiseFloor, error) {
	p := newPass(e, Options{})
	d := p.primary()
	switch {
	case len(e.Environments) != 2:
		return nil, fmt.Errorf("calibrate %s: a calibration needs an A/A experiment with two arms, but this experiment has %d", e.Name, len(e.Environments))
	case better(d) == 0:
		return nil, fmt.Errorf("calibrate %s: the primary metric %q does not declare whether lower or higher is better", e.Name, e.Design.Primary)
	}
	a, b := &e.Environments[0], &e.Environments[1]
	if a.Launcher != b.Launcher || !maps.Equal(a.Params, b.Params) || !maps.Equal(a.Subject, b.Subject) {
		return nil, fmt.Errorf("calibrate %s: %s and %s are declared different; make an A/A experiment with `teescope bench calibrate`", e.Name, a.ID, b.ID)
	}
	if a.Hardware.Serial == "" || a.Hardware.Serial != b.Hardware.Serial {
		return nil, fmt.Errorf("calibrate %s: nothing shows that both arms ran on the same host, which a calibration needs", e.Name)
	}
	n := &NoiseFloor{Host: a.Hardware.Serial, Workload: e.Workload.Name, Version: e.Workload.Version, Metric: e.Design.Primary,
		MeasuredAt: e.StartedAt, Cases: map[string]Floor{}}
	for _, k := range p.contests {
		base, treat := k.values(d.Name, false)
		o := stats.Options{Margin: p.o.Margin, Confidence: p.o.Confidence, Better: better(d), Seed: e.Design.Seed}
		c := stats.Paired(base, treat, o)
		if c.Pairs < stats.MinPairs || finiteOrNil(c.Ratio) == nil {
			return nil, fmt.Errorf("calibrate %s: case %s has only %s, but a calibration needs at least %d; 20 make a useful noise floor", e.Name, k.cas.ID, metric.Plural(c.Pairs, "valid pair"), stats.MinPairs)
		}
		f := Floor{Case: k.cas.ID, Pairs: c.Pairs, Ratio: c.Ratio, Level: 1 - p.o.Confidence}
		r := rand.New(rand.NewPCG(e.Design.Seed, 0xca11b8a7e))
		f.Paired = math.Expm1(max(math.Abs(math.Log(c.Ratio)), relabelled(base, treat, r)))
		f.Drift = math.Expm1(max(drift(base, o), drift(treat, o)))
		if c.Pairs >= 2*stats.MinPairs {
			fp, level := inHalves(base, treat, o, r)
			f.FalsePositives, f.Level = &fp, level
		}
		n.Cases[k.cas.Identity] = f
	}
	return n, nil
}

// relabelled returns the 95 % quantile of the size of the log ratio of the pairs under random labels.
func relabelled(base, treat []float64, r *rand.Rand) float64 {
	d := make([]float64, len(base))
	size := make([]float64, relabels)
	for i := range size {
		for j := range d {
			d[j] = math.Log(treat[j] / base[j])
			if r.Uint64()&1 == 0 {
				d[j] = -d[j]
			}
		}
		size[i] = math.Abs(stats.HodgesLehmann(d))
	}
	slices.Sort(size)
	return size[relabels*95/100]
}

// drift returns how far, as a log ratio, the second half of an arm's runs may lie from the first. For halves too
// small for an interval, that is unbounded.
func drift(x []float64, o stats.Options) float64 {
	c := stats.Unpaired(x[:len(x)/2], x[len(x)/2:], o)
	if finiteOrNil(c.Low) == nil || finiteOrNil(c.High) == nil {
		return math.Log(math.MaxFloat32) // JSON has no infinity
	}
	return max(math.Abs(math.Log(c.Low)), math.Abs(math.Log(c.High)))
}

// inHalves returns the share of random halves whose interval excludes 1, and the exact level of the test at that
// size.
func inHalves(base, treat []float64, o stats.Options, r *rand.Rand) (share, level float64) {
	m := max(stats.MinPairs, len(base)/2)
	alarms := 0
	for range halves {
		b, t := make([]float64, m), make([]float64, m)
		for i, j := range r.Perm(len(base))[:m] {
			b[i], t[i] = base[j], treat[j]
		}
		c := stats.Paired(b, t, o)
		level = 1 - c.Confidence
		if c.Low > 1 || c.High < 1 {
			alarms++
		}
	}
	return float64(alarms) / halves, level
}

// covers returns the noise floor of a contest's job, if this calibration was made
// on the host of both arms, with the same workload and metric.
func (n *NoiseFloor) covers(e *result.Experiment, k *armComparison) (Floor, bool) {
	if n == nil || n.Host == "" || n.Host != k.base.Hardware.Serial || n.Host != k.treat.Hardware.Serial ||
		n.Workload != e.Workload.Name || n.Version != e.Workload.Version || n.Metric != e.Design.Primary {
		return Floor{}, false
	}
	f, ok := n.Cases[k.cas.Identity]
	return f, ok
}
