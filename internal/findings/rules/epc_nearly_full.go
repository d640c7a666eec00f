package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

const epcFree, epcSize = "tee_sgx_epc_free_bytes", "tee_sgx_epc_bytes"

var epcNearlyFull = &findings.Rule{
	Name:  "epc_nearly_full",
	Title: "EPC nearly full",
	Topic: enclaveMemoryFull,
	Role:  findings.RoleCause,
	Doc: "At most 5 % of the Enclave Page Cache is free, or free EPC fell in each third of the last 15 minutes and will be used up within an hour at that rate. " +
		"Once the EPC is full, the kernel starts paging, and enclaves slow down abruptly. " +
		"The start of one enclave is a step, not a trend. A monitor that has run for less than 15 minutes cannot see a trend.",
	Needs: []string{epcFree, epcSize},
	Thresholds: []findings.Threshold{
		{Name: "free", Doc: "largest share of the EPC that is free", Unit: "ratio", Default: 0.05},
		{Name: "horizon", Doc: "time within which the trend uses up the EPC", Unit: "seconds", Default: 3600},
	},
	Remedy: "Stop idle enclaves, give enclaves smaller heaps, or move some enclaves to another machine before paging starts on this machine. " +
		"Growth may be a leak inside an enclave with dynamic memory (SGX2): tee_sgx_process_epc_pages_total shows which process allocates.",
	Reference: sgxDocument + " (EPC, and the reclaimer ksgxd)",
	Run:       findEPCNearlyFull,
}

func findEPCNearlyFull(ctx context.Context, p *findings.Pass) error {
	points, err := p.Query(ctx, fmt.Sprintf("sum by (job, instance) (%s)", epcSize)+" > 0", p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, findings.WholeMachine, epcFree, pt.Labels["instance"])
		if err != nil {
			return err
		}
		free, size := "sum("+onMachine(epcFree, pt.Labels)+")", "sum("+onMachine(epcSize, pt.Labels)+")"
		e := evidence{pass: p}
		share := e.add(ctx, "share of the EPC that is free", "ratio", free+" / "+size)
		now := e.add(ctx, "free EPC", "bytes", free)
		e.add(ctx, "size of the EPC", "bytes", size)
		f := findings.Finding{Machine: query.MachineOf(pt.Labels), Subject: subject, Severity: findings.Warning}
		left, err := e.secondsUntilFull(ctx, onMachine(epcFree, pt.Labels))
		if err != nil {
			return err
		}
		switch {
		case share <= p.Limit("free", subject):
			f.Title = fmt.Sprintf("The EPC of the %s is nearly full: %s of it (%s) is free.", subject, metric.Percent(share), metric.Value(now, "bytes"))
		case left <= p.Limit("horizon", subject):
			f.Title = fmt.Sprintf("The EPC of the %s will be full in %s minutes at the rate of the last 15 minutes.", subject, metric.Count(left/60))
			f.Confidence = findings.Medium // a trend need not continue
		default:
			continue
		}
		e.add(ctx, "enclaves", "", "sum("+onMachine("tee_sgx_enclaves", pt.Labels)+")")
		f.Cost = "Once the EPC is full, each page written out and loaded back costs about 40,000 cycles (from literature, VAULT, not measured here)."
		if out := e.add(ctx, "pages being written out", "1/s", query.SumRate(onMachine(pagesEvicted, pt.Labels), newest(p))); out > 0 {
			f.Title += " Pages are already being written out."
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// secondsUntilFull returns the time in seconds until nothing is free if the trend of the last 15 minutes continues; NaN without a
// trend.
func (e *evidence) secondsUntilFull(ctx context.Context, free string) (float64, error) {
	trend := fmt.Sprintf("sum(deriv(%s[15m]))", free)
	falls := trend + " < 0"
	for _, third := range []string{"", " offset 5m", " offset 10m"} {
		falls += fmt.Sprintf(" and sum(deriv(%s[5m]%s)) < 0", free, third)
	}
	points, err := e.pass.Query(ctx, falls, e.pass.To)
	if err != nil || len(points) == 0 {
		return math.NaN(), err
	}
	e.add(ctx, "trend of free EPC over the last 15m", "bytes/s", trend)
	return e.add(ctx, "time until no EPC is free, if the trend continues", "seconds", fmt.Sprintf("sum(%s) / -%s", free, trend)), nil
}
