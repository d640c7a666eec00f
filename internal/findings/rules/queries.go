package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
)

// held is the query for what is at least limit as the mean of the window, and as
// that of its newest part too, so that a finding does not outlive its cause by a
// whole window. rate gives the query for a window as PromQL writes it.
func held(p *findings.Pass, rate func(window string) string, limit float64) string {
	return fmt.Sprintf("%s >= %g and %s >= %g", rate(window(p)), limit, rate(newest(p)), limit)
}

// onMachine selects a metric of the machine whose labels are given.
func onMachine(metric string, labels map[string]string, matchers ...string) string {
	machine := map[string]string{}
	for _, l := range []string{"job", "instance"} {
		if v, ok := labels[l]; ok {
			machine[l] = v
		}
	}
	return with(findings.Selector(metric, machine), matchers...)
}

// sumRate is the query for a machine's events per second; one number, or none.
func sumRate(selector, window string) string {
	return fmt.Sprintf("sum(rate(%s[%s]))", selector, window)
}

// shareOf is the share of the CPU time that the machine used in the newest part of
// the window which a measured time took; nil where one of them is not known, or the
// time was spent waiting as well and so is more than there was.
func (e *evidence) shareOf(ctx context.Context, text, seconds string, labels map[string]string) *[2]float64 {
	busy := sumRate(onMachine("node_cpu_seconds_total", labels, `mode!~"idle|iowait|steal"`), newest(e.pass))
	share := e.add(ctx, text, "ratio", seconds+" / "+busy)
	if !(share >= 0 && share <= 1) {
		return nil
	}
	return &[2]float64{share, share}
}
