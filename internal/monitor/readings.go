//go:build linux

package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/store"
)

// collect reads the sources for /metrics: the same rounds that are stored.
func (m *monitor) collect(ctx context.Context) []metric.Sample {
	_, samples := m.Engine.Peek(ctx)
	return m.withOwn(samples)
}

// withOwn adds the monitor's own metrics.
func (m *monitor) withOwn(samples []metric.Sample) []metric.Sample {
	add := func(s metric.Sample) { samples = append(samples, s) }
	m.keeper.Collect(add)
	quota.Own().Collect(add)
	if m.analysis != nil {
		m.collectFindings(add)
	}
	samples = m.AppendInfo(samples)
	if c := m.costs.Load(); c != nil {
		samples = c.Samples(samples)
	}
	samples = append(samples, m.memory...)
	metric.SortByName(samples)
	return samples
}

// storeRound stores one round; a failure is logged when it starts and when it ends.
func (m *monitor) storeRound(at time.Time, samples []metric.Sample) {
	err := m.keeper.Append(at, m.withOwn(samples))
	var some *store.Refused
	partly := errors.As(err, &some)
	if err != nil && !partly {
		if !m.failing.Swap(true) {
			m.Log.Error("cannot store this round of readings; the next round is tried as usual", "error", contain.OneLine(err))
		}
		return
	}
	if m.failing.Swap(false) {
		m.Log.Warn("the store accepts samples again")
	}
	switch before := m.refusing.Swap(partly); {
	case partly && !before:
		m.Log.Warn("the store refuses some samples; the others are stored", "error", contain.OneLine(err))
	case before && !partly:
		m.Log.Warn("the store accepts all samples again")
	}
	m.rounds.Add(1)
	if m.analysis != nil {
		m.analysis.Read()
	}
}

func (m *monitor) ready() error {
	if m.rounds.Load() == 0 {
		return errors.New("no reading is stored yet; try again after one --interval")
	}
	if err := m.keeper.Err(); errors.Is(err, store.ErrReplaced) {
		return err
	}
	return nil
}

// absent returns why a metric has no series, from the state of its source.
func (m *monitor) absent(name string) string {
	if m.Query.URL != "" {
		return "the engine of --query-url has no series of this metric"
	}
	if name == observe.UnitCostDesc.Name {
		if c := m.costs.Load(); c != nil {
			return c.Absent()
		}
		return "the costs are being measured; this takes a few seconds"
	}
	if strings.HasPrefix(name, "teescope_remote_write_") {
		return "no receiver is configured (remote_write)"
	}
	if name == MemoryCostDesc.Name {
		return "no baseline is declared (--memory-baseline)"
	}
	idle := ""
	for _, s := range m.Engine.Status() {
		for _, d := range s.Source.Metrics {
			switch {
			case d.Name != name:
			case s.Reason != "":
				return fmt.Sprintf("source %s is %s: %s", s.Source.Name, s.State, s.Reason)
			default:
				idle = fmt.Sprintf("source %s works, but has counted no such event", s.Source.Name)
			}
		}
	}
	if !emitted(m.Sources, name) {
		return "neither a source of this monitor nor a scraped target emits this metric"
	}
	return idle
}
