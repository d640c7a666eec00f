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

// StandIn says in words that follow the environment's name why its numbers are not those of what it is named after:
// its CPU is emulated, it made its values up, or the experiment declares that it stands in for something else. It
// returns "" for a real one. A document that declares nothing is judged by what it recorded of the machine.
func (v *Environment) StandIn() string {
	switch {
	case v.Emulated():
		return "is emulated in software"
	case v.TEE.Settings["measures"] != "":
		return "has made-up values"
	case v.StandsFor != "":
		return fmt.Sprintf("is really %s, not %s", v.Launcher, v.StandsFor)
	}
	return ""
}

// Emulated reports whether the environment is a guest without hardware acceleration, as its launcher recorded or as it was
// seen from inside.
func (v *Environment) Emulated() bool {
	return strings.HasPrefix(v.TEE.Settings["accelerator"], "tcg") || strings.Contains(v.Software.Hypervisor, emulator)
}

// emulator is how a guest without hardware acceleration names its hypervisor (machine.Hypervisor).
const emulator = "QEMU TCG"

// Simulated reports whether a metric is of a simulated device.
func (d *MetricDesc) Simulated() bool { return strings.HasPrefix(d.Name, SimulatedPrefix) }

// SimulatedPrefix begins the names of metrics of simulated devices.
const SimulatedPrefix = "simulated_"

// AllStandIns reports whether no primary comparison is a real measurement, though there are some.
func (e *Experiment) AllStandIns() bool {
	any := false
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Primary {
			if c.StandIn == "" {
				return false
			}
			any = true
		}
	}
	return any
}

// Deciding says how many pairs would probably decide a comparison that its spread leaves open; "" if nothing is open, or
// something else blocks it. PairsNeeded pairs find a difference as large as the margin four times in five, so it is likely,
// and not certain, that they decide.
func (c *Comparison) Deciding() string {
	switch {
	case c.PairsNeeded <= 0:
		return ""
	case c.Low == nil:
		return "a verdict needs at least " + metric.Plural(c.PairsNeeded, c.Replicate())
	case c.PairsNeeded > mostPairs:
		return fmt.Sprintf("more than %d %ss would be needed (for 4 in 5): reduce the spread", mostPairs, c.Replicate())
	}
	return fmt.Sprintf("%s in all would probably decide (4 in 5)", metric.Plural(c.PairsNeeded, c.Replicate()))
}

// mostPairs is the largest number of pairs that is worth a suggestion: `bench run` takes no more.
const mostPairs = 10_000

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

// MonitorThreads is the note of counters that were read outside a virtual machine: they say what its monitor's threads
// did, whose locks, for example, are not the workload's.
const MonitorThreads = "the counters are of the threads of the virtual machine's monitor, not of the workload"
