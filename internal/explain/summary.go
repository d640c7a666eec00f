package explain

import (
	"fmt"

	"github.com/teescope/teescope/internal/metric"
)

// Level is how a process is, as far as its tree shows.
type Level string

// The levels. Those of a cause are the severities of findings.
const (
	Good     Level = "good"
	Unknown  Level = "unknown"
	Info     Level = "info"
	Warning  Level = "warning"
	Critical Level = "critical"
)

// Summary says in sentences where the time of a process goes, as the page and the commands show it.
type Summary struct {
	// Level is the severity of what was found, "info" for a cause without a finding; "good" without a cause, and
	// "unknown" if too much is not explained to tell.
	Level Level `json:"level"`
	// Headline names the largest cause, or says that there is none.
	Headline string `json:"headline"`
	// Whole says how much time there is to explain, and how much of it nothing explains.
	Whole string `json:"whole"`
	// Starved: waiting for a CPU takes so much of the time that it is a cause. A process that waits does less work, so
	// its other times cannot be compared without that.
	Starved bool `json:"starved,omitempty"`
}

// muchUnexplained is the share of the active time whose rest may hide a cause.
const muchUnexplained = 0.2

// Summarize sums up a process's tree with its causes. Severity is that of the worst finding about the process, "" for none.
func (t Tree) Summarize(causes []FoundCause, severity Level) Summary {
	s := Summary{Whole: t.whole()}
	for _, c := range causes {
		s.Starved = s.Starved || c.Rule == Queueing
	}
	switch {
	case len(causes) > 0:
		s.Level, s.Headline = severity, causes[0].Title
		if severity == "" {
			s.Level = Info
		}
	case len(t.Rows) == 0:
		s.Level, s.Headline = Unknown, fmt.Sprintf("No data on where %s spends its time.", t.Subject)
	case t.UnexplainedShare.Value > muchUnexplained || t.Unexplained.Value > t.Rows[0].Time.Value:
		s.Level = Unknown
		s.Headline = fmt.Sprintf("No cause found for %s: %s of its active time is not explained.", t.Subject, metric.Percent(t.UnexplainedShare.Value))
	default:
		s.Level = Good
		s.Headline = fmt.Sprintf("%s does its own work: no cause costs enough of its time to act on. The largest part is %s (%s).", t.Subject, t.Rows[0].Title, metric.Percent(t.Rows[0].Share.Value))
	}
	return s
}

// whole says how much time a process's tree explains.
func (t Tree) whole() string {
	requests := ""
	if t.Requests != nil {
		requests = fmt.Sprintf(", at %s requests a second", metric.Count(t.Requests.Value))
	}
	work := fmt.Sprintf("Its threads together were active for %s a %s%s.", t.Active.time(), t.Per, requests)
	if len(t.Rows) == 0 {
		return work
	}
	if t.UnexplainedShare.High < 0 {
		rest := t.UnexplainedShare
		return work + fmt.Sprintf(" The rows explain %s more than was measured.", Amount{-rest.Value, -rest.High, -rest.Low}.percent())
	}
	if t.UnexplainedShare.Value < 0 {
		return work + fmt.Sprintf(" Of that, at most %s is not explained.", metric.Percent(t.UnexplainedShare.High))
	}
	return work + fmt.Sprintf(" Of that, %s is not explained.", t.UnexplainedShare.percent())
}
