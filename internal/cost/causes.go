package cost

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/cause"
)

// stormRate is how often a call must be made to be a storm. Below it there are few
// calls that take long, which is another thing.
const stormRate = 1000 // 1/s

// causeOf names the rule that a row is about, "" for none. Threads that wait for
// locks are what makes a futex call one of contention: without them it is a call
// as any other. An ordinary call is a storm only when most of its time goes into
// entering and leaving the kernel.
func causeOf(row Row, contended bool) string {
	call, isCall := strings.CutPrefix(row.ID, "syscall:")
	if !isCall {
		return map[string]string{
			"faults": cause.PageFaultStorm.Name, "region:tls_handshake": cause.TLSHandshakes.Name,
			"lock": cause.LockContention.Name, "disk": cause.IOSaturation.Name, "durable": cause.Logging.Name,
		}[row.ID]
	}
	often := row.Rate == nil || row.Rate.Value >= stormRate // where none were counted, the time in it speaks for it
	switch c := cause.OfCall(call); {
	case c == cause.PageFaultStorm, c == cause.Logging, c == cause.LockContention && contended:
		return c.Name
	case !often, c == nil && !mostlyEntry(row):
		return ""
	case c == cause.VDSOBypass:
		return c.Name
	}
	return cause.SyscallStorm.Name
}

// remedy is what to do about a cause, "" for none.
func remedy(name string) string {
	if c := cause.Named(name); c != nil {
		return c.Remedy
	}
	return ""
}

// mostlyEntry says whether entering and leaving the kernel takes most of a call's
// time; what it takes is not known where it is not calibrated.
func mostlyEntry(row Row) bool {
	return len(row.Rows) > 0 && row.Rows[0].Time.Value >= row.Time.Value/2
}

// Cause is a reason why a process takes the time that it takes: rows of its tree
// that are about the same rule.
type Cause struct {
	Rule  string
	Title string // a sentence with the number
	Share Amount // of the active time; of waiting for a CPU, of both together
	Rows  []string
	// Advice is what to do about it.
	Advice string
}

// leastShare is the share of the active time below which a cause is none.
const leastShare = 0.05

// leastQueued is the share of waiting for a CPU, in it and the active time, from
// which it is a cause: on a machine that is well used threads wait for each other.
const leastQueued = 0.25

// Causes are the rows of the tree that are something to act on, the largest first.
// A storm is one of a single call; other causes are the sum of their rows. Waiting
// for a CPU comes after them, as it is not the process's own doing.
func (t Tree) Causes() []Cause {
	out := []Cause{}
	key := map[string]int{}
	lead := map[string]Row{} // the largest row, as rows are sorted
	for _, row := range t.Rows {
		if row.Cause == "" {
			continue
		}
		k := row.Cause
		if k == cause.SyscallStorm.Name {
			k += row.ID
		}
		i, known := key[k]
		if !known {
			i = len(out)
			key[k] = i
			out = append(out, Cause{Rule: row.Cause, Advice: row.Advice})
			lead[k] = row
		}
		out[i].Share = out[i].Share.plus(row.Share)
		out[i].Rows = append(out[i].Rows, row.ID)
	}
	for k, i := range key {
		out[i].Title = t.sentence(lead[k], out[i])
	}
	out = slices.DeleteFunc(out, func(c Cause) bool { return c.Share.Value < leastShare })
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(b.Share.Value, a.Share.Value) })
	if queued := t.Queued.shareBeside(t.Active); queued.Value >= leastQueued {
		out = append(out, Cause{Rule: cause.CPUPressure.Name, Share: queued, Rows: []string{}, Advice: cause.CPUPressure.Remedy,
			Title: fmt.Sprintf("%s waits for a free CPU %s of the time in which it has work.", t.Subject, percent(queued))})
	}
	return out
}

// sentence says what a cause takes.
func (t Tree) sentence(row Row, c Cause) string {
	share := percent(c.Share) + " of the active time of " + t.Subject
	call := strings.TrimPrefix(row.ID, "syscall:")
	often := ""
	if row.Rate != nil {
		often = fmt.Sprintf(" (%s a %s)", analysis.Count(row.Rate.Value), t.Per)
	}
	switch c.Rule {
	case cause.SyscallStorm.Name:
		return fmt.Sprintf("Calls of %s%s take %s.", call, often, share)
	case cause.VDSOBypass.Name:
		return fmt.Sprintf("Asking the kernel for the time with %s%s takes %s.", call, often, share)
	case cause.LockContention.Name:
		return fmt.Sprintf("Waiting for locks takes %s.", share)
	case cause.PageFaultStorm.Name:
		return fmt.Sprintf("Taking memory and giving it back, and the page faults that follow, take %s.", share)
	case cause.TLSHandshakes.Name:
		return fmt.Sprintf("TLS handshakes%s take %s.", often, share)
	case cause.Logging.Name:
		return fmt.Sprintf("Waiting until what was written is safe on the disk takes %s.", share)
	}
	return fmt.Sprintf("Waiting for disks takes %s.", share)
}
