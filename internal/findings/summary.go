package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// Level is how a machine is, as far as the rules know.
type Level string

// The levels: Good is that nothing is wrong, Unknown that too little was checked to tell.
const (
	GoodLevel     Level = "good"
	UnknownLevel  Level = "unknown"
	WarningLevel  Level = "warning"
	CriticalLevel Level = "critical"
)

// Summary says in sentences what is wrong now, or that nothing is, and how much was checked.
type Summary struct {
	Level Level `json:"level"`
	// Headline counts the problems and names the worst, without a full stop, so the time of its beginning can follow;
	// without problems it is a sentence. Detail is what it leaves open, "" for nothing.
	Headline string `json:"headline"`
	Detail   string `json:"detail,omitempty"`
	// Checks says how many rules have an answer ("22 of 29 checks ran; 7 lack data here").
	Checks string `json:"checks"`
	// Youth is why an answer may be missing just after the monitor's start; "" later.
	Youth string `json:"youth,omitempty"`
}

// young is the time after a monitor's start in which its youth explains a missing answer.
const young = time.Minute

// Summarize sums up the findings and rules of a machine. Started is the monitor's start, zero if it is not known.
func Summarize(records []Record, rules []RuleStat, now, started time.Time) Summary {
	s := Summary{Checks: checks(rules)}
	age := now.Sub(started)
	if !started.IsZero() && age < young {
		s.Youth = fmt.Sprintf("The monitor started %s ago; the first answers take a minute.", metric.Length(max(1, age.Seconds())))
	}
	blind, why := 0, ""
	longest := time.Duration(0)
	for _, r := range rules {
		longest = max(longest, time.Duration(r.Windows[0]*float64(time.Second)))
		if r.Answer == CannotTell {
			if blind++; why == "" {
				why = strings.TrimSuffix(r.Reason, ".")
			}
		}
	}
	if !started.IsZero() && age >= 0 {
		longest = min(longest, age) // nobody watched before
	}
	if blind > 0 {
		s.Detail = s.Checks + "."
	}
	problems := slices.DeleteFunc(Problems(records), func(p Problem) bool { return p.Ended })
	switch {
	case len(problems) > 0:
		s.Level, s.Headline = WarningLevel, "1 problem: "+problems[0].Title
		if problems[0].Severity == Critical {
			s.Level = CriticalLevel
		}
		if len(problems) > 1 {
			s.Headline = fmt.Sprintf("%d problems, the worst: %s", len(problems), problems[0].Title)
		}
	case blind == len(rules):
		s.Level, s.Headline, s.Detail = UnknownLevel, "Not enough data yet to tell whether anything is wrong.", "No check has run so far."
		switch {
		case s.Youth != "":
			s.Headline, s.Detail = s.Youth, ""
		case len(rules) > 0:
			s.Detail = fmt.Sprintf("None of the %d checks has an answer", len(rules))
			if why != "" {
				s.Detail += ", for example: " + why
			}
			s.Detail += "."
		}
	default:
		s.Level, s.Headline = GoodLevel, fmt.Sprintf("Nothing wrong in the last %s.", metric.Length(longest.Seconds()))
		if n := countEnded(records, now.Add(-longest)); n > 0 {
			s.Headline = fmt.Sprintf("Nothing wrong now; %s ended in the last %s.", count(n, "problem"), metric.Length(longest.Seconds()))
		}
	}
	return s
}

// countEnded counts the problems that ended after a time: findings that share a topic, or a subject, are one.
func countEnded(records []Record, after time.Time) int {
	seen := map[[2]string]bool{}
	for i := range records {
		if r := &records[i]; r.IsProblem() && (r.Until != nil && r.Until.After(after) || r.State == Open && r.Ended != nil) {
			name := "subject " + r.Subject
			if r.Topic != "" {
				name = "topic " + r.Topic
			}
			seen[[2]string{r.Instance, name}] = true
		}
	}
	return len(seen)
}

// checks says how many rules have an answer.
func checks(rules []RuleStat) string {
	blind := 0
	for _, r := range rules {
		if r.Answer == CannotTell {
			blind++
		}
	}
	s := fmt.Sprintf("%d of %s ran", len(rules)-blind, count(len(rules), "check"))
	switch blind {
	case 0:
		return s
	case 1:
		return s + "; 1 lacks data here"
	}
	return fmt.Sprintf("%s; %d lack data here", s, blind)
}
