package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// Problem is what is wrong on a machine: its open findings with the same topic, all of one process, or a single one.
// The page, explain, top, the log and notifications show the same problems.
type Problem struct {
	// Title is the sentence of the leading finding without its full stop, or the topic with the number of its effects
	// that go on.
	Title string `json:"title"`
	// Severity is that of the worst finding.
	Severity Severity `json:"severity"`
	// Ended says that the subjects of all its findings have ended: it comes after what lives, and is no headline.
	Ended bool `json:"ended,omitempty"`
	// Lead is the id of the finding that represents the problem, and Since its beginning.
	Lead  string    `json:"lead"`
	Since time.Time `json:"since"`
	// Effects are the ids of the findings below the title, the worst first: all but the leading one, which is among
	// them if the title is a topic and no finding names its cause. Findings about the monitor come last, if it adds to
	// the problem.
	Effects []string `json:"effects"`
}

// Has reports whether the finding with this id is part of the problem.
func (p *Problem) Has(id string) bool { return p.Lead == id || slices.Contains(p.Effects, id) }

// classify gives a finding of the rule its place in a problem.
func (r *Rule) classify(f *Finding) {
	f.Topic = cmp.Or(f.Topic, r.Topic)
	if f.Role = r.Role; f.Topic == "" && f.Role != RoleMonitor {
		f.Role = "" // neither a cause nor an effect of anything
	}
}

// IsProblem reports whether a finding is a problem of its machine: notes and findings about the monitor are not.
func (f *Finding) IsProblem() bool { return f.Severity.AtLeast(Warning) && f.Role != RoleMonitor }

// Worst returns the highest severity of the findings, "" without any.
func Worst(records []Record) Severity {
	var worst Severity
	for _, r := range records {
		if r.Severity.AtLeast(worst) {
			worst = r.Severity
		}
	}
	return worst
}

// Local returns the subject without its machine, which rules name where there are several.
func (f *Finding) Local() string {
	if f.Instance == "" {
		return f.Subject
	}
	if f.Subject == QualifiedSubject(WholeMachine, f.Instance) {
		return WholeMachine
	}
	return strings.TrimSuffix(f.Subject, QualifiedSubject("", f.Instance))
}

// Problems groups open findings, and returns the problems, the worst first.
func Problems(records []Record) []Problem {
	type key struct {
		query.Machine
		name string
	}
	groups := map[key]*group{}
	var order []*group
	var own []*Record
	machines := map[query.Machine]bool{}
	for _, r := range byWeight(records) {
		switch {
		case r.IsProblem():
		case r.Role == RoleMonitor && r.Severity.AtLeast(Warning):
			own = append(own, r)
			continue
		default:
			continue
		}
		machines[r.Machine] = true
		k := key{r.Machine, "topic " + r.Topic}
		if r.Topic == "" {
			// What one process does is one problem; a machine can lack several things.
			if k.name = "subject " + r.Subject; r.Local() == WholeMachine {
				k.name = "finding " + r.ID
			}
		}
		if groups[k] == nil {
			groups[k] = &group{topic: r.Topic}
			order = append(order, groups[k])
		}
		groups[k].members = append(groups[k].members, r)
	}
	// Groups were made in the order of their worst findings.
	out := make([]Problem, 0, len(order))
	for _, g := range order {
		out = append(out, g.problem(own, len(machines) > 1))
	}
	return out
}

// byWeight returns the open findings, the worst first.
func byWeight(records []Record) []*Record {
	var out []*Record
	for i := range records {
		if records[i].State == Open {
			out = append(out, &records[i])
		}
	}
	slices.SortFunc(out, CompareWeight)
	return out
}

// CompareWeight is negative if finding a is worse than b: its subject still exists, or else it is more severe, or else has
// a larger share of its subject's time, or else is older.
func CompareWeight(a, b *Record) int {
	share := func(r *Record) float64 {
		if r.Share == nil {
			return 0
		}
		return r.Share[0] + r.Share[1]
	}
	gone := func(r *Record) int {
		if r.Ended != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(gone(a)-gone(b), cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(share(b), share(a)), a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
}

// group is the findings of a problem, the worst first; never empty.
type group struct {
	topic   string
	members []*Record
}

// problem returns the group as a problem. Findings about the monitor are added if they are of the same topic and
// machine. Several: the title names the machine.
func (g *group) problem(own []*Record, several bool) Problem {
	ended := g.members[0].Ended != nil
	// A cause that has ended explains nothing that goes on.
	i := slices.IndexFunc(g.members, func(r *Record) bool { return r.Role == RoleCause && (ended || r.Ended == nil) })
	lead := g.members[max(0, i)]
	named := g.topic != "" && len(g.members) > 1
	p := Problem{Title: strings.TrimSuffix(cmp.Or(lead.Sentence, lead.Title), "."), Severity: g.members[0].Severity, Ended: ended, Lead: lead.ID, Since: lead.Since, Effects: []string{}}
	effects := g.members
	if i >= 0 || !named {
		effects = slices.DeleteFunc(slices.Clone(g.members), func(r *Record) bool { return r == lead })
	}
	for _, r := range effects {
		p.Effects = append(p.Effects, r.ID)
	}
	living := slices.DeleteFunc(slices.Clone(effects), func(r *Record) bool { return r.Ended != nil && !ended })
	// A cause that names who takes what is short says more than the number of its effects.
	if named && len(living) > 0 && !(i >= 0 && len(lead.Takers) > 0) {
		p.Title = g.topic
		if several && lead.Instance != "" {
			p.Title += " on " + lead.Instance
		}
		p.Title += fmt.Sprintf(": %s%s", count(len(living), "effect"), onWhom(living))
		if ended {
			p.Title += ", ended"
		}
	}
	for _, r := range own {
		if g.topic != "" && r.Topic == g.topic && r.Machine == lead.Machine {
			p.Effects = append(p.Effects, r.ID)
		}
	}
	return p
}

// onWhom returns ", on web and db": the first two subjects, the worst first.
func onWhom(effects []*Record) string {
	var names []string
	for _, r := range effects {
		if n := r.Local(); n != WholeMachine && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if more := len(names) - 2; more > 0 {
		return fmt.Sprintf(", on %s and %d more", strings.Join(names[:2], ", "), more)
	}
	if len(names) == 0 {
		return ""
	}
	return ", on " + strings.Join(names, " and ")
}

// count returns "1 effect" or "3 effects".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
