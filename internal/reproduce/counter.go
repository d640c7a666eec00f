package reproduce

import (
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// counter names what the monitor's sources counted during runs.
type counter struct {
	name    string
	labels  map[string]string
	machine bool // of the whole machine
}

// parseCounter reads the notation of Answer.Metric; false for a metric of a workload.
func parseCounter(text string) (c counter, ok bool) {
	text, c.machine = strings.CutPrefix(text, "machine:")
	name, labels, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	if !c.machine && !strings.HasPrefix(name, "tee_") && !strings.HasPrefix(name, "node_") {
		return c, false
	}
	c.name, c.labels = name, map[string]string{}
	for kv := range strings.SplitSeq(labels, ",") {
		if k, v, found := strings.Cut(kv, "="); found {
			c.labels[k] = v
		}
	}
	return c, true
}

// String is the counter in words.
func (c counter) String() string {
	words := metric.Words(strings.TrimSuffix(strings.TrimPrefix(c.name, "tee_"), "_total"))
	for _, k := range []string{"space", "syscall", "cause", "operation"} {
		if v := c.labels[k]; v != "" {
			words += ", " + v
		}
	}
	if c.machine {
		words += ", whole machine"
	}
	return words + " per 100 operations"
}

// count sets the arm's value to the median over its runs, per 100 operations.
func (x *MeasuredArm) count(e *result.Experiment, kase string, c counter) {
	x.Value, x.Comparison, x.Sentence, x.Reason = nil, nil, "", "no run counted it"
	var values []float64
	for i := range e.Runs {
		r := &e.Runs[i]
		if r.Env != x.Label || r.Case != kase || r.Status != result.OK {
			continue
		}
		if v, ok := c.perOperation(r); ok {
			values = append(values, v*100)
		}
	}
	if len(values) > 0 {
		m := stats.Median(values)
		x.Value, x.Text = &m, metric.Digits(m)
		if x.StandIn != "" {
			x.Text = fmt.Sprintf("%s (stand-in)", x.Text)
		}
	}
}

// perOperation is the sum of the counter's series in a run; false if the run has none.
func (c counter) perOperation(r *result.Run) (sum float64, ok bool) {
	of := r.Counters
	if c.machine {
		of = r.HostCounters
	}
	for i := range of {
		n := &of[i]
		if n.Name != c.name || n.PerOperation == nil || n.Labels["helper"] != "" {
			continue
		}
		match := true
		for k, v := range c.labels {
			match = match && n.Labels[k] == v
		}
		if match {
			sum, ok = sum+*n.PerOperation, true
		}
	}
	return sum, ok
}

// IsCounter reports whether an answer's metric is a counter.
func IsCounter(text string) bool {
	_, ok := parseCounter(text)
	return ok
}
