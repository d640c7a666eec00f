//go:build linux

package monitor

import (
	"context"
	"math"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/web"
)

// overhead queries what teescope cost on a machine in the last minute, or longer where readings are rare.
func (m *monitor) overhead(ctx context.Context, on query.Machine) (web.Overhead, error) {
	return m.overheadIn(ctx, on, time.Minute, m.Host.Now())
}

// overheadIn queries what teescope cost on a machine in a time until another, or longer where readings are rare.
func (m *monitor) overheadIn(ctx context.Context, on query.Machine, over time.Duration, at time.Time) (web.Overhead, error) {
	o := web.Overhead{CPU: map[string]float64{}, Missing: map[string]string{}, Budget: float64(m.Budget)}
	absent := m.absent
	if m.isRemote(on) {
		if _, err := m.machineRow(ctx, on); err != nil {
			return o, err
		}
		over, absent = max(over, 4*time.Duration(m.slowest.Load())), func(string) string { return "" }
	} else {
		on = m.own()
	}
	own, rated := on.Matchers(), query.PromDuration(over)
	points, err := m.series.Query(ctx, `sum by (part) (rate(teescope_overhead_cpu_seconds_total{`+own+`}[`+rated+`]))`, at)
	if err != nil {
		return o, err
	}
	for _, p := range points {
		if !math.IsNaN(p.Value) {
			o.CPU[p.Labels["part"]] = p.Value
		}
	}
	if points, err = m.series.Query(ctx, query.Scope{Here: own, Over: rated}.Expand(findings.OwnCPUTime), at); err != nil {
		return o, err
	}
	for _, p := range points {
		if !math.IsNaN(p.Value) {
			o.Used = &p.Value
		}
	}
	// Only some sources run commands; without them nothing is missing.
	points, err = m.series.Query(ctx, `sum(rate(teescope_command_cpu_seconds_total{`+own+`}[`+rated+`]))`, at)
	if err != nil {
		return o, err
	}
	for _, p := range points {
		if p.Value > 0 {
			o.CPU["commands"] = p.Value
		}
	}
	few, none := "fewer than two readings in the last "+rated, "no reading is stored yet"
	if m.Query.URL != "" {
		few = "the engine of --query-url has fewer than two readings of this value in the last " + rated
		none = "the engine of --query-url has no reading from this monitor"
	}
	for _, part := range []string{"userspace", "page", "body", "dispatch"} {
		if _, ok := o.CPU[part]; !ok {
			o.Missing[part] = few
			if why := absent("teescope_overhead_cpu_seconds_total"); why != "" {
				o.Missing[part] = why
			}
		}
	}
	points, err = m.series.Query(ctx, `{__name__=~"teescope_store_series|teescope_budget_ratio|`+probe.SlowedDesc.Name+`",`+own+`} or teescope_memory_bytes{kind="rss",`+own+`}`, at)
	if err != nil {
		return o, err
	}
	if m.isRemote(on) {
		o.Budget = 0
	}
	for _, p := range points {
		switch p.Labels["__name__"] {
		case "teescope_store_series":
			o.Series = int(p.Value)
		case "teescope_memory_bytes":
			o.RSSBytes = p.Value
		case probe.SlowedDesc.Name:
			if p.Value > 1 {
				o.Slowed = p.Value
			}
		default:
			if m.isRemote(on) {
				o.Budget = p.Value
			}
		}
	}
	for part, absent := range map[string]bool{"memory": o.RSSBytes == 0, "series": o.Series == 0} {
		if absent {
			o.Missing[part] = none
		}
	}
	if m.isRemote(on) {
		if o.Series == 0 {
			o.Missing["series"] = "an agent stores no series"
		}
		delete(o.Missing, "page") // an agent has none
		return o, nil
	}
	if err := m.series.Err(); err != nil {
		o.StoreError = contain.OneLine(err)
	}
	return o, nil
}
