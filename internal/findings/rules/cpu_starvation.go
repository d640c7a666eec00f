package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

var cpuStarvation = &findings.Rule{
	Name:  "cpu_starvation",
	Title: "CPU starvation",
	Topic: cpuSaturated,
	Role:  findings.RoleEffect,
	Doc: "The threads of a process wait for a CPU at least 60 % of their active time (on a CPU, or waiting for a lock, a disk or a CPU), and on average at least half a thread waits. " +
		"At a higher share fewer waiting threads are enough: a quarter of a thread at 75 %, a tenth at 88 %, and never less than a twentieth. This catches servers that sleep between requests: few of their threads wait, but each answer is late. " +
		"This must hold over each window and over its newest half minute, by samples of all threads. The finding opens early if the lower bound of the share is at least 70 % over the newest 25 s, and at least one thread waits. At 60 % the process takes two and a half times as long as on an idle machine. " +
		"The finding names the processes that use the CPUs during the waiting. The finding is for information only if the process itself competes for the CPUs. Such a process uses at least four fifths as much CPU time as the largest of the named processes, or hardly ever gives up a CPU voluntarily (fewer than 1 % of its switches are voluntary). If the processes of one name run in several service units or containers, each unit that meets the limits has its own finding, and processes of the same name in other units count among its rivals. If no unit meets the limits by itself, the rule adds up all processes of the name. The rule pressure covers the machine as a whole, and the rule cpu_throttling covers quotas.",
	Needs: []string{sampledWait, sampledCPU},
	Early: 25 * time.Second,
	Thresholds: []findings.Threshold{
		{Name: "share", Doc: "share of waiting for a CPU in the active time of a process; for an early finding, the lower bound of the share's interval", Unit: "ratio", Default: 0.60, Early: 0.70},
		{Name: "waiting", Doc: "threads that wait for a CPU, on average, at that share; at a higher share fewer threads are enough, down to a tenth of this limit", Unit: "", Default: 0.5, Early: 1},
	},
	Remedy:    causes.CPUStarvation.Remedy,
	Reference: "https://docs.kernel.org/scheduler/sched-design-CFS.html",
	Run:       findCPUStarvation,
}

// fewestWaiting is the part of the limit "waiting" below which no share makes a finding: samples of fewer threads say
// little.
const fewestWaiting = 0.1

func findCPUStarvation(ctx context.Context, p *findings.Pass) error {
	return waitingFor{
		state: "cpu", what: "waiting for a CPU", whatFor: "a CPU",
		least: leastStarving, lowest: fewestWaiting, near: true,
		judge: func(ctx context.Context, e *waiting, f *findings.Finding) bool {
			e.add(ctx, "its CPU time, by samples"+e.mean, "cores", e.cpu(window(p)))
			f.Confidence = findings.High
			f.Cost = strings.TrimSuffix(f.Cost, ".") + fmt.Sprintf(", and its work takes %s times as long as without waiting.", metric.Digits(1/(1-min(e.share, 0.999))))
			e.blame(ctx, f)
			return true
		},
	}.find(ctx, p)
}

// leastStarving returns how many threads must wait at a share of the active time: the limit "waiting" at the limit
// "share", and inversely to the odds share / (1 - share), by which waiting lengthens the work, beyond.
func leastStarving(p *findings.Pass, subject string, share float64) float64 {
	limit, least := p.Limit("share", subject), p.Limit("waiting", subject)
	if !(share > limit) || limit >= 1 {
		return least
	}
	return least * max(fewestWaiting, limit/(1-limit)*(1-min(share, 1))/share)
}

// equalUse is the part of the largest rival's CPU time from which a process is one of those that take the CPUs.
const equalUse = 0.8

// blame adds to a finding who uses the CPUs while its process waits for one.
func (e *waiting) blame(ctx context.Context, f *findings.Finding) {
	c, lead := e.rivals(ctx, f)
	if len(lead) == 0 {
		return // it waits for itself, or who takes the CPUs is not known
	}
	process := findings.InUnit(e.labels["process"], e.unit)
	title := strings.TrimSuffix(f.Title, ".")
	f.Takers = lead
	switch {
	case c.Own >= equalUse*lead[0].Value:
		f.Severity, f.Takers = findings.Info, append([]rivals.Part{{Name: process, Value: c.Own, Unit: "cores"}}, lead...)
		f.Title = fmt.Sprintf("%s, but itself uses %s, about as much as any other process or more.", title, metric.Value(c.Own, "cores"))
	case c.Greedy:
		f.Severity = findings.Info
		f.Title = fmt.Sprintf("%s: %s. The waiting process hardly ever gives up a CPU voluntarily.", title, rivals.UsagePhrase(lead, "uses"))
	default:
		f.Title = fmt.Sprintf("%s: %s.", title, rivals.UsagePhrase(lead, "uses"))
	}
}

// rivals returns who uses the CPUs while the process of a finding waits for one, and those to name, with their numbers
// as evidence.
func (e *waiting) rivals(ctx context.Context, f *findings.Finding) (c rivals.Contest, lead []rivals.Part) {
	if e.err != nil {
		return c, nil
	}
	process := e.labels["process"]
	if c, e.err = rivals.Find(ctx, e.pass, contest(e.pass, f.Machine, process)); e.err != nil {
		return c, nil
	}
	e.record(ctx, c.Evidence(process))
	if e.unit == "" {
		return c, c.Lead()
	}
	// Processes of the same name in other units are rivals too.
	if c.Takers = append(c.Takers, e.siblings(ctx)...); e.err != nil {
		return c, nil
	}
	slices.SortStableFunc(c.Takers, func(a, b rivals.Part) int { return cmp.Compare(b.Value, a.Value) })
	c.Own, c.Greedy = e.add(ctx, "its CPU time, by samples"+e.mean, "cores", e.cpu(window(e.pass))), false // how the unit gives CPUs back is not known
	return c, c.Lead()
}

// siblings returns the CPU time of the processes of the same name in other units.
func (e *waiting) siblings(ctx context.Context) (out []rivals.Part) {
	if e.err != nil {
		return nil
	}
	points, err := e.pass.Query(ctx, fmt.Sprintf("sum by (unit) (rate(%s[%s])) > 0", ofProcess(unitTime, e.labels, `state="running"`, `unit!=""`, fmt.Sprintf("unit!=%q", e.unit)), window(e.pass)), e.pass.To)
	if e.err = err; err != nil {
		return nil
	}
	for _, pt := range points {
		name := findings.InUnit(e.labels["process"], pt.Labels["unit"])
		e.add(ctx, "CPU time of "+name+", by samples"+e.mean, "cores", query.SumRate(ofProcess(unitTime, e.labels, `state="running"`, fmt.Sprintf("unit=%q", pt.Labels["unit"])), window(e.pass)))
		out = append(out, rivals.Part{Name: name, Value: pt.Value, Unit: "cores"})
	}
	return out
}

// contest returns the question who takes the CPUs in a pass.
func contest(p *findings.Pass, on query.Machine, process string) rivals.Question {
	return rivals.Question{Process: process, Machine: on, From: p.From, To: p.To, Interval: p.Interval, Places: p.Places(on)}
}

// record adds the numbers of takers, whose queries are over the pass's window.
func (e *evidence) record(ctx context.Context, list []query.Evidence) {
	for _, ev := range list {
		e.add(ctx, ev.Text+", mean of the last "+window(e.pass), ev.Unit, ev.Expr)
	}
}
