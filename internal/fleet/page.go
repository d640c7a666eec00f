package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
)

// Ask selects a part of the list.
type Ask struct {
	// Text is a part of a machine's name, instance or labels, in any case.
	Text string
	// TEE and Health are as in a row; "" selects all.
	TEE    string
	Health Health
	// Rule selects machines with an open finding of a rule; "" selects all.
	Rule string
	// Sort is one of Sorts; anything else is the first. Offset and Limit are of the rows after that.
	Sort          string
	Offset, Limit int
}

// Page is the selected part of the list.
type Page struct {
	// At is when the list was made, All the number of machines, Matched that of the selected ones.
	At      time.Time `json:"at"`
	All     int       `json:"all"`
	Matched int       `json:"matched"`
	// Machines are those of the page, in the order that was asked for.
	Machines []Row `json:"machines"`
	// Kinds are all machines by their TEE.
	Kinds []Kind `json:"kinds"`
}

// Kind is how many machines with a TEE are in each state.
type Kind struct {
	TEE      string `json:"tee"`
	Machines int    `json:"machines"`
	Gone     int    `json:"gone"`
	Critical int    `json:"critical"`
	Warning  int    `json:"warning"`
	Unknown  int    `json:"unknown"`
	Good     int    `json:"good"`
}

func (k *Kind) count(h Health) *int {
	switch h {
	case Gone:
		return &k.Gone
	case Critical:
		return &k.Critical
	case Warning:
		return &k.Warning
	case Good:
		return &k.Good
	}
	return &k.Unknown
}

// orders are the columns by which rows are sorted: the worst or largest first, names by the alphabet. An absent value
// comes last.
var orders = map[string]func(a, b Row) int{
	"health": func(a, b Row) int {
		return cmp.Or(cmp.Compare(slices.Index(Healths, a.Health), slices.Index(Healths, b.Health)), cmp.Compare(b.Findings, a.Findings))
	},
	"name":     Row.byName,
	"tee":      func(a, b Row) int { return strings.Compare(a.TEE, b.TEE) },
	"version":  func(a, b Row) int { return strings.Compare(b.Version, a.Version) },
	"seen":     func(a, b Row) int { return a.LastSeen.Compare(b.LastSeen) },
	"findings": func(a, b Row) int { return cmp.Compare(b.Findings, a.Findings) },
	"share":    func(a, b Row) int { return largest(middle(a.Share), middle(b.Share)) },
	"cost":     func(a, b Row) int { return largest(a.Cost, b.Cost) },
	"waiting":  func(a, b Row) int { return largest(a.Waiting, b.Waiting) },
	"sources": func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Sources-b.Up, a.Sources-a.Up), largest(a.Error, b.Error))
	},
}

// Sorts are the names of the columns that can be sorted by.
var Sorts = []string{"health", "name", "tee", "findings", "share", "waiting", "cost", "sources", "version", "seen"}

func middle(s *[2]float64) *float64 {
	if s == nil {
		return nil
	}
	m := (s[0] + s[1]) / 2
	return &m
}

func largest(a, b *float64) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(presence(b), presence(a))
	default:
		return cmp.Compare(*b, *a)
	}
}

func presence(v *float64) int {
	if v == nil {
		return 0
	}
	return 1
}

func (r Row) byName(o Row) int {
	switch {
	case r.Own != o.Own && r.Own:
		return -1
	case r.Own != o.Own:
		return 1
	}
	return cmp.Or(strings.Compare(r.Name, o.Name), strings.Compare(r.Instance, o.Instance), strings.Compare(r.Job, o.Job))
}

func (a Ask) selects(r Row) bool {
	if a.TEE != "" && a.TEE != r.TEE || a.Health != "" && a.Health != r.Health || a.Rule != "" && !slices.Contains(r.Rules, a.Rule) {
		return false
	}
	text := strings.ToLower(a.Text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if has(r.Name) || has(r.Instance) || has(r.Job) {
		return true
	}
	for _, v := range r.Labels {
		if has(v) {
			return true
		}
	}
	return false
}

// Page returns a part of the list.
func (f *Fleet) Page(ctx context.Context, a Ask) (Page, error) {
	order := orders[a.Sort]
	if order == nil {
		order = orders[Sorts[0]]
	}
	rows, at, err := f.list(ctx, true)
	if err != nil {
		return Page{}, err
	}
	p := Page{At: at, All: len(rows), Machines: []Row{}, Kinds: kinds(rows)}
	for _, r := range rows {
		if a.selects(r) {
			p.Machines = append(p.Machines, r)
		}
	}
	p.Matched = len(p.Machines)
	slices.SortStableFunc(p.Machines, func(a, b Row) int { return cmp.Or(order(a, b), a.byName(b)) })
	p.Machines = p.Machines[min(a.Offset, p.Matched):min(a.Offset+a.Limit, p.Matched)]
	return p, nil
}

// kinds counts the machines by TEE, the most frequent first.
func kinds(rows []Row) []Kind {
	out := []Kind{}
	at := map[string]int{}
	for _, r := range rows {
		i, ok := at[r.TEE]
		if !ok {
			i = len(out)
			at[r.TEE], out = i, append(out, Kind{TEE: r.TEE})
		}
		out[i].Machines++
		*out[i].count(r.Health)++
	}
	slices.SortFunc(out, func(a, b Kind) int { return cmp.Or(cmp.Compare(b.Machines, a.Machines), strings.Compare(a.TEE, b.TEE)) })
	return out
}

// Cause is the open findings of one rule, on all machines.
type Cause struct {
	Rule  string `json:"rule"`
	Title string `json:"title"`
	// Severity is the worst, Since the earliest of its findings.
	Severity findings.Severity `json:"severity"`
	Since    time.Time         `json:"since"`
	// Machines is on how many machines, Findings how many findings.
	Machines int `json:"machines"`
	Findings int `json:"findings"`
	// Names are those of the first machines, at most five.
	Names []string `json:"names"`
}

// namesMost is how many machines of a cause are named.
const namesMost = 5

// Causes returns the open findings grouped by their rule: the most severe first, then those on most machines.
func (f *Fleet) Causes(ctx context.Context) ([]Cause, error) {
	rows, err := f.Rows(ctx)
	if err != nil {
		return nil, err
	}
	titles := map[string]string{}
	for _, s := range f.o.Rules() {
		titles[s.Name] = s.Title
	}
	at := map[string]int{}
	on := map[string]map[query.Machine]bool{}
	out := []Cause{}
	of := owner(f.o.Own, rows)
	for _, rec := range f.o.Open() {
		i, ok := at[rec.Rule]
		if !ok {
			i = len(out)
			at[rec.Rule], on[rec.Rule] = i, map[query.Machine]bool{}
			out = append(out, Cause{Rule: rec.Rule, Title: cmp.Or(titles[rec.Rule], rec.Rule), Severity: rec.Severity, Since: rec.Since, Names: []string{}})
		}
		c := &out[i]
		c.Findings++
		on[rec.Rule][of(rec.Machine)] = true
		if rec.Severity.AtLeast(c.Severity) {
			c.Severity = rec.Severity
		}
		if rec.Since.Before(c.Since) {
			c.Since = rec.Since
		}
	}
	for i := range out {
		c := &out[i]
		c.Machines = len(on[c.Rule])
		for _, r := range rows {
			if on[c.Rule][r.Machine] && len(c.Names) < namesMost {
				c.Names = append(c.Names, r.Name)
			}
		}
	}
	slices.SortFunc(out, func(a, b Cause) int {
		if a.Severity != b.Severity {
			if a.Severity.AtLeast(b.Severity) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Machines, a.Machines), strings.Compare(a.Rule, b.Rule))
	})
	return out, nil
}
