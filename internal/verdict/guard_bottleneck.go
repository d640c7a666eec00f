package verdict

import (
	"math"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// full is the share of a resource's time above which it counts as exhausted.
const full = 0.90

// limits are the resources that may limit the throughput of a server, by the metric of their use.
// The machine's CPUs come last: if all are busy, the largest user is named.
var limits = []struct {
	metric, name string
	// foreign: the limit was not that of the server under test.
	foreign bool
}{
	{"client_cpu_ratio", "the load generator", true},
	{"softirq_busiest_ratio", "one CPU's soft interrupts (the network)", true},
	{"log_busy_ratio", "writing the log", false},
	{"server_cpu_ratio", "the CPU time of the server under test", false},
	{"origin_cpu_ratio", "the CPU time of the server behind it", true},
}

// allCPUs is the metric of the whole machine's CPU use.
const allCPUs = "machine_cpu_ratio"

var bottleneck = Guard{
	ID: "bottleneck",
	Doc: "What limited the throughput of a server under test: the load generator, the soft interrupts of one CPU, writing the log, " +
		"its own CPU time or that of the server behind it (each above 0.9), or all CPUs together, with the programs that used them.",
	Effect: "a note if the server under test was the bottleneck; a warning otherwise, because the ratio then describes the bottleneck",
	Help:   "give the load generator and the server separate CPUs, spread network interrupts over CPUs, or log less; if no resource was used up, use more connections",
	check: func(p *guardRun) {
		if p.named(allCPUs) == "" { // no workload of this kind
			return
		}
		for _, k := range p.contests {
			for _, env := range []*result.Environment{k.base, k.treat} {
				p.limited(k, env)
			}
		}
	},
}

// limited reports what limited one arm of a contest.
func (p *guardRun) limited(k *armComparison, env *result.Environment) {
	s := scope{cas: k.cas.ID, arm: env.ID}
	used := values{}
	var unseen []string
	for _, l := range limits {
		name := p.named(l.metric)
		if name == "" {
			continue
		}
		v := p.median(k.cas, env.ID, name)
		if math.IsNaN(v) {
			if slices.ContainsFunc(p.runs(k.cas.ID, env.ID), func(r *result.Run) bool { return r.Metric(name) != nil }) {
				unseen = append(unseen, l.name)
			}
			continue // or this arm has no such resource
		}
		used[l.metric] = v
		if v > full {
			e := tell
			if l.foreign {
				e = warn
			}
			p.report(e, s, used, "the bottleneck%s in %s was %s: %s of its time was used", ofCase(k.cas.ID), env.ID, l.name, metric.Percent(v))
			return
		}
	}
	all := p.median(k.cas, env.ID, p.named(allCPUs))
	switch {
	case all > full:
		used[allCPUs] = all
		p.report(warn, s, used, "all CPUs were busy%s in %s (%s), and several programs shared the CPUs: %s; the server might do more with CPUs of its own", inCase(k.cas.ID), env.ID, metric.Percent(all), shares(used))
	case math.IsNaN(all):
		p.unknown(s, "what limited the throughput%s in %s: the environment reports no CPU use", ofCase(k.cas.ID), env.ID)
	case unseen != nil:
		p.unknown(s, "whether %s limited the throughput%s in %s: this was not measured, and no other resource was used up", strings.Join(unseen, " or "), ofCase(k.cas.ID), env.ID)
	default:
		p.report(tell, s, used, "no resource was used up%s in %s (all CPUs together %s): too few connections, waiting, or a lock limited the rate", inCase(k.cas.ID), env.ID, metric.Percent(all))
	}
}

// shares lists how much each part used of its own CPUs, the largest first. The parts have different CPUs: the load
// generator has those of its threads, possibly on another machine. So the shares do not add up, and the first part is
// not necessarily the largest user.
func shares(used values) string {
	var who []string
	for _, l := range limits {
		if strings.HasSuffix(l.metric, "_cpu_ratio") && !math.IsNaN(used[l.metric]) && used[l.metric] > 0 {
			who = append(who, l.metric)
		}
	}
	slices.SortFunc(who, func(a, b string) int { return int(math.Copysign(1, used[b]-used[a])) })
	for i, m := range who {
		who[i] = strings.TrimSuffix(m, "_cpu_ratio") + " " + metric.Percent(used[m])
	}
	return strings.Join(who, ", ")
}
