// Package rivals says who takes what others wait for. One computation serves the rules, and through them the
// notifications, the explanation on the command line, on the page and in the API. It reads stored series only; which
// CPUs a process may use is passed in, where it is known.
package rivals

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// The series that are read. The CPU time is the scheduler's own; where it is missing, that of the samples.
const (
	cpuTime    = "tee_process_cpu_seconds_total"
	cpuSampled = "tee_sampled_cpu_seconds_total"
	// cpuRecorded is cpuTime as a rate, recorded twice a minute.
	cpuRecorded = "process:tee_process_cpu_seconds:rate1m"
	waited      = "tee_sampled_wait_seconds_total"
	switched    = "tee_context_switches_total"
	cpuBusy     = "node_cpu_seconds_total"
)

// folded is the name under which sources count processes that have no place in their tables.
const folded = "other"

// Part is one process's part in a shortage: what it takes, or how many of its threads wait.
type Part struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Unit is one of Evidence's.
	Unit string `json:"unit,omitempty"`
	// AtMost: the process may have taken it elsewhere.
	AtMost bool `json:"atMost,omitempty"`
}

// Place is where the processes of a name may run.
type Place struct {
	// CPUs are those that any of them may use; nil for all of the machine.
	CPUs []int
	// Homes are the units and containers in which they run, in order; a few of many.
	Homes []string
}

// Question asks who used the CPUs while Process waited for one, from From to To.
type Question struct {
	Process string
	query.Machine
	From, To time.Time
	// Interval is the longest time between two readings; 0 is the default of 5 s.
	Interval time.Duration
	// Places are the CPUs that processes may use, by name; nil where unknown.
	Places map[string]Place
}

// Contest is who used the CPUs that a process waited for.
type Contest struct {
	// Text says it in one sentence, which names the takers.
	Text string `json:"text"`
	// Takers used the CPUs while the process waited: means over its waiting, the largest first.
	Takers []Part `json:"takers"`
	// Own is what the process itself used, in cores. Greedy: it never gives a CPU back by itself, as a loop that computes
	// without end; where its switches are not counted, it is not.
	Own    float64 `json:"own"`
	Greedy bool    `json:"greedy,omitempty"`
	// CPUs are those that the process may use, as "0-3"; "" for all, or where that is not known.
	CPUs string `json:"cpus,omitempty"`
	// Notes say what is not known.
	Notes []string `json:"notes,omitempty"`

	query func(process string) string
}

// Evidence returns the numbers of the takers to name, with their queries. Of those that may have run elsewhere, too, it
// is the time on all CPUs.
func (c Contest) Evidence(process string) []query.Evidence {
	var out []query.Evidence
	for _, p := range c.Lead() {
		out = append(out, query.Evidence{Text: fmt.Sprintf("CPU time of %s while %s waited", named(p.Name), process), Unit: "cores", Expr: c.query(p.Name)})
	}
	return out
}

// mostTakers is how many takers a contest lists, leastTaken what one of them uses at least, in cores.
const (
	mostTakers = 5
	leastTaken = 0.005
)

// Find returns who used the CPUs while a process waited for one. Each moment counts by how many threads of the process
// waited in it, so that what ended before, or ran while nothing waited, does not count.
func Find(ctx context.Context, q query.Querier, of Question) (Contest, error) {
	var c Contest
	used, exprOf, weighted, err := of.usedCores(ctx, q)
	if err != nil {
		return c, err
	}
	c.query = exprOf
	if !weighted {
		c.Notes = append(c.Notes, "When it waited is not known: the CPU times are means of the whole window.")
	}
	mine, known := of.Places[of.Process]
	bound := known && len(mine.CPUs) > 0
	switch {
	case bound:
		c.CPUs = cpuList(mine.CPUs)
	case !known:
		c.Notes = append(c.Notes, "Which CPUs it may use is not known: processes on other CPUs are not left out.")
	}
	taken := 0.0 // by those that run nowhere else
	for _, u := range used {
		p := Part{Name: u.Labels["process"], Value: u.Value, Unit: "cores"}
		place, known := of.Places[p.Name]
		elsewhere := bound && known && len(place.CPUs) > 0
		switch {
		case p.Name == of.Process:
			c.Own += p.Value
			taken += p.Value
			continue
		case elsewhere && !overlap(place.CPUs, mine.CPUs):
			continue
		case elsewhere && isSubset(place.CPUs, mine.CPUs):
			taken += p.Value
		case bound:
			p.AtMost = true // it may have run on other CPUs
		}
		c.Takers = append(c.Takers, p)
	}
	if bound {
		if c.Takers, err = of.limit(ctx, q, c.Takers, mine.CPUs, taken); err != nil {
			return c, err
		}
	}
	c.Takers = slices.DeleteFunc(c.Takers, func(p Part) bool { return p.Value < leastTaken })
	slices.SortStableFunc(c.Takers, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), strings.Compare(a.Name, b.Name))
	})
	c.Takers = c.Takers[:min(mostTakers, len(c.Takers))]
	c.Text = c.sentence(of.Process)
	greedy, err := q.Query(ctx, of.greedy(of.Process), of.To)
	c.Greedy = len(greedy) > 0
	return c, err
}

// limit bounds the time of those that may also run on other CPUs by what is left of the CPUs of the process.
func (of Question) limit(ctx context.Context, q query.Querier, takers []Part, cpus []int, taken float64) ([]Part, error) {
	names := make([]string, len(cpus))
	for i, c := range cpus {
		names[i] = fmt.Sprint(c)
	}
	busy := of.weighted(func(window string) string {
		return query.SumRate(of.machine(window).Select(cpuBusy, `mode!~"idle|iowait|steal"`, fmt.Sprintf("cpu=~%q", strings.Join(names, "|"))), window)
	})
	points, err := q.Query(ctx, busy, of.To)
	if err != nil || len(points) != 1 {
		return takers, err
	}
	left := max(0, points[0].Value-taken)
	for i := range takers {
		if takers[i].AtMost {
			takers[i].Value = min(takers[i].Value, left)
		}
	}
	return takers, nil
}

// usedCores returns the cores that each process of the machine used, the query for a single one (exprOf), and whether the means are
// over the waiting of of.Process.
func (of Question) usedCores(ctx context.Context, q query.Querier) (used []metric.Point, exprOf func(process string) string, weighted bool, err error) {
	sources := []string{cpuTime, cpuSampled}
	if of.To.Sub(of.From) > time.Hour {
		sources = slices.Insert(sources, 0, cpuRecorded) // reading every process's readings of a day takes seconds
	}
	for _, source := range sources {
		for _, weighted := range []bool{true, false} {
			expr := of.query(source, weighted)
			if used, err = q.Query(ctx, expr(""), of.To); err != nil || len(used) > 0 {
				return used, expr, weighted, err
			}
		}
	}
	return nil, func(string) string { return "" }, false, nil
}

// query returns the query for the cores that a process used, "" for each process: weighted by the waiting of of.Process,
// or over the whole window.
func (of Question) query(source string, weighted bool) func(process string) string {
	return func(process string) string {
		cpu := func(window string) string {
			all, one := of.machine(window), of.process(process, window)
			if source == cpuRecorded {
				return one.Expand("sum by (process) (sum_over_time("+source+"{$here}[$over])) / ") + all.Expand("scalar(max(count_over_time("+source+"{$here}[$over])))")
			}
			return one.Expand("sum by (process) ($rate(" + source + "{$here}))")
		}
		if !weighted {
			return cpu(of.window())
		}
		return of.weighted(cpu)
	}
}

// weighted returns the query for the mean of a rate, each part of the window weighted by how many threads of of.Process
// wait in it; that of the whole window where it is too short for parts.
func (of Question) weighted(rate func(window string) string) string {
	span, step := of.parts()
	if span == "" {
		return rate(of.window())
	}
	waits := of.process(of.Process, step).Expand(`sum($rate(` + waited + `{$here,state="cpu"}))`)
	return fmt.Sprintf("sum_over_time((%s * on () group_left () %s)[%s]) / scalar(sum_over_time(%s[%s])) >= 0", rate(step), waits, span, waits, span)
}

// leastVoluntary is the share of voluntary switches below which a process is greedy.
const leastVoluntary = 0.01

// greedy returns the query for the processes that give no CPU back by themselves; process is the only one, "" all.
func (of Question) greedy(process string) string {
	return of.process(process, of.window()).Expand(`sum by (process) ($rate(`+switched+`{$here,kind="voluntary"})) / sum by (process) ($rate(`+switched+`{$here}))`) +
		fmt.Sprintf(" < %g", leastVoluntary)
}

// machine is the scope of the machine's series; without a name of its job, those of any.
func (of Question) machine(over string) query.Scope {
	here := of.Matchers()
	if of.Job == "" {
		here = query.MatchersFor("instance", of.Instance)
	}
	return query.Scope{Here: here, Over: over}
}

// process is the scope of a process on the machine, "" for all.
func (of Question) process(name, over string) query.Scope {
	s := of.machine(over)
	if name != "" {
		s.Here += "," + query.MatchersFor("process", name)
	}
	return s
}

func (of Question) window() string { return query.PromDuration(of.To.Sub(of.From)) }

// parts returns the parts of the window as the range of a subquery ("45s:15s"), and their length; "" where the window
// is too short for two. The engine puts parts at multiples of their length, so up to one of them is cut off at the end
// of the window; none begins before it.
func (of Question) parts() (span, step string) {
	window := of.To.Sub(of.From)
	length := max(15*time.Second, 3*of.Interval, (window / 60).Truncate(time.Second))
	if window < 2*length {
		return "", ""
	}
	return query.PromDuration(window-length) + ":" + query.PromDuration(length), query.PromDuration(length)
}

// sentence names those who take the CPUs that a process waits for.
func (c Contest) sentence(process string) string {
	where := ""
	if c.CPUs != "" {
		where = " on CPU " + c.CPUs
	}
	lead := c.Lead()
	if len(lead) == 0 {
		return fmt.Sprintf("No other process used %s%s while %s waited: a quota, its own threads, or a host that takes the CPU away makes it wait.",
			metric.Value(leastNamed, "cores"), where, process)
	}
	return fmt.Sprintf("While %s waited%s, %s; it used %s itself.", process, where, UsagePhrase(lead, "used"), metric.Value(c.Own, "cores"))
}

// Lead returns the takers to name, as Leading; none if the largest takes too little to be a reason.
func (c Contest) Lead() []Part {
	if len(c.Takers) == 0 || c.Takers[0].Value < leastNamed {
		return nil
	}
	return Leading(c.Takers)
}

// leastNamed is the CPU time from which a process is named as the reason why another one waits, in cores.
const leastNamed = 0.05

// Leading returns the first of takers in descending order that are worth naming: those that take at least half of what
// the first takes, at most three.
func Leading(takers []Part) []Part {
	var out []Part
	for _, p := range takers {
		if len(out) == 3 || p.Value < takers[0].Value/2 {
			break
		}
		out = append(out, p)
	}
	return out
}

// UsagePhrase says who uses how much: "compile uses 97 % of a core and ld 50 % of a core". The verb follows the first name.
func UsagePhrase(parts []Part, verb string) string {
	return phrase(parts, verb, func(p Part) string { return metric.Value(p.Value, p.Unit) })
}

func phrase(parts []Part, verb string, amount func(Part) string) string {
	var out []string
	for i, p := range parts {
		name := named(p.Name)
		if i == 0 {
			name += " " + verb
		}
		if p.AtMost {
			name += " at most"
		}
		out = append(out, name+" "+amount(p))
	}
	return listed(out)
}

// named returns the name of a process in a sentence.
func named(name string) string {
	if name == folded {
		return "processes without a name of their own"
	}
	return name
}

// listed joins words: "a", "a and b", "a, b and c".
func listed(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

func overlap(a, b []int) bool {
	return slices.ContainsFunc(a, func(c int) bool { return slices.Contains(b, c) })
}

// isSubset reports whether all of a is in b.
func isSubset(a, b []int) bool {
	return !slices.ContainsFunc(a, func(c int) bool { return !slices.Contains(b, c) })
}

// cpuList writes CPUs as the kernel does: "0-3,5".
func cpuList(cpus []int) string {
	var out []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(cpus[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}
