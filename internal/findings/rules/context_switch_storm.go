package rules

import (
	"context"
	"fmt"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// Measured on two CPUs, and pinned to one, with one to 50 connections: redis-server, redis-benchmark, nginx and wrk
// switch up to 44,000 times a second, but at most 0.55 times for each call that moves data, because they sleep to
// wait for a message. Twice as many switches as such calls mean another cause.
var contextSwitchStorm = &findings.Rule{
	Name:  "context_switch_storm",
	Title: "Context switch storm",
	Topic: cpuSaturated,
	Role:  findings.RoleEffect,
	Doc: "A process is switched out at least 10,000 times a second, voluntarily or involuntarily, and at least twice " +
		"for each of its calls that move data (read, write, send, receive and the like). redis-server, nginx and their load generators stay below 0.55 switches per such call at any rate. " +
		"The rate must hold as the mean of each window and in every reading of the last 20 s. " +
		"Kernel threads, which make no system calls, are left out.",
	Needs: []string{"tee_context_switches_total", "tee_syscalls_total"},
	Thresholds: []findings.Threshold{
		{Name: "rate", Doc: "switches of one kind (voluntary or involuntary) of a process", Unit: "1/s", Default: 10_000},
		{Name: "factor", Doc: "such switches per read, write, send or receive call", Unit: "ratio", Default: 2},
	},
	Remedy:    causes.ContextSwitchStorm.Remedy,
	Reference: "https://docs.kernel.org/scheduler/index.html and " + teemon,
	Run:       findContextSwitchStorms,
}

var switchRemedies = map[string]string{
	"voluntary":   "The process's threads sleep and wake each other for very little work: a contended lock (split it), a queue with one item at a time, or very short sleeps.",
	"involuntary": "Either more threads want to run than there are CPUs (use fewer, or give the process its own CPUs), or the process yields in a loop (replace sched_yield by a real wait).",
}

func findContextSwitchStorms(ctx context.Context, p *findings.Pass) error {
	const switches = "tee_context_switches_total"
	found, err := storms(ctx, p, switches, `process!="other"`, "rate", "kind")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, s := range found {
		process, kind := s.labels["process"], s.labels["kind"]
		who := s.siblingCounter("")
		if seen[who] {
			continue // its more frequent kind is already named
		}
		e := evidence{pass: p}
		rate := e.add(ctx, fmt.Sprintf("%s context switches of %s, %s", kind, process, s.spanText()), "1/s", s.rate(s.series))
		useful := e.add(ctx, "its read, write, send and receive calls in the same time", "1/s", s.useful())
		calls := e.add(ctx, "all its system calls in the same time", "1/s", "("+s.rate(s.siblingCounter("tee_syscalls_total"))+" or vector(0))")
		if e.err != nil {
			return e.err
		}
		if dominates := rate >= p.Limit("factor", s.subject)*useful; !dominates || calls == 0 {
			continue
		}
		seen[who] = true
		e.add(ctx, fmt.Sprintf("%s context switches, mean of the last %s", kind, window(p)), "1/s", query.SumRate(s.series, window(p)))
		f := findings.Finding{
			Machine:    query.MachineOf(s.labels),
			Subject:    s.subject,
			Life:       lifeOf(s.labels),
			Title:      fmt.Sprintf("%s makes %s %s context switches a second.", s.subject, metric.Count(rate), kind),
			Severity:   findings.Warning,
			Confidence: e.trust(ctx, s.labels, "switches|syscalls"),
			Remedy:     switchRemedies[kind] + " " + p.Rule.Remedy,
		}
		if price := e.priced(ctx, "switch_same_core", s.rate(s.series), s.labels); price != "" {
			f.Cost = fmt.Sprintf("The switches alone use %s; cache pollution is not included.", price)
		}
		if f.Evidence = e.list; e.err != nil {
			return e.err
		}
		p.Report(f)
	}
	return nil
}
