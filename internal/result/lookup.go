package result

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// Metric returns the run's metric of a name, or nil.
func (r *Run) Metric(name string) *Metric {
	for i := range r.Metrics {
		if r.Metrics[i].Name == name {
			return &r.Metrics[i]
		}
	}
	return nil
}

// Environment returns the arm of an id, or nil.
func (e *Experiment) Environment(id string) *Environment {
	for i := range e.Environments {
		if e.Environments[i].ID == id {
			return &e.Environments[i]
		}
	}
	return nil
}

// Desc returns the declaration of a metric of the workload, or nil.
func (e *Experiment) Desc(name string) *MetricDesc {
	for i := range e.Workload.Metrics {
		if e.Workload.Metrics[i].Name == name {
			return &e.Workload.Metrics[i]
		}
	}
	return nil
}

// Label returns a metric's name for people, without its unit, which the values show, unless another metric would then
// have the same name.
func (e *Experiment) Label(name string) string {
	d := e.Desc(name)
	if d == nil {
		return metric.Words(name)
	}
	short := d.Label()
	for _, other := range e.Workload.Metrics {
		if other.Name != name && other.Label() == short {
			return metric.Words(name)
		}
	}
	return short
}

// Label returns the metric's name for people, without its unit.
func (d *MetricDesc) Label() string {
	short := strings.TrimSuffix(d.Name, "_"+d.Unit)
	if d.Unit == "" || short == "" {
		short = d.Name
	}
	return metric.Words(short)
}

// Replicate is the noun for what a comparison counts: pairs, or the runs of the smaller arm.
func (c *Comparison) Replicate() string {
	if strings.HasSuffix(c.Estimator, "mann-whitney") {
		return "unpaired run"
	}
	return "pair"
}

// Deciding says what would decide an open comparison; "" if nothing is open. PairsNeeded pairs find a difference as
// large as the margin four times in five, so it is likely, and not certain, that they decide.
func (c *Comparison) Deciding() string {
	switch {
	case c.PairsNeeded <= 0:
		return ""
	case c.Low == nil:
		return "a verdict needs at least " + metric.Plural(c.PairsNeeded, c.Replicate())
	}
	return fmt.Sprintf("%s in all would probably decide (4 in 5)", metric.Plural(c.PairsNeeded, c.Replicate()))
}

// GiveUp is the number of failed runs of a case in an arm, without a good one, after which the rest is left out.
const GiveUp = 3

// Barren reports whether the rest of a case's runs in an arm is left out.
func (e *Experiment) Barren(cas, env string) bool {
	failed := 0
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Case == cas && r.Env == env {
			if r.Status == OK {
				return false
			}
			failed++
		}
	}
	return failed >= GiveUp
}
