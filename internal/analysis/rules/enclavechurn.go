package rules

import (
	"context"
	"fmt"
	"math"

	"github.com/teescope/teescope/internal/analysis"
)

const (
	pagesAdded = "tee_sgx_epc_pages_added_total"
	epcPage    = 4096 // bytes
)

var enclaveChurn = &analysis.Rule{
	Name:  "enclave_churn",
	Title: "Enclave churn",
	Doc: "Enclaves are made at least once in 10 seconds, over either window and over its newest half minute, and live for less than 30 seconds on average, " +
		"which is their number divided by how many are made a second (Little's law). To make an enclave, each page is copied in and measured, " +
		"so the start can take longer than the work.",
	Needs: []string{pagesAdded, "tee_sgx_enclaves"},
	Thresholds: []analysis.Threshold{
		{Name: "made", Doc: "enclaves made", Unit: "1/s", Default: 0.1},
		{Name: "life", Doc: "average life of an enclave, less than", Unit: "seconds", Default: 30},
	},
	Remedy: "Keep enclaves and give them one task after another: a pool, a server instead of a program for each task. Make what must start small: a smaller heap, " +
		"or one that grows (SGX2: sgx.edmm_enable in Gramine, a small HeapInitSize in the Intel SDK).",
	Reference: intelStart,
	Run:       findEnclaveChurn,
}

// intelStart says that an enclave with a heap of 1 GB takes several seconds to start.
const intelStart = "https://www.intel.com/content/www/us/en/support/articles/000089477/software/development-software.html"

func findEnclaveChurn(ctx context.Context, p *analysis.Pass) error {
	made := func(selector func(string) string, aggregate, window string) string {
		return fmt.Sprintf("(%[1]s (rate(%[2]s[%[4]s])) or %[1]s (rate(%[3]s[%[4]s])))", aggregate,
			selector("tee_sgx_enclaves_initialized_total"), selector("tee_sgx_enclaves_created_total"), window)
	}
	points, err := p.Query(ctx, held(p, func(window string) string {
		return made(func(metric string) string { return metric }, "sum by (job, instance)", window)
	}, p.Least("made")), p.To)
	if err != nil {
		return err
	}
	for _, pt := range points {
		subject, err := named(ctx, p, "machine", pagesAdded, pt.Labels["instance"])
		if err != nil {
			return err
		}
		here := func(metric string) string { return onMachine(metric, pt.Labels) }
		e := evidence{pass: p}
		rate := e.add(ctx, "enclaves made, mean of the last "+newest(p), "1/s", made(here, "sum", newest(p)))
		mean := e.add(ctx, "enclaves made, mean of the last "+window(p), "1/s", made(here, "sum", window(p)))
		alive := fmt.Sprintf("avg_over_time(%s[%s])", here("tee_sgx_enclaves"), window(p))
		e.add(ctx, "enclaves at a time, mean of the last "+window(p), "", alive)
		life := e.add(ctx, "average life of an enclave", "seconds", "sum("+alive+") / "+made(here, "sum", window(p)))
		if limit := p.Limit("made", subject); min(rate, mean) < limit || math.IsNaN(life) || life >= p.Limit("life", subject) {
			continue
		}
		added := e.add(ctx, "EPC filled for enclaves that are being made", "bytes/s", fmt.Sprintf("%s * %d", sumRate(here(pagesAdded), window(p)), epcPage))
		if e.err != nil {
			return e.err
		}
		p.Report(analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s enclaves a second are made on the %s, and live for %s seconds on average.", count(rate), subject, count(life)),
			Severity: analysis.Warning,
			Evidence: e.list,
			Cost: fmt.Sprintf("%s MiB are copied into the EPC and measured a second, %s MiB for each enclave; Intel says that 1 GB takes several seconds (from literature, not measured here).",
				count(added/(1<<20)), count(added/mean/(1<<20))),
		})
	}
	return nil
}
