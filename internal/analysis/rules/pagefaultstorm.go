package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/analysis"
)

// faultFloor is the number in TEEMon's analysis script, which leaves the time
// open; here it is per process and second.
const faultFloor = 20_000

var pageFaultStorm = &analysis.Rule{
	Name:  "page_fault_storm",
	Title: "Page fault storm",
	Doc: "A process takes at least 20,000 page faults a second, the number in TEEMon's analysis script, as the mean of either window " +
		"and in every reading of the last 20 s. redis-server and nginx under full load take fewer than 10. In an enclave or a " +
		"confidential VM a fault can also mean that a page has to be loaded, accepted or converted first, with an exit.",
	Needs: []string{"tee_page_faults_total"},
	Remedy: "Find the place with `perf record -e page-faults -g -p PID`. Keep memory instead of giving it back, touch it before it is needed " +
		"(MAP_POPULATE, an allocator that does not trim), use huge pages, and make the working set smaller than the protected memory.",
	Reference: "https://docs.kernel.org/admin-guide/mm/concepts.html and " + teemon,
	Run:       findPageFaultStorms,
}

// faultRemedies by what the error code says.
var faultRemedies = map[string]string{
	"no_page_found":     "Most of these faults are first touches of pages: memory is mapped, used and unmapped again, or it was paged out.",
	"write_protection":  "Most of these faults are writes to pages that may only be read: copies after a fork (a snapshot, say), or a collector's write barrier.",
	"protection":        "Most of these faults are refused by the page's protection: a collector or a sandbox that works with mprotect.",
	"write":             "Most of these faults are first writes to pages: memory is mapped, used and unmapped again.",
	"instruction_fetch": "Most of these faults fetch code: it is generated, mapped anew, or was paged out.",
}

func findPageFaultStorms(ctx context.Context, p *analysis.Pass) error {
	const faults = "tee_page_faults_total"
	found, err := storms(ctx, p, faults, `process!="other"`, faultFloor)
	if err != nil {
		return err
	}
	for _, s := range found {
		process := s.labels["process"]
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("page faults of %s, %s", process, s.when()), "1/s", s.rate(s.series))
		cause, err := topCause(ctx, p, s)
		if err != nil {
			return err
		}
		if cause != "" {
			e.add(ctx, "share of the cause "+cause, "ratio", s.rate(with(s.series, fmt.Sprintf("cause=%q", cause)))+" / "+s.rate(s.series))
		}
		e.add(ctx, "faults for each second of its CPU time", "1/s", s.rate(s.series)+" / "+s.rate(s.of("tee_process_cpu_seconds_total")))
		e.add(ctx, "page faults, mean of the last "+window(p), "1/s", fmt.Sprintf("sum(rate(%s[%s]))", s.series, window(p)))
		if e.err != nil {
			return e.err
		}
		subject, err := named(ctx, p, process, faults, s.labels["instance"])
		if err != nil {
			return err
		}
		severity := analysis.Warning
		if rate >= 10*faultFloor {
			severity = analysis.Critical
		}
		f := analysis.Finding{
			Subject:  subject,
			Title:    fmt.Sprintf("%s takes %s page faults a second.", subject, count(rate)),
			Severity: severity,
			Evidence: e.list,
		}
		if r, ok := faultRemedies[cause]; ok {
			f.Remedy = r + " " + p.Rule.Remedy
		}
		p.Report(f)
	}
	return nil
}

// topCause is the most frequent cause of a process's faults during the spell.
func topCause(ctx context.Context, p *analysis.Pass, s storm) (string, error) {
	points, err := p.Query(ctx, fmt.Sprintf("topk(1, sum by (cause) (rate(%s[%s])))", s.series, analysis.PromDuration(s.spell)), p.To)
	if err != nil || len(points) == 0 {
		return "", err
	}
	return points[0].Labels["cause"], nil
}
