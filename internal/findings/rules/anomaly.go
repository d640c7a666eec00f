package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var unusual = &findings.Rule{
	Name:  "anomaly",
	Title: "Unusual level",
	Doc: "For 10 minutes, a process has had a rate of system calls, context switches, page faults or CPU time that is unusual for this hour: " +
		"it differs from the median of this hour of the day (UTC) by at least 6 robust standard deviations and a factor of two. After two weeks of history, weekends are compared with weekends only. The rate must also be beyond any level that lasted for 5 minutes on an earlier day, by a margin that is wider for a shorter history; after a week of history one such day is ignored. At most one in twenty ordinary days gives a false finding. The rule needs a day of history, and a new level counts as usual after a day.",
	Needs:   []string{"tee_process_cpu_seconds_total"},
	Patient: true,
	Thresholds: []findings.Threshold{
		{Name: "ratio", Doc: "factor above or below the usual level", Unit: "ratio", Default: 2},
		{Name: "events", Doc: "smallest difference in events", Unit: "1/s", Default: 1000},
		{Name: "cpu", Doc: "smallest difference in CPU time", Unit: "cores", Default: 0.1},
	},
	Remedy: "See what else changed at that time with `teescope changes`: a new version, a different load, a neighbour. An intended new level " +
		"becomes the usual one within a day.",
	Reference: "Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993)",
	Run:       findUnusual,
}

type usualRate struct{ series, threshold, unit, what string }

// usualRates are compared with their history. They are totals of processes that the store records, so weeks of them
// can be read.
var usualRates = []usualRate{
	{"process:tee_syscalls:rate1m", "events", "1/s", "system calls a second"},
	{"process:tee_context_switches:rate1m", "events", "1/s", "context switches a second"},
	{"process:tee_page_faults:rate1m", "events", "1/s", "page faults a second"},
	{"process:tee_process_cpu_seconds:rate1m", "cpu", "cores", "cores of CPU time"},
}

const (
	// usualSpan is the history read of a candidate, one reading a minute. usualChecks limits the candidates: reading
	// 15 days of one takes about 6 ms.
	usualSpan   = 15 * 24 * time.Hour
	usualChecks = 4
	// yesterday is the half hour around this time of the day before.
	yesterday = "[30m] offset 1425m"
)

// strange is a rate of a process that differs from the day before. depart adds how it left its baseline.
type strange struct {
	life string // of its subject
	anomaly.Departure
	of
	series, unit, what string

	limits anomaly.Sensitivity
	fold   float64 // distance from the day before, as a logarithm
}

// findUnusual reads the history of a few series: those farthest from their level at this time yesterday.
func findUnusual(ctx context.Context, p *findings.Pass) error {
	q, ok := p.Querier.(query.RangeQuerier)
	if !ok {
		return errors.New("the store gives no history")
	}
	call, err := namer(ctx, p, "tee_process_cpu_seconds_total")
	if err != nil {
		return err
	}
	var all []strange
	history := false
	for _, r := range usualRates {
		found, known, err := departed(ctx, p, r, call)
		if err != nil {
			return err
		}
		all, history = append(all, found...), history || known
	}
	if !history {
		return errors.New("less than a day of history: the usual levels are not known yet")
	}
	slices.SortFunc(all, func(a, b strange) int {
		return cmp.Or(cmp.Compare(b.fold, a.fold), strings.Compare(a.series, b.series))
	})
	var found []strange
	for _, s := range all[:min(usualChecks, len(all))] {
		if s.Departure, ok, err = depart(ctx, q, s.series, p.To, s.limits); err != nil {
			return err
		}
		if ok {
			found = append(found, s)
		}
	}
	return reportUnusual(ctx, p, found)
}

// departed returns the processes whose rate stayed far from yesterday's mean in all readings of the last minutes.
// known reports whether there were readings yesterday.
func departed(ctx context.Context, p *findings.Pass, r usualRate, call func(name, instance string) string) (out []strange, known bool, err error) {
	past, err := p.Query(ctx, fmt.Sprintf("avg_over_time(%s%s)", r.series, yesterday), p.To)
	if err != nil || len(past) == 0 {
		return nil, false, err
	}
	was := map[string]float64{}
	for _, pt := range past {
		was[query.Selector(r.series, pt.Labels)] = pt.Value
	}
	for _, side := range []string{"min", "max"} {
		now, err := p.Query(ctx, fmt.Sprintf("%s_over_time(%s[%s])", side, r.series, holds), p.To)
		if err != nil {
			return nil, true, err
		}
		for _, pt := range now {
			s := strange{series: query.Selector(r.series, pt.Labels), life: lifeOf(pt.Labels), unit: r.unit, what: r.what}
			before, ok := was[s.series]
			low, high := before, pt.Value
			if side == "max" {
				low, high = high, low
			}
			if !ok || high-low < p.Least(r.threshold) || high < p.Least("ratio")*low {
				continue
			}
			s.of = of{query.MachineOf(pt.Labels), call(pt.Labels["process"], pt.Labels["instance"])}
			s.limits = anomaly.Sensitivity{Ratio: p.Limit("ratio", s.subject), Floor: p.Limit(r.threshold, s.subject), Score: anomaly.Score}
			s.fold = math.Log((high + s.limits.Floor) / (low + s.limits.Floor))
			out = append(out, s)
		}
	}
	return out, true, nil
}

var holds = query.PromDuration(anomaly.Holds)

// depart compares a series with its own history; ok is false if that is too short.
func depart(ctx context.Context, q query.RangeQuerier, series string, now time.Time, s anomaly.Sensitivity) (d anomaly.Departure, ok bool, err error) {
	read := func(from, to time.Time) (metric.Series, error) {
		got, err := q.QueryRange(ctx, series, from, to, time.Minute)
		if err != nil || len(got) == 0 {
			return metric.Series{}, err
		}
		return got[0], nil
	}
	start := now.Add(-anomaly.Holds)
	history, err := read(start.Add(-usualSpan), start)
	if err != nil {
		return d, false, err
	}
	window, err := read(start.Add(time.Minute), now)
	if err != nil {
		return d, false, err
	}
	b, err := anomaly.Learn(history, s)
	if errors.Is(err, anomaly.ErrShort) {
		return d, false, nil
	}
	if err != nil {
		return d, false, err
	}
	d, ok = b.Judge(window)
	return d, ok, nil
}

// reportUnusual makes one finding for each process, about the rate that is farthest off. The other rates are
// evidence.
func reportUnusual(ctx context.Context, p *findings.Pass, found []strange) error {
	slices.SortStableFunc(found, func(a, b strange) int { return cmp.Compare(math.Abs(b.Score), math.Abs(a.Score)) })
	told := map[of]bool{}
	for _, s := range found {
		if told[s.of] {
			continue
		}
		told[s.of] = true
		e := evidence{pass: p}
		for _, o := range found {
			if o.of != s.of {
				continue
			}
			word, function := "lowest", "min_over_time"
			if o.Score < 0 {
				word, function = "highest", "max_over_time"
			}
			e.add(ctx, fmt.Sprintf("%s, %s reading of the last %s", o.what, word, holds), o.unit, fmt.Sprintf("%s(%s[%s])", function, o.series, holds))
			e.add(ctx, o.what+", mean of the half hour around this time yesterday", o.unit, fmt.Sprintf("avg_over_time(%s%s)", o.series, yesterday))
		}
		if e.err != nil {
			return e.err
		}
		confidence := findings.Medium
		if s.Days < 7 {
			confidence = findings.Low
		}
		p.Report(findings.Finding{
			Machine: s.Machine, Subject: s.subject, Life: s.life,
			Title: fmt.Sprintf("%s: %s %s for %.0f minutes; usually %s (90 %% of the readings of the last %.1f days are %s to %s).", s.subject,
				metric.Count(s.Held), s.what, p.To.Sub(s.Since).Minutes(), metric.Count(s.Usual), s.Days, metric.Count(s.Low), metric.Count(s.High)),
			Severity:   findings.Info,
			Confidence: confidence,
			Evidence:   e.list,
		})
	}
	return nil
}
