package rules

import (
	"cmp"
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

var pageFaultStorm = &findings.Rule{
	Name:  "page_fault_storm",
	Title: "Page fault storm",
	Doc: "A process takes at least 20,000 page faults a second in user space, or in the kernel on its behalf, as the mean of each window " +
		"and in every reading of the last 20 s. The threshold is from TEEMon's analysis script, which names no unit of time; redis-server and " +
		"nginx under full load take fewer than 10 a second. In an enclave or a " +
		"confidential VM a fault may first have to load, accept or convert a page, which causes an exit.",
	Needs: []string{"tee_page_faults_total"},
	Thresholds: []findings.Threshold{
		{Name: "rate", Doc: "page faults of a process in one space, user or kernel", Unit: "1/s", Default: 20_000},
		{Name: "rate_critical", Doc: "the same page faults, for a critical finding", Unit: "1/s", Default: 200_000},
	},
	Remedy:    causes.PageFaultStorm.Remedy,
	Reference: "https://docs.kernel.org/admin-guide/mm/concepts.html and " + teemon,
	Run:       findPageFaultStorms,
}

// spaces are the places of faults, with what each means.
var spaces = map[string]struct{ where, remedy string }{
	"user":   {"in user space", ""},
	"kernel": {"in the kernel on its behalf", "Reuse buffers: the kernel takes these faults while it copies data from or to memory that is not there yet, because the process passes fresh buffers to read, recv and the like. "},
}

// faultCauses are keyed by the label "cause" of the faults, the error code's meaning: what a program did, and what that
// says about it.
var faultCauses = map[string]struct{ act, remedy string }{
	"no_page_found":     {"first reads of pages", "Most of these faults are first reads of pages: memory is mapped, used and unmapped again, or it was paged out."},
	"write_protection":  {"writes to read-only pages", "Most of these faults are writes to read-only pages: copies after a fork (for a snapshot, say), or a garbage collector's write barrier."},
	"protection":        {"accesses that a page forbids", "Most of these faults violate a page's protection: a garbage collector or a sandbox uses mprotect."},
	"write":             {"first writes to pages", "Most of these faults are first writes to pages: memory is mapped, used and unmapped again."},
	"instruction_fetch": {"fetching code", "Most of these faults fetch code that is generated, newly mapped, or was paged out."},
}

// faultsFrom names the faults of one cause.
func faultsFrom(cause string) string {
	return "page faults from " + cmp.Or(faultCauses[cause].act, "other causes")
}

func findPageFaultStorms(ctx context.Context, p *findings.Pass) error {
	const faults = "tee_page_faults_total"
	found, err := storms(ctx, p, faults, `process!="other"`, "rate", "space")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range found {
		process, where := s.labels["process"], spaces[s.labels["space"]]
		who := s.siblingCounter("")
		if seen[who] {
			continue // its more frequent space is already named
		}
		seen[who] = true
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("page faults of %s %s, %s", process, where.where, s.spanText()), "1/s", s.rate(s.series))
		cause, err := topCause(ctx, p, s)
		if err != nil {
			return err
		}
		if cause != "" {
			e.add(ctx, "share of "+faultsFrom(cause), "ratio", s.rate(query.Narrow(s.series, fmt.Sprintf("cause=%q", cause)))+" / "+s.rate(s.series))
		}
		all := s.rate(s.siblingCounter(faults))
		e.add(ctx, "its page faults in user space and in the kernel in the same time", "1/s", all)
		e.add(ctx, "page faults per second of its CPU time", "1/s", all+" / "+s.rate(s.siblingCounter("tee_process_cpu_seconds_total")))
		e.add(ctx, fmt.Sprintf("page faults %s, mean of the last %s", where.where, window(p)), "1/s", query.SumRate(s.series, window(p)))
		f := findings.Finding{
			Machine:    query.MachineOf(s.labels),
			Subject:    s.subject,
			Life:       lifeOf(s.labels),
			Title:      fmt.Sprintf("%s takes %s page faults a second %s.", s.subject, metric.Count(rate), where.where),
			Severity:   findings.Warning,
			Confidence: e.trust(ctx, s.labels, "faults"),
			Remedy:     where.remedy + p.Rule.Remedy,
		}
		if rate >= p.Limit("rate_critical", s.subject) {
			f.Severity = findings.Critical
		}
		if r := faultCauses[cause].remedy; r != "" {
			f.Remedy += " " + r
		}
		f.Cost, f.Share = s.faultCost(ctx, &e, cause)
		f.ShareOf = findings.ActiveTime
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}

// faultCost returns the cost of the faults as a sentence: their sampled time with its share of the process's active
// time, or else the calibrated cost of faults of that cause.
func (s storm) faultCost(ctx context.Context, e *evidence, cause string) (string, *[2]float64) {
	if s.labels["space"] == "user" { // faults in the kernel are sampled as part of the system call
		in := func(w string) string { return query.SumRate(s.siblingCounter(sampledCPU, `mode="fault"`), w) }
		if took := e.add(ctx, "CPU time in page faults, by samples, mean of the last "+window(e.pass), "cores", in(window(e.pass))); took > 0 {
			_, share := e.sampled(ctx, "share of page faults in its active time", in, s.active, "cpu|wait", s.labels)
			return fmt.Sprintf("Page faults use %s, estimated from CPU samples.", metric.Value(took, "cores")), share
		}
	}
	if price := e.priced(ctx, "fault_"+cause, s.rate(query.Narrow(s.series, fmt.Sprintf("cause=%q", cause))), s.labels); price != "" {
		return fmt.Sprintf("Its %s cost %s.", faultsFrom(cause), price), nil
	}
	return "", nil
}

// topCause returns the most frequent cause of a process's faults during the spell.
func topCause(ctx context.Context, p *findings.Pass, s storm) (string, error) {
	points, err := p.Query(ctx, "topk(1, sum by (cause) ("+query.Rate(s.series, query.PromDuration(s.spell))+"))", p.To)
	if err != nil || len(points) == 0 {
		return "", err
	}
	return points[0].Labels["cause"], nil
}
