package rules

import (
	"context"
	"fmt"
	"strings"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// The sampled times of waiting, by what was waited for.
const (
	lockWait = "tee_sampled_lock_wait_seconds_total"
	fileWait = "tee_sampled_file_wait_seconds_total"
)

// leastNamed is the share of a process's waiting from which a finding names the lock or the file.
const leastNamed = 0.3

// waitedFor is what the waiting of a process is divided by: a lock or a file.
type waitedFor struct {
	series string
	by     []string // its labels that name one
	known  string   // selects those that have a name
	whole  []string // matchers of the sampled waiting that is divided
	words  func(labels map[string]string) string
}

// byLock divides the waiting for locks.
var byLock = waitedFor{
	series: lockWait, by: []string{"lock"}, known: `lock!="other"`, whole: []string{`state="lock"`},
	words: func(labels map[string]string) string { return metric.LockWords(labels["lock"]) },
}

// byFile divides the waiting for a disk in these calls.
func byFile(calls string) waitedFor {
	return waitedFor{
		series: fileWait, by: []string{"device", "inode"}, known: `inode!="other",` + calls, whole: []string{`state="disk"`, calls},
		words: func(labels map[string]string) string {
			return fmt.Sprintf("inode %s on device %s", labels["inode"], labels["device"])
		},
	}
}

// nameWaitedFor adds to a finding about a process what it waited for longest, if that is known.
func (e *evidence) nameWaitedFor(ctx context.Context, f *findings.Finding, labels map[string]string, d waitedFor) {
	if e.err != nil {
		return
	}
	points, err := e.pass.Query(ctx, fmt.Sprintf("topk(1, sum by (%s) (rate(%s[%s])))", strings.Join(d.by, ", "), ofProcess(d.series, labels, d.known), window(e.pass)), e.pass.To)
	if err != nil || len(points) == 0 {
		e.err = err
		return
	}
	matchers := []string{d.known}
	for _, name := range d.by {
		matchers = append(matchers, fmt.Sprintf("%s=%q", name, points[0].Labels[name]))
	}
	name := d.words(points[0].Labels)
	share, around := e.sampled(ctx, fmt.Sprintf("share of that waiting that is for %s, mean of the last %s", name, window(e.pass)),
		func(w string) string { return query.SumRate(ofProcess(d.series, labels, matchers...), w) },
		func(w string) string { return query.SumRate(ofProcess(sampledWait, labels, d.whole...), w) }, "wait", labels)
	if around != nil && share >= leastNamed {
		f.Cost = strings.TrimSpace(fmt.Sprintf("%s %s of the waiting is for %s.", f.Cost, metric.PercentOf(share, around[0], around[1]), name))
	}
}
