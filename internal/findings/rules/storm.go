package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// storm is a counter of one process with a high rate: its mean over the whole window is high, and it has been high
// without a break until now.
type storm struct {
	labels  map[string]string
	subject string
	series  string // selects its counters
	// spell is how long the rate had been high as of one step ago, at most twelve steps. The numbers in a finding are
	// means over the spell: a mean over a window that began before the storm or ended after it would be too low. In an early
	// pass the spell is its window and ends now: a storm that began later is higher than said.
	spell, step time.Duration
}

// A storm is followed back in steps. Six steps surely hold two readings; a step is 5 s at the default interval of 5
// s. The shortest reported spell has two steps.
const (
	stepsOfRecent = 6
	shortestSpell = 2
	longestSpell  = 12
)

// earlyStorm is the time after which a storm of the early threshold is found: five readings of one second, or of whatever
// the interval is.
const earlyStorm = 5 * time.Second

// storms returns the storms that make at least as many events a second as the threshold, the highest first; where
// holds the matchers of the series. A storm is one process of one machine and one value of each of the labels in by.
// The process "other" is a fold of many and is left out.
//
// The mean over the whole window must reach the threshold, so the longer the window, the higher a new storm must be
// to be found: with 5 minutes, 10 times the threshold is found after 30 s, and 5 times after a minute. An early pass finds
// a storm of the early threshold when its five readings show it.
func storms(ctx context.Context, p *findings.Pass, name, where, threshold string, by ...string) ([]storm, error) {
	by = append([]string{"job", "instance", "process"}, by...)
	points, err := p.Query(ctx, fmt.Sprintf(`sum by (%s) (%s) >= %g`,
		strings.Join(by, ", "), query.Scope{Here: where, Over: window(p)}.Rate(name), p.Least(threshold)), p.To)
	if err != nil || len(points) == 0 {
		return nil, err
	}
	call, err := namer(ctx, p, name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(points, func(a, b metric.Point) int { return cmp.Compare(b.Value, a.Value) })
	var out []storm
	for _, pt := range points {
		s := storm{labels: pt.Labels, subject: call(pt.Labels["process"], pt.Labels["instance"]), series: query.Selector(name, pt.Labels)}
		floor := p.Limit(threshold, s.subject)
		if pt.Value < floor || p.Settled(query.MachineOf(pt.Labels), s.subject, "") {
			continue
		}
		s.step = recent(p) / stepsOfRecent
		if p.IsEarly() {
			s.step = p.Interval
		}
		steps, err := spell(ctx, p, s.series, floor, s.step)
		if err != nil {
			return nil, err
		}
		if steps >= shortestSpell {
			s.spell = time.Duration(steps) * s.step
			if p.IsEarly() {
				s.spell, s.step = p.To.Sub(p.From), 0
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// spell returns for how many steps the series had made at least floor events a second without a break, as of one step
// ago; 0 if the storm has ended. It compares the last two readings before now, before a step ago and so on. The
// oldest and the newest high pair may span the storm's beginning or end and are left out, so a mean over the spell is
// of the storm alone.
func spell(ctx context.Context, p *findings.Pass, series string, floor float64, step time.Duration) (int, error) {
	for back := range longestSpell + 2 {
		points, err := p.Query(ctx, fmt.Sprintf("sum(irate(%s[%s] offset %s))", series, query.PromDuration(recent(p)), query.PromDuration(time.Duration(back)*step)), p.To)
		if err != nil {
			return 0, err
		}
		if len(points) == 0 || points[0].Value < floor {
			return max(0, back-2), nil
		}
	}
	return longestSpell, nil
}

// siblingCounter selects another counter of the same process and machine.
func (s storm) siblingCounter(name string, matchers ...string) string {
	return ofProcess(name, s.labels, matchers...)
}

// rate returns the query for the events per second of some series during the spell.
func (s storm) rate(series string) string {
	if s.step == 0 {
		return query.SumRate(series, query.PromDuration(s.spell))
	}
	return fmt.Sprintf("sum(rate(%s[%s] offset %s))", series, query.PromDuration(s.spell), query.PromDuration(s.step))
}

// spanText returns the time of rate in words.
func (s storm) spanText() string {
	if s.step == 0 {
		return "mean of the last " + query.PromDuration(s.spell)
	}
	return fmt.Sprintf("mean of %s that ended %s ago", query.PromDuration(s.spell), query.PromDuration(s.step))
}

// usefulCalls move data in or out of a process. They are a server's work, and the yardstick for its other calls. The
// last two stand for calls that are not distinguished: those of 32-bit programs, and the fold of many. They count as
// useful because they may be.
const usefulCalls = "read|write|pread64|pwrite64|readv|writev|preadv|pwritev|preadv2|pwritev2|" +
	"sendto|recvfrom|sendmsg|recvmsg|sendmmsg|recvmmsg|sendfile|splice|tee|vmsplice|copy_file_range|" +
	"io_uring_enter|io_submit|io_getevents|io_pgetevents|" +
	"compat|other"

// useful returns the query for the process's useful calls per second during the spell: 0 if it never made one.
func (s storm) useful() string {
	return "(" + s.rate(s.siblingCounter("tee_syscalls_total", `syscall=~"`+usefulCalls+`"`)) + " or vector(0))"
}
