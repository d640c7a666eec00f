package findings

import (
	"context"
	"fmt"
	"math"
	"regexp"

	"github.com/teescope/teescope/internal/query"
)

// metricsOf are the names of the metrics in a query: what a selector's braces follow.
var metricsOf = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\{`)

// twoSided is the 97.5 % quantile of the normal distribution, as in explanations.
const twoSided = 1.959964

// bound adds the intervals to a finding's rates that a source estimates from part of the events. The standard error is
// that which explanations use: of the sum and of the rest the larger, mean of the window.
func (v *evaluation) bound(ctx context.Context, p *Pass, f *Finding) {
	if v.opts.Source == nil {
		return
	}
	for i := range f.Evidence {
		ev := &f.Evidence[i]
		source := v.sourceOf(*ev)
		if source == "" {
			continue
		}
		points, err := p.QueryOnce(ctx, fmt.Sprintf("max by (job, instance, source) (avg_over_time(teescope_source_standard_error_ratio[%s]))", query.PromDuration(p.To.Sub(p.From))))
		if err != nil {
			return // the rates stay without
		}
		for _, pt := range points {
			if query.MachineOf(pt.Labels) != f.Machine || pt.Labels["source"] != source || !(pt.Value > 0) || math.IsInf(pt.Value, 0) {
				continue
			}
			half := twoSided * pt.Value * ev.Value
			low, high := max(0, ev.Value-half), ev.Value+half
			ev.Low, ev.High = &low, &high
		}
	}
}

// sourceOf returns the one source of a rate's counters, "" where there are several, and for what is no rate.
func (v *evaluation) sourceOf(ev query.Evidence) (source string) {
	if ev.Unit != "1/s" {
		return ""
	}
	for _, name := range metricsOf.FindAllString(ev.Expr, -1) {
		s := v.opts.Source(name[:len(name)-1])
		if s == "" || source != "" && s != source {
			return ""
		}
		source = s
	}
	return source
}
