package findings

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// standardErrors answers with the standard errors of sources.
type standardErrors map[string]float64

func (s standardErrors) Query(_ context.Context, expr string, _ time.Time) (out []metric.Point, _ error) {
	if strings.Contains(expr, "standard_error_ratio") {
		for source, v := range s {
			out = append(out, metric.Point{Labels: map[string]string{"instance": "vm1", "job": "teescope", "source": source}, Value: v})
		}
	}
	return out, nil
}

// TestIntervalsOfRates: a rate of one source that counts a part of the events has its interval; an exact one, a mixed one, another
// machine's and what is no rate have none.
func TestIntervalsOfRates(t *testing.T) {
	of := map[string]string{"tee_syscalls_total": "syscalls", "tee_page_faults_total": "faults", "tee_process_io_calls_total": "io"}
	v := &evaluation{opts: Options{Source: func(m string) string { return of[m] }}}
	rate := func(unit, expr string) query.Evidence { return query.Evidence{Value: 100, Unit: unit, Expr: expr} }
	for name, tt := range map[string]struct {
		instance  string
		ev        query.Evidence
		low, high float64 // NaN for none
	}{
		"estimated":   {"vm1", rate("1/s", `sum(rate(tee_syscalls_total{process="a"}[1m]))`), 80.4, 119.6},
		"very unsure": {"vm1", rate("1/s", `sum(rate(tee_page_faults_total{process="a"}[1m]))`), 0, 296},
		"exact":       {"vm1", rate("1/s", `sum(rate(tee_process_io_calls_total{process="a"}[1m]))`), math.NaN(), 0},
		"mixed":       {"vm1", rate("1/s", `sum(rate(tee_syscalls_total{a="b"}[1m])) + sum(rate(tee_page_faults_total{a="b"}[1m]))`), math.NaN(), 0},
		"share":       {"vm1", rate("ratio", `sum(rate(tee_syscalls_total{a="b"}[1m]))`), math.NaN(), 0},
		"elsewhere":   {"vm2", rate("1/s", `sum(rate(tee_syscalls_total{a="b"}[1m]))`), math.NaN(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Pass{Querier: standardErrors{"syscalls": 0.1, "faults": 1}, To: time.Unix(60, 0), From: time.Unix(0, 0)}
			f := Finding{Machine: query.Machine{Job: "teescope", Instance: tt.instance}, Evidence: []query.Evidence{tt.ev}}
			v.bound(t.Context(), p, &f)
			got := f.Evidence[0]
			if math.IsNaN(tt.low) {
				if got.Low != nil || got.High != nil {
					t.Errorf("%s: [%v, %v], want none", name, *got.Low, *got.High)
				}
				return
			}
			if got.Low == nil || got.High == nil || math.Abs(*got.Low-tt.low) > 0.05 || math.Abs(*got.High-tt.high) > 0.05 {
				t.Errorf("%s: %+v, want [%v, %v]", name, got, tt.low, tt.high)
			}
		})
	}
}
