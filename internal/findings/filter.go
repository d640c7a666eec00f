package findings

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// Filter selects findings. The zero value selects all.
type Filter struct {
	// From and To bound the time in which a finding was open, even partly. A zero time is no bound.
	From, To time.Time
	ID, Rule string
	// Subject must match the subject, or "SUBJECT of UNIT"; use Whole to match whole ones.
	Subject *regexp.Regexp
	State   State
	// Machine selects the findings of one machine, all for the zero value; On replaces the comparison with it. May be
	// nil.
	Machine query.Machine
	On      func(query.Machine) bool
	// Limit is the largest number of findings, the first in Sort's order; 0 is no bound.
	Limit int
}

// Select returns the findings that the filter selects, in Sort's order.
func (f Filter) Select(list []Record) []Record {
	out := []Record{}
	for _, r := range list {
		if f.selects(&r) {
			out = append(out, r)
		}
	}
	Sort(out)
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out
}

func (f Filter) selects(r *Record) bool {
	switch {
	case !f.To.IsZero() && r.Since.After(f.To),
		!f.From.IsZero() && r.Until != nil && r.Until.Before(f.From),
		f.ID != "" && f.ID != r.ID,
		f.Rule != "" && f.Rule != r.Rule,
		f.Subject != nil && !r.IsAbout(f.Subject),
		f.State != "" && f.State != r.State:
		return false
	case f.On != nil:
		return f.On(r.Machine)
	}
	return f.Machine == (query.Machine{}) || f.Machine == r.Machine
}

// Sort puts open findings first, those whose subject has not ended, by severity and then newest first. Closed findings
// follow, the last closed first.
func Sort(list []Record) {
	slices.SortFunc(list, func(a, b Record) int {
		switch {
		case a.State != b.State:
			return strings.Compare(string(b.State), string(a.State)) // "open" comes after "closed"
		case a.Until != nil && b.Until != nil:
			return cmp.Or(b.Until.Compare(*a.Until), b.Since.Compare(a.Since), strings.Compare(a.ID, b.ID))
		}
		if a, b := a.Ended != nil, b.Ended != nil; a != b {
			if b {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), b.Since.Compare(a.Since), strings.Compare(a.ID, b.ID))
	})
}
