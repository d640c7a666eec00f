package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// stormRate is the rate from which a call is a storm. Below it there are few calls that take long, which is another
// problem.
const stormRate = 1000 // 1/s

// Queueing is the name of the rule about threads that wait for a free CPU.
const Queueing = "cpu_starvation"

// judge gives a row its cause and advice.
func (l *Ledger) judge(r *row, contended bool) {
	if r.event == (Event{}) {
		return
	}
	c := l.cause(r.event, Circumstances{
		Contended: contended,
		// Without calibration the cost of entering is unknown.
		Entering: len(r.Rows) > 0 && r.Rows[0].Time.Value >= r.Time.Value/2,
		// If no events were counted, the time in them is enough evidence.
		Rare:   r.Rate != nil && r.Rate.Value < stormRate,
		Paging: l.paging(),
	})
	if c != nil {
		r.Cause, r.Advice = c.Name, c.Remedy
	}
}

// FoundCause is a cause of the time that a process takes: rows of its tree that speak
// for the same rule.
type FoundCause struct {
	Rule  string `json:"rule"`
	Title string `json:"title"` // a sentence with the number
	Share Amount `json:"share"` // of the active time
	// Rows are the ids of the tree's rows that it is made of.
	Rows   []string `json:"rows"`
	Advice string   `json:"advice"` // what to do about it
}

// leastShare is the smallest share of the active time for a cause.
const leastShare = 0.05

// leastQueued is that share for waiting for a CPU. It is higher because threads always wait for each other on a well
// used machine.
const leastQueued = 0.25

// least returns the share from which a cause counts.
func (f FoundCause) least() float64 {
	if f.Rule == Queueing {
		return leastQueued
	}
	return leastShare
}

// Found returns the causes that a tree's rows indicate, the largest first. A storm is of a single call; other causes
// are the sum of their rows.
func (k *Catalog) Found(t Tree) []FoundCause {
	out := []FoundCause{}
	key := map[string]int{}
	lead := map[string]Row{} // the largest row, as rows are sorted
	for _, r := range t.Rows {
		c := k.named(r.Cause)
		if c == nil {
			continue
		}
		name := c.Name
		if c.Each {
			name += r.ID
		}
		i, known := key[name]
		if !known {
			i = len(out)
			key[name] = i
			out = append(out, FoundCause{Rule: c.Name, Advice: r.Advice})
			lead[name] = r
		}
		out[i].Share = out[i].Share.plus(r.Share)
		out[i].Rows = append(out[i].Rows, r.ID)
	}
	for name, i := range key {
		out[i].Title = t.sentence(k.named(out[i].Rule), lead[name], out[i].Share)
	}
	out = slices.DeleteFunc(out, func(f FoundCause) bool { return f.Share.Value < f.least() })
	slices.SortStableFunc(out, func(a, b FoundCause) int { return cmp.Compare(b.Share.Value, a.Share.Value) })
	return out
}

// sentence states a cause's share of a process's time.
func (t Tree) sentence(c *Cause, lead Row, share Amount) string {
	often := ""
	if lead.Rate != nil {
		often = fmt.Sprintf(" (%s a %s)", metric.Count(lead.Rate.Value), t.Per)
	}
	doing := strings.NewReplacer("{event}", lead.event.Label("syscall"), "{often}", often).Replace(c.Doing)
	return fmt.Sprintf("%s spends %s of its active time %s.", t.Subject, share.percent(), doing)
}

// percent prints a share with its interval.
func (a Amount) percent() string { return metric.PercentOf(a.Value, a.Low, a.High) }
