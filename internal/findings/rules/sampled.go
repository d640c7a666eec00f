package rules

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/stats"
)

// The sampled times, by process and activity.
const (
	sampledCPU  = "tee_sampled_cpu_seconds_total"
	sampledWait = "tee_sampled_wait_seconds_total"
)

// active returns the query for the time per second in which the process's threads had work: they ran, or waited for a
// CPU, a disk or a lock. Sleep is left out: most of it is waiting for requests.
func active(labels map[string]string, window string) string {
	return fmt.Sprintf("((%s or vector(0)) + (%s or vector(0)))",
		query.SumRate(ofProcess(sampledCPU, labels), window),
		query.SumRate(ofProcess(sampledWait, labels, `state!="sleep"`), window))
}

// sampled records one sampled time's share of another over the window and returns it with its 95 % interval; nil
// while the sampling period is unknown. clocks are "cpu" and "wait"; the coarser one decides.
//
// A walk over the threads finds many of them in the same state or none, so its samples are not independent. With the
// clock "wait", the interval is at least as wide as the spread between parts of the window.
func (e *evidence) sampled(ctx context.Context, text string, part, whole func(window string) string, clocks string, labels map[string]string) (float64, *[2]float64) {
	w, seconds := window(e.pass), e.pass.To.Sub(e.pass.From).Seconds()
	share := e.add(ctx, text, "ratio", part(w)+" / "+whole(w))
	interval := onMachine("tee_sample_interval_seconds", labels, fmt.Sprintf("clock=~%q", clocks))
	covered := fmt.Sprintf("(min(min_over_time(%s[%s])) or vector(1))", onMachine("teescope_source_coverage_ratio", labels, `source=~"samples|waits"`), w)
	n := e.add(ctx, "number of samples for that share", "", fmt.Sprintf("%s * %g / scalar(max(%s)) * %s", whole(w), seconds, interval, covered))
	if !(share >= 0 && share <= 1 && n >= 1) {
		return share, nil
	}
	around := wilson(share, n)
	step := max(10, math.Ceil(seconds/20))
	if parts := math.Floor(seconds / step); strings.Contains(clocks, "wait") && parts >= 2 {
		of := fmt.Sprintf("%gs", step)
		spread := e.add(ctx, "standard deviation of that share between parts of the window", "ratio",
			fmt.Sprintf("stddev_over_time((%s / %s)[%s:%s])", part(of), whole(of), w, of))
		half := stats.StudentT(parts-1).Quantile(0.975) / math.Sqrt(parts-1) * spread
		if half >= 0 {
			around = [2]float64{min(around[0], max(0, share-half)), max(around[1], min(1, share+half))}
		}
	}
	return share, &around
}

// wilson returns the 95 % interval of a share of n independent samples (E. B. Wilson, Journal of the American
// Statistical Association 22, 1927).
func wilson(share, n float64) [2]float64 {
	const z = 1.96
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return [2]float64{max(0, middle-half), min(1, middle+half)}
}

// trust returns High if the sources counted every event in the window. If one counted only part and scaled it up, it
// returns Medium and adds that as evidence.
func (e *evidence) trust(ctx context.Context, labels map[string]string, sources string) findings.Confidence {
	covered := e.add(ctx, "smallest share of the events that was counted; the counts are scaled up", "ratio",
		fmt.Sprintf("min(min_over_time(%s[%s])) < 1", onMachine("teescope_source_coverage_ratio", labels, fmt.Sprintf("source=~%q", sources)), window(e.pass)))
	if math.IsNaN(covered) {
		return findings.High
	}
	return findings.Medium
}

// priced returns the CPU time per second of events at the unit cost calibrated on the machine, from its low to its
// high bound ("1.2 % to 1.5 % of a core"); "" if it was not calibrated. rate is a query for events per second.
func (e *evidence) priced(ctx context.Context, event, rate string, labels map[string]string) string {
	bound := func(name string) float64 {
		return e.add(ctx, fmt.Sprintf("CPU time at the calibrated cost of %s, %s bound", event, name), "cores",
			prices.Query(event, name, rate, func(series string, matchers ...string) string { return onMachine(series, labels, matchers...) }))
	}
	low, high := bound("low"), bound("high")
	if math.IsNaN(low) || math.IsNaN(high) {
		return ""
	}
	return metric.Percent(low) + " to " + metric.Percent(high) + " of a core"
}
