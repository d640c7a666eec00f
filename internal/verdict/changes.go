package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// Key identifies a history: the job, what it ran on, and the metric. A new fingerprint starts
// another series and never raises an alarm.
type Key struct {
	Workload    string `json:"workload"`
	Case        string `json:"case_id"`
	Identity    string `json:"identity"`
	Env         string `json:"env_id"`
	Class       string `json:"fingerprint_class"`
	Fingerprint string `json:"fingerprint"`
	Metric      string `json:"metric"`
}

// Point is one result in a history: the median of an arm's runs.
type Point struct {
	Key
	At     time.Time `json:"at"`
	Label  string    `json:"label"` // commit, or the experiment's id
	Value  float64   `json:"value"`
	Better string    `json:"better"` // "lower" or "higher"
	// Counters are the events per operation in the runs, where they were counted.
	Counters map[explain.Event]explain.Count `json:"counters_per_operation,omitempty"`
}

// Count returns how often something happened per operation; ok is false if its metric was not counted.
func (p *Point) Count(e explain.Event) (explain.Count, bool) { return explain.CountOf(p.Counters, e) }

// MixChange is a point whose program behaves differently from that of the point before it: other
// system calls, other faults.
type MixChange struct {
	Index int    `json:"index"`
	Label string `json:"label"`
	// Shifts are sorted by the size of the difference.
	Shifts []explain.Shift `json:"shifts"`
}

// mixChanges compares each point with the one before. Points without counters are skipped.
func mixChanges(points []Point) (out []MixChange) {
	last := -1
	for i := range points {
		if len(points[i].Counters) == 0 {
			continue
		}
		if last >= 0 {
			if s := explain.Shifts(points[last].Counters, points[i].Counters); len(s) > 0 {
				out = append(out, MixChange{Index: i, Label: points[i].Label, Shifts: s})
			}
		}
		last = i
	}
	return out
}

// Series is a history of one key, the oldest point first.
type Series struct {
	Key    Key     `json:"key"`
	Points []Point `json:"points"`
	// Refused are results that are kept but not used, the oldest first.
	Refused []Refused `json:"refused"`
	Changes []Change  `json:"changes"`
	// Mix are the points at which the program's behaviour changed.
	Mix []MixChange `json:"mix_changes"`
}

// Change is a point at which the level of a series changes.
type Change struct {
	Index  int       `json:"index"` // of the first point after the change
	At     time.Time `json:"at"`
	Label  string    `json:"label"`
	Before float64   `json:"before"`
	After  float64   `json:"after"`
	Ratio  float64   `json:"ratio"`
	P      float64   `json:"p"`
	// Z is the robust z-score of the second test; null if there were too few points before the change.
	Z *float64 `json:"robust_z"`
	// Worse is the direction of the metric applied to Ratio.
	Worse bool `json:"worse"`
}

// ChangeOptions are the options of a search.
type ChangeOptions struct {
	// Magnitude is the smallest change that is reported, as a ratio minus 1; 0 is
	// the default margin.
	Magnitude float64
	// Refused are added to their series and not used otherwise.
	Refused []Refused
}

// Changes sorts points into series and returns the change points of each: E-Divisive with a t-test, confirmed by a
// robust z-score against the values before (package stats).
func Changes(points []Point, o ChangeOptions) []Series {
	at := map[Key]int{}
	var out []Series
	of := func(k Key) *Series {
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, Series{Key: k})
		}
		return &out[i]
	}
	for _, pt := range points {
		s := of(pt.Key)
		s.Points = append(s.Points, pt)
	}
	for _, r := range o.Refused {
		s := of(r.Key)
		s.Refused = append(s.Refused, r)
	}
	for i := range out {
		s := &out[i]
		slices.SortStableFunc(s.Points, func(a, b Point) int { return a.At.Compare(b.At) })
		slices.SortStableFunc(s.Refused, func(a, b Refused) int { return a.At.Compare(b.At) })
		x := make([]float64, len(s.Points))
		for j, pt := range s.Points {
			x[j] = pt.Value
		}
		s.Mix = mixChanges(s.Points)
		for _, c := range stats.ChangePoints(x, stats.ChangeOptions{MinRatio: cmp.Or(o.Magnitude, DefaultMargin)}) {
			pt := s.Points[c.Index]
			s.Changes = append(s.Changes, Change{Index: c.Index, At: pt.At, Label: pt.Label, Before: c.Before, After: c.After,
				Ratio: c.Ratio, P: c.P, Z: finiteOrNil(c.Z), Worse: (c.Ratio > 1) == (pt.Better == "lower")})
		}
	}
	return out
}

// Points returns a result's contribution to histories: the median of the usable runs of each arm, case and metric
// with a direction, and the refused values. An arm without a fingerprint, or a case without an identity, adds
// nothing: its series could not be told from others.
func Points(e *result.Experiment) (points []Point, refused []Refused) {
	p := newPass(e, Options{})
	at, label := e.StartedAt, e.ID
	if e.Commit != nil {
		at, label = e.Commit.At, e.Commit.ID
	}
	for i := range e.Cases {
		c := &e.Cases[i]
		for _, env := range e.Environments {
			counters := explain.Counts(p.runs(c.ID, env.ID))
			for _, d := range p.metrics() {
				if env.Fingerprint == "" || c.Identity == "" {
					continue
				}
				key := Key{Workload: e.Workload.Name, Case: c.ID, Identity: c.Identity, Env: env.ID, Class: env.Class, Fingerprint: env.Fingerprint, Metric: d.Name}
				v := finiteOrNil(p.median(c, env.ID, d.Name))
				why := p.refusedBy(c.ID, d.Name)
				if v == nil && why == "" {
					why = p.whyMissing(c, env.ID, d.Name)
				}
				switch {
				case why != "":
					refused = append(refused, Refused{Key: key, At: at, Label: label, Value: v, Reason: why})
				case v != nil:
					points = append(points, Point{At: at, Label: label, Value: *v, Better: d.Better, Counters: counters, Key: key})
				}
			}
		}
	}
	return points, refused
}
