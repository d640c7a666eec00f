package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// stormRate is how often a call must be made to be a storm. Below it there are few
// calls that take long, which is another thing.
const stormRate = 1000 // 1/s

// Queueing is the name of the rule about threads that wait for a free CPU.
const Queueing = "pressure"

// judge gives a row its cause and advice.
func (l *Ledger) judge(r *row, contended bool) {
	if r.event == (Event{}) {
		return
	}
	c := l.cause(r.event, Circumstances{
		Contended: contended,
		// What entering takes is not known where it is not calibrated.
		Entering: len(r.Rows) > 0 && r.Rows[0].Time.Value >= r.Time.Value/2,
		// Where none were counted, the time in it speaks for it.
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
	Share Amount `json:"share"` // of the active time; of waiting for a CPU, of both together
	// Rows are the ids of the tree's rows that it is made of.
	Rows   []string `json:"rows"`
	Advice string   `json:"advice"` // what to do about it
}

// leastShare is the share of the active time below which a cause is none.
const leastShare = 0.05

// leastQueued is the share of waiting for a CPU, in it and the active time, from
// which it is a cause: on a machine that is well used threads wait for each other.
const leastQueued = 0.25

// Found are the causes that a tree's rows speak for, the largest first. A storm is
// one of a single call; other causes are the sum of their rows. Waiting for a CPU
// comes after them, as it is not the process's own doing.
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
	out = slices.DeleteFunc(out, func(f FoundCause) bool { return f.Share.Value < leastShare })
	slices.SortStableFunc(out, func(a, b FoundCause) int { return cmp.Compare(b.Share.Value, a.Share.Value) })
	if queued := t.Queued.shareBeside(t.Active); queued.Value >= leastQueued {
		f := FoundCause{Rule: Queueing, Share: queued, Rows: []string{},
			Title: fmt.Sprintf("%s waits for a free CPU %s of the time in which it has work.", t.Subject, queued.percent())}
		if c := k.named(Queueing); c != nil {
			f.Advice = c.Remedy
		}
		out = append(out, f)
	}
	return out
}

// sentence says what a cause takes of a process's time.
func (t Tree) sentence(c *Cause, lead Row, share Amount) string {
	often := ""
	if lead.Rate != nil {
		often = fmt.Sprintf(" (%s a %s)", metric.Count(lead.Rate.Value), t.Per)
	}
	doing := strings.NewReplacer("{event}", strings.TrimPrefix(lead.ID, callID), "{often}", often).Replace(c.Doing)
	return fmt.Sprintf("%s spends %s of its active time %s.", t.Subject, share.percent(), doing)
}

// percent prints a share with its interval.
func (a Amount) percent() string { return metric.PercentOf(a.Value, a.Low, a.High) }
