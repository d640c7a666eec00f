// Package findings turns stored series into findings. A Rule looks for one cause over
// a window and reports it in words, with numbers and their queries. The package also
// keeps their history and silences. It knows neither the store nor the web: rules
// name metrics as text, as PromQL does. The rules are in findings/rules.
package findings

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
	"github.com/teescope/teescope/internal/tee"
)

// Rule looks for one cause. The engine does not run it when a metric of Needs has no
// series in the window; its answer is then CannotTell, never "fine".
type Rule struct {
	Name string
	// Title is a few words for lists ("System call storm"). Doc says what the rule looks
	// for, its threshold and the threshold's origin.
	Title, Doc string
	Needs      []string
	// Thresholds are the limits of Run; users can set each, for all subjects or for some.
	Thresholds []Threshold
	// Run reports one finding per subject that shows the cause in the pass's window.
	// An error means that the rule was not checked.
	Run func(context.Context, *Pass) error
	// Early, unless 0: a finding may open before the windows are met, when the rule holds over this time, and over five
	// readings at least, with the early limits of its thresholds. It then says for how long, and is sent to nobody until the
	// windows are met.
	Early time.Duration
	// Patient: nobody waits for it, so it runs less often while the budget is short.
	Patient bool
	// Remedy is the advice, Reference a URL or a title to read more.
	Remedy, Reference string
	// Topic is the title of the problem that the rule's findings share with those of other rules ("CPU saturated");
	// "" is a problem of its own. Role is the part that they have in it.
	Topic string
	Role  Role
}

// Role is the part of a finding in a problem.
type Role string

// The roles. RoleCause and RoleEffect need a topic. A finding with RoleMonitor is about teescope itself and its data:
// it is not a problem of the machine, but adds to that of its topic. "" stands alone.
const (
	RoleCause   Role = "cause"
	RoleEffect  Role = "effect"
	RoleMonitor Role = "monitor"
)

// Threshold is a number that a rule compares with.
type Threshold struct {
	Name, Doc string
	// Unit is one of Evidence's; a setting in another one is refused.
	Unit    string
	Default float64
	// Early is the limit over Rule.Early, for which a higher one keeps usual bursts out; 0 is Default.
	Early float64
}

// Pass is one evaluation of one rule on one window.
type Pass struct {
	query.Querier
	Rule     *Rule
	From, To time.Time
	// Interval is the longest time between two readings.
	Interval time.Duration
	Facts    []tee.Facts
	Report   func(Finding)

	early   bool // over the early window, with the early limits
	settled func(who) bool
	limits  []Limit
	failure func(job, instance string) string
	own     query.Machine
	refuse  func() error // why samples are not stored
	places  func(query.Machine) map[string]rivals.Place
	near    []Near
	asked   map[string][]metric.Point // by QueryOnce
}

// QueryOnce is Query at the end of the window for what is asked again for each of many subjects: it is evaluated once in
// a pass.
func (p *Pass) QueryOnce(ctx context.Context, expr string) ([]metric.Point, error) {
	if points, ok := p.asked[expr]; ok {
		return points, nil
	}
	points, err := p.Query(ctx, expr, p.To)
	if err != nil {
		return nil, err
	}
	if p.asked == nil {
		p.asked = map[string][]metric.Point{}
	}
	p.asked[expr] = points
	return points, nil
}

// Failure returns the error of a scraped target's last scrape, "" without one or when it is not known.
func (p *Pass) Failure(job, instance string) string {
	if p.failure == nil {
		return ""
	}
	return p.failure(job, instance)
}

// Refusing returns this monitor's machine, and why its samples are not stored now: nil while they are. known is false where nobody
// can say.
func (p *Pass) Refusing() (own query.Machine, known bool, why error) {
	if p.refuse == nil {
		return p.own, false, nil
	}
	return p.own, true, p.refuse()
}

// IsEarly reports whether the pass is over the early window: evidence must be stronger.
func (p *Pass) IsEarly() bool { return p.early }

// Note says that a subject is near a finding of the rule and has none. The engine keeps the first few of a pass.
func (p *Pass) Note(n Near) {
	if len(p.near) < mostNear {
		p.near = append(p.near, n)
	}
}

// mostNear is how many subjects near a finding a rule names.
const mostNear = 8

// Places returns where the processes of a machine may run now, by name; nil where that is not known.
func (p *Pass) Places(of query.Machine) map[string]rivals.Place {
	if p.places == nil {
		return nil
	}
	return p.places(of)
}

// Severity orders findings.
type Severity string

// The severities.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Confidence says how sure a finding is.
type Confidence string

// The levels of confidence: High is measured directly and in full; Medium is an
// estimate, or a sign that may have another cause; Low is a guess worth a look.
const (
	High   Confidence = "high"
	Medium Confidence = "medium"
	Low    Confidence = "low"
)

// WholeMachine is the subject of what is found of a machine as a whole.
const WholeMachine = "machine"

// QualifiedSubject names a subject with its machine: "redis-server on vm1", and "machine vm1" for the machine itself.
func QualifiedSubject(subject, instance string) string {
	if subject == WholeMachine {
		return subject + " " + instance
	}
	return subject + " on " + instance
}

// ProcessOf returns the subject of a finding without the machine that QualifiedSubject may have added.
func ProcessOf(f Finding) string { return strings.TrimSuffix(f.Subject, " on "+f.Instance) }

// InUnit names the processes of a subject that run in one unit or container; all of them where the unit is "".
func InUnit(subject, unit string) string {
	if unit == "" {
		return subject
	}
	return subject + " of " + unit
}

// Whom returns the subject with its unit, where it has one.
func (f *Finding) Whom() string { return InUnit(f.Subject, f.Unit) }

// IsAbout reports whether a pattern matches the subject, or the subject with its unit.
func (f *Finding) IsAbout(pattern *regexp.Regexp) bool {
	return pattern.MatchString(f.Subject) || f.Unit != "" && pattern.MatchString(f.Whom())
}

// Finding is a cause seen on a subject.
type Finding struct {
	Rule string `json:"rule"`
	// Machine is where the subject is; its names are "" for a rule about no single machine.
	query.Machine
	// Subject is what shows it: a process name, a container, "machine" for all of it. With
	// Rule, Machine and Unit it identifies the finding.
	Subject string `json:"subject"`
	// Unit is the unit or container of the subject's processes that show it, where those in others do not count; "" where
	// all processes of the subject count.
	Unit string `json:"unit,omitempty"`
	// RunsIn are the units and containers in which the processes of the subject run now; with several, their processes
	// are added up. It is empty where that is not known and for information, and no part of the finding's identity.
	RunsIn []string `json:"runsIn,omitempty"`
	// Title is the verdict in one sentence: subject, verb, number, unit, cause.
	Title      string           `json:"title"`
	Severity   Severity         `json:"severity"`
	Confidence Confidence       `json:"confidence"` // High when a rule leaves it out
	Evidence   []query.Evidence `json:"evidence"`
	// Share is the interval of the cause's share in ShareOf, as ratios; nil
	// where unknown.
	Share *[2]float64 `json:"share,omitempty"`
	// ShareOf is the whole of Share in words: "its active time" of a process, "the CPU time in use" of a machine.
	ShareOf string `json:"shareOf,omitempty"`
	// Life is the query that has a value while the subject exists; "" for one that does not end.
	Life string `json:"life,omitempty"`
	// Takers use what is short, and Waiters lack it, the most important first; both are empty where unknown.
	Takers  []rivals.Part `json:"takers,omitempty"`
	Waiters []rivals.Part `json:"waiters,omitempty"`
	// Cost is a sentence with the number that the cause costs; "" where unknown.
	Cost      string `json:"cost,omitempty"`
	Remedy    string `json:"remedy"`
	Reference string `json:"reference"`
	// Topic and Role are those of its rule, or Topic is one that the rule chose for it.
	Topic string `json:"topic,omitempty"`
	Role  Role   `json:"role,omitempty"`

	byHarm bool // its severity follows its share
}

// OwnCPUTime is the query for the CPU time per second that teescope uses on each machine of a query.Scope: its process, the
// commands that it runs and its programs in the kernel, without answers to pages. Everything that states or limits it
// asks this.
const OwnCPUTime = `sum by (job, instance) ($rate({__name__=~"teescope_(overhead|command)_cpu_seconds_total",$here,part!="page"}))`

// State of a finding over time.
type State string

// A finding is open from the evaluation in which its rule holds on both windows, or early, until the rule has not held
// for the closing delay.
const (
	Open   State = "open"
	Closed State = "closed"
)

// Record is a finding with its history, as the API serves it.
type Record struct {
	Finding
	// ID is stable: the same rule, machine, subject and unit opened at the same time.
	ID    string    `json:"id"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// LastSeen is the last evaluation in which the rule held; Until is set once closed.
	LastSeen time.Time  `json:"lastSeen"`
	Until    *time.Time `json:"until,omitempty"`
	// Ended is the time of the first reading that no longer had the subject; absent while it exists, and where that is
	// not known.
	Ended *time.Time `json:"ended,omitempty"`
	// Early: its rule holds since a short time, and its windows are not met yet. Since is then the begin of that time, and
	// the finding is sent to nobody.
	Early bool `json:"early,omitempty"`
	// Silenced is the id of the silence that covers it, "" for none.
	Silenced string `json:"silenced,omitempty"`
	// Sentence is the title for a reader of now: in the past tense, and since when, where its value is older than two
	// readings or the subject has ended. It is not stored.
	Sentence string `json:"sentence,omitempty"`
	// Age is the age of the value in seconds, since LastSeen.
	Age float64 `json:"age"`
}

// Silence stops notifications about findings; they are still shown, and marked.
type Silence struct {
	ID string `json:"id"`
	// Rule is a rule's name, "" for all; Subject matches the whole of the subjects, or of
	// "SUBJECT of UNIT" where a finding is about one unit (RE2), "" for all.
	Rule    string    `json:"rule"`
	Subject string    `json:"subject"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment"`
	// Author is who made it, as the audit line says it; "" where that is not known.
	Author string `json:"author,omitempty"`
	// Created is when it was made, by the clock of then.
	Created time.Time `json:"created,omitzero"`
}

// Answer is the result of a rule's last evaluation.
type Answer string

// The answers.
const (
	Fires      Answer = "fires"
	Silent     Answer = "silent"
	CannotTell Answer = "cannot tell"
)

// RuleStat is a rule with the outcome of its last evaluation.
type RuleStat struct {
	Name   string    `json:"name"`
	Title  string    `json:"title"`
	Doc    string    `json:"doc"`
	Answer Answer    `json:"answer"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// Near are subjects without a finding although they are near a threshold.
	Near []Near `json:"near,omitempty"`
	// Needs are the metrics without which it is not checked.
	Needs []string `json:"needs,omitempty"`
	// Windows are the long and the short one, in seconds.
	Windows [2]float64 `json:"windows"`
}

// Near is a subject near a threshold of a rule, and why it has no finding.
type Near struct {
	query.Machine
	Subject string `json:"subject"`
	// Text is a sentence with both numbers.
	Text string `json:"text"`

	// Life is as in Finding.
	Life string `json:"-"`
}
