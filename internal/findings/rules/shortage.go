package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// This file says who takes what a machine is short of. A finding keeps its title where that is not known.

// saturated is the beginning of a title: "CPU saturated: ", with the machine where there are several.
func saturated(resource string, f *findings.Finding) string {
	if f.Subject == findings.WholeMachine {
		return resource + " saturated: "
	}
	return fmt.Sprintf("%s of the %s saturated: ", resource, f.Subject)
}

// blameCPU names the processes that take a machine's CPUs, and those that wait for one.
func blameCPU(ctx context.Context, e *evidence, labels map[string]string, f *findings.Finding) {
	if e.err != nil {
		return
	}
	s, err := rivals.Short(ctx, e.pass, contest(e.pass, query.MachineOf(labels), ""))
	if err != nil {
		e.err = err
		return
	}
	if len(s.Takers) == 0 {
		return
	}
	f.Takers, f.Waiters, f.Cost = s.Takers, s.Waiters, f.Title
	f.Title = saturated("CPU", f) + s.Sentence()
	e.record(ctx, s.Evidence)
}

// blameMemory names the processes that touch the most new memory, as their first faults on pages count it.
func blameMemory(ctx context.Context, e *evidence, labels map[string]string, f *findings.Finding) {
	e.blameMost(ctx, f, labels, usage{
		resource: "Memory", verb: "touches", what: "new pages a second", text: "first faults on pages of",
		series: "tee_page_faults_total", matchers: `space="user",cause="no_page_found"`, least: 1000,
	})
}

// blameDisk names the processes that make the most synchronising calls, each of which makes the disk write.
func blameDisk(ctx context.Context, e *evidence, labels map[string]string, f *findings.Finding) {
	e.blameMost(ctx, f, labels, usage{
		resource: "Disk", verb: "makes", what: "synchronising calls a second", text: "synchronising calls of",
		series: "tee_syscalls_total", matchers: fmt.Sprintf("syscall=~%q", syncCalls), least: 10,
		waits: "disk",
	})
}

// socketCalls send and receive; read and write may be of files.
const socketCalls = "sendto|sendmsg|sendmmsg|recvfrom|recvmsg|recvmmsg"

// nameCallers says which processes make the most socket calls when a network loses something: no source counts bytes by process.
func nameCallers(ctx context.Context, e *evidence, labels map[string]string, f *findings.Finding) {
	if e.err != nil {
		return
	}
	selector := func(more ...string) string {
		return onMachine("tee_syscalls_total", labels, append(more, fmt.Sprintf("syscall=~%q", socketCalls))...)
	}
	points, err := e.pass.Query(ctx, "sort_desc(topk(3, sum by (process) ("+query.Rate(selector(`process!="other"`), window(e.pass))+") >= 10))", e.pass.To)
	if err != nil {
		e.err = err
		return
	}
	var names []string
	for _, p := range points {
		name := p.Labels["process"]
		e.add(ctx, "socket calls of "+name+", mean of the last "+window(e.pass), "1/s", query.SumRate(selector(fmt.Sprintf("process=%q", name)), window(e.pass)))
		names = append(names, fmt.Sprintf("%s (%s a second)", name, metric.Count(p.Value)))
	}
	who := "The bytes are not counted by process"
	if len(names) > 0 {
		who += "; the processes with the most send and receive calls are " + strings.Join(names, ", ")
	}
	f.Cost = strings.TrimSpace(f.Cost + " " + who + ".")
}

// usage is how processes use something other than CPUs: events that a source counts by process.
type usage struct {
	resource, verb, what, text string
	series, matchers           string
	least                      float64 // events a second, below which nobody is named
	waits                      string  // the state of those that wait for it; "" where no source says who does
}

// blameMost names the processes with the most events, and those whose threads wait.
func (e *evidence) blameMost(ctx context.Context, f *findings.Finding, labels map[string]string, u usage) {
	if e.err != nil {
		return
	}
	ranked := func(series, matchers string, least float64) (out []rivals.Part) {
		if e.err != nil {
			return nil
		}
		var points []metric.Point
		points, e.err = e.pass.Query(ctx, fmt.Sprintf(`sort_desc(sum by (process) (%s) >= %g)`,
			query.Rate(onMachine(series, labels, `process!="other"`, matchers), window(e.pass)), least), e.pass.To)
		for _, p := range points {
			out = append(out, rivals.Part{Name: p.Labels["process"], Value: p.Value})
		}
		return out
	}
	s := rivals.Shortage{Takers: rivals.Leading(ranked(u.series, u.matchers, u.least))}
	if len(s.Takers) == 0 {
		return
	}
	for i, t := range s.Takers {
		s.Takers[i].Unit = "1/s"
		s.Evidence = append(s.Evidence, query.Evidence{Text: u.text + " " + t.Name, Unit: "1/s",
			Expr: query.SumRate(onMachine(u.series, labels, fmt.Sprintf("process=%q", t.Name), u.matchers), window(e.pass))})
	}
	if u.waits != "" {
		s.Waiters = ranked(sampledWait, fmt.Sprintf("state=%q", u.waits), leastWaitingThreads)
	}
	f.Takers, f.Waiters, f.Cost = s.Takers, s.Waiters, f.Title
	f.Title = saturated(u.resource, f) + s.Counted(u.verb, u.what, u.waits != "")
	e.record(ctx, s.Evidence)
}

// leastWaitingThreads is how many threads of a process wait on average before it is named.
const leastWaitingThreads = 0.02
