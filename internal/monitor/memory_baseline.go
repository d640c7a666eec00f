//go:build linux

package monitor

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/verdict"
)

// MemoryCostDesc is what the encryption of memory costs, which is no event.
var MemoryCostDesc = &metric.Desc{Name: explain.MemoryCost, Kind: metric.Gauge, Most: math.MaxFloat64, Labels: []string{"access", "size", "bound"},
	Help: "Ratio of this machine's memory access time to that of the declared baseline (--memory-baseline), by access and working set, from a result of the workload memory: bound is median, or low and high of the 95 % interval."}

// memoryBaseline reads the cost of memory on this machine, relative to a baseline, from a result of the workload memory.
// Its baseline arm is unprotected, and another arm ran on this machine.
func memoryBaseline(file string, f machine.Fingerprint, judging verdict.Options) ([]metric.Sample, error) {
	e, err := result.Read(file)
	if err != nil {
		return nil, err
	}
	if e.Workload.Name != "memory" {
		return nil, fmt.Errorf("%s: the result's workload is %s; want a result of `teescope bench run memory`", file, cmp.Or(e.Workload.Name, "(none)"))
	}
	verdict.Conclude(e, judging)
	here := map[string]bool{}
	var others []string
	for i := range e.Environments {
		env := &e.Environments[i]
		why := environment.OtherMachine(env, f)
		if here[env.ID] = why == ""; why != "" {
			others = append(others, why)
		}
	}
	params := map[string]map[string]string{}
	for _, c := range e.Cases {
		params[c.ID] = c.Params
	}
	var out []metric.Sample
	refused, treatment := 0, ""
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if !c.Primary || !here[c.Treatment] || c.Baseline != e.Environments[0].ID {
			continue
		}
		if treatment != "" && treatment != c.Treatment {
			return nil, fmt.Errorf("%s: both %s and %s ran on this machine, so it is not clear which of them to compare with; give a result with only one of them", file, treatment, c.Treatment)
		}
		treatment = c.Treatment
		if c.Verdict == stats.Invalid || c.Cost == nil || c.CostLow == nil || c.CostHigh == nil {
			refused++
			continue
		}
		for _, b := range []struct {
			name  string
			value float64
		}{{"median", *c.Cost}, {"low", *c.CostLow}, {"high", *c.CostHigh}} {
			out = append(out, metric.Sample{Desc: MemoryCostDesc, Labels: []string{params[c.Case]["access"], params[c.Case]["size"], b.name}, Value: b.value})
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case refused > 0:
		return nil, fmt.Errorf("%s: want a cost with an interval on this machine, but none of %d comparisons has one; `teescope compare %s` says why", file, refused, file)
	case len(others) > 0:
		return nil, fmt.Errorf("%s: no environment other than the baseline ran on this machine: %s", file, strings.Join(others, "; "))
	}
	return nil, fmt.Errorf("%s: want a comparison of an environment on this machine with the baseline, and the result has none", file)
}
