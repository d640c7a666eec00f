package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// sustainedQuery returns the query for values whose mean is at least limit over the window and over its newest part, so a
// finding does not outlive its cause by a whole window. rate returns the query for a window as PromQL writes it.
func sustainedQuery(p *findings.Pass, rate func(window string) string, limit float64) string {
	return fmt.Sprintf("%s >= %g and %s >= %g", rate(window(p)), limit, rate(newest(p)), limit)
}

// holding returns the elements that held selects, narrowed by and. Where nothing holds in the newest part, as with most
// causes on most machines, the whole window is not asked.
func holding(ctx context.Context, p *findings.Pass, rate func(window string) string, limit float64, and string) ([]metric.Point, error) {
	now, err := p.Query(ctx, fmt.Sprintf("%s >= %g", rate(newest(p)), limit), p.To)
	if err != nil || len(now) == 0 {
		return nil, err
	}
	return p.Query(ctx, sustainedQuery(p, rate, limit)+and, p.To)
}

// onMachine selects a metric of the machine with these labels.
func onMachine(metric string, labels map[string]string, matchers ...string) string {
	return query.Scope{Here: query.MatchersOf(labels, "job", "instance")}.Select(metric, matchers...)
}

// atMostOne bounds a share of time: readings are not spaced exactly as their times say, so a rate can slightly exceed 1.
func atMostOne(query string) string {
	return "clamp_max(" + query + ", 1)"
}

// shareOf returns a measured time's share of the CPU time that the machine used in the newest part of the window. It
// returns nil if one of them is unknown, or if the time includes waiting and so exceeds the CPU time.
func (e *evidence) shareOf(ctx context.Context, text, seconds string, labels map[string]string) *[2]float64 {
	busy := query.SumRate(onMachine("node_cpu_seconds_total", labels, `mode!~"idle|iowait|steal"`), newest(e.pass))
	share := e.add(ctx, text, "ratio", seconds+" / "+busy)
	if !(share >= 0 && share <= 1) {
		return nil
	}
	return &[2]float64{share, share}
}
