package findings

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// seen returns an open finding with its rule as id, as the engine makes it.
func seen(r Rule, change ...func(*Record)) Record {
	rec := Record{ID: r.Name, State: Open, Since: time.Unix(1000, 0), Finding: Finding{
		Rule: r.Name, Subject: "redis", Title: "redis shows " + r.Name + ".", Severity: Warning}}
	for _, c := range change {
		c(&rec)
	}
	r.classify(&rec.Finding)
	return rec
}

var (
	strained  = Rule{Name: "strained", Topic: "CPU saturated", Role: RoleCause}
	throttled = Rule{Name: "throttled", Topic: "CPU saturated", Role: RoleEffect}
	switching = Rule{Name: "switching", Topic: "CPU saturated", Role: RoleEffect}
	costly    = Rule{Name: "costly", Topic: "CPU saturated", Role: RoleMonitor}
	lossy     = Rule{Name: "lossy", Role: RoleMonitor}
	blocked   = Rule{Name: "locked"}
	stormy    = Rule{Name: "stormy"}
)

func on(subject string) func(*Record) {
	return func(r *Record) { r.Subject, r.ID = subject, r.ID+" of "+subject }
}

func ofMachine(instance string) func(*Record) {
	return func(r *Record) { r.Instance, r.ID = instance, r.ID+" on "+instance }
}

func graded(s Severity) func(*Record) { return func(r *Record) { r.Severity = s } }

func taking(low, high float64) func(*Record) {
	return func(r *Record) { r.Share = &[2]float64{low, high} }
}

// TestProblems groups findings as the page, the commands and notifications show them.
func TestProblems(t *testing.T) {
	machine := on("machine")
	for name, c := range map[string]struct {
		records []Record
		want    []Problem // Since is checked below
	}{
		"nothing": {nil, []Problem{}},
		"effects of one cause are one problem, whose title counts them": {
			[]Record{seen(throttled, on("web")), seen(switching), seen(strained, machine)},
			[]Problem{{Title: "CPU saturated: 2 effects, on redis and web", Severity: Warning, Lead: "strained of machine", Effects: []string{"switching", "throttled of web"}}},
		},
		"without its cause, all are its effects": {
			[]Record{seen(switching), seen(throttled, on("web"), graded(Critical))},
			[]Problem{{Title: "CPU saturated: 2 effects, on web and redis", Severity: Critical, Lead: "throttled of web", Effects: []string{"throttled of web", "switching"}}},
		},
		"a single effect has its own title": {
			[]Record{seen(throttled)},
			[]Problem{{Title: "redis shows throttled", Severity: Warning, Lead: "throttled", Effects: []string{}}},
		},
		"a title names two subjects": {
			[]Record{seen(throttled, on("a")), seen(throttled, on("b")), seen(throttled, on("c")), seen(throttled, on("d"))},
			[]Problem{{Title: "CPU saturated: 4 effects, on a, b and 2 more", Severity: Warning, Lead: "throttled of a",
				Effects: []string{"throttled of a", "throttled of b", "throttled of c", "throttled of d"}}},
		},
		"all of one process is one problem, two things of a machine are two": {
			[]Record{seen(stormy), seen(blocked), seen(stormy, machine), seen(blocked, machine)},
			[]Problem{
				{Title: "redis shows locked", Severity: Warning, Lead: "locked", Effects: []string{"stormy"}},
				{Title: "redis shows locked", Severity: Warning, Lead: "locked of machine", Effects: []string{}},
				{Title: "redis shows stormy", Severity: Warning, Lead: "stormy of machine", Effects: []string{}},
			},
		},
		"the most severe comes first, then the larger share of time": {
			[]Record{seen(blocked, on("a"), taking(0.1, 0.2)), seen(stormy, on("b"), taking(0.5, 0.6)), seen(blocked, on("c"), graded(Critical))},
			[]Problem{
				{Title: "redis shows locked", Severity: Critical, Lead: "locked of c", Effects: []string{}},
				{Title: "redis shows stormy", Severity: Warning, Lead: "stormy of b", Effects: []string{}},
				{Title: "redis shows locked", Severity: Warning, Lead: "locked of a", Effects: []string{}},
			},
		},
		"the monitor adds to a problem of its topic, and is none itself": {
			[]Record{seen(costly, on("teescope"), graded(Critical)), seen(lossy, on("teescope")), seen(throttled), seen(blocked, on("web"))},
			[]Problem{
				{Title: "redis shows locked", Severity: Warning, Lead: "locked of web", Effects: []string{}},
				{Title: "redis shows throttled", Severity: Warning, Lead: "throttled", Effects: []string{"costly of teescope"}},
			},
		},
		"the monitor alone, notes and closed findings are no problems": {
			[]Record{seen(costly), seen(blocked, graded(Info)), seen(stormy, func(r *Record) { r.State = Closed })},
			[]Problem{},
		},
		"each machine has its own problems, and titles name it": {
			[]Record{seen(throttled, on("web on n1"), ofMachine("n1")), seen(switching, on("db on n1"), ofMachine("n1")), seen(strained, on("machine n2"), ofMachine("n2")), seen(throttled, on("web on n2"), ofMachine("n2"))},
			[]Problem{
				{Title: "CPU saturated on n2: 1 effect, on web", Severity: Warning, Lead: "strained of machine n2 on n2", Effects: []string{"throttled of web on n2 on n2"}},
				{Title: "CPU saturated on n1: 2 effects, on db and web", Severity: Warning, Lead: "switching of db on n1 on n1", Effects: []string{"switching of db on n1 on n1", "throttled of web on n1 on n1"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Problems(c.records)
			for i := range got {
				if !got[i].Since.Equal(time.Unix(1000, 0)) || !got[i].Has(got[i].Lead) {
					t.Errorf("problem %+v lacks its beginning or its lead", got[i])
				}
				got[i].Since = time.Time{}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, c.want)
			}
		})
	}
}

// TestLocalSubjects: the machine that a rule names is no part of the subject.
func TestLocalSubjects(t *testing.T) {
	for subject, want := range map[string]string{"redis on node-2": "redis", "redis": "redis", "on node-2": "on node-2", "machine node-2": "machine", "machine": "machine"} {
		t.Run(subject, func(t *testing.T) {
			f := Finding{Subject: subject, Machine: query.Machine{Instance: "node-2"}}
			if got := f.Local(); got != want {
				t.Errorf("%q is %q, want %q", subject, got, want)
			}
		})
	}
	if f := (Finding{Subject: "redis on node-2"}); f.Local() != f.Subject {
		t.Errorf("without a machine, %q is %q", f.Subject, f.Local())
	}
}

// TestWorst: without findings there is no severity.
func TestWorst(t *testing.T) {
	if got := Worst([]Record{seen(blocked), seen(stormy, graded(Critical)), seen(costly, graded(Info))}); got != Critical {
		t.Errorf("the worst is %q", got)
	}
	if got := Worst(nil); got != "" {
		t.Errorf("of nothing, the worst is %q", got)
	}
}

// TestRolesNeedTopics: a cause without a topic is a cause of nothing, and stands alone; a rule may choose the topic of
// a finding.
func TestRolesNeedTopics(t *testing.T) {
	r := Rule{Name: "pressed", Role: RoleCause}
	var alone Finding
	chosen := Finding{Topic: "Memory"}
	r.classify(&alone)
	r.classify(&chosen)
	if alone.Role != "" || chosen.Role != RoleCause || !strings.Contains(chosen.Topic, "Memory") {
		t.Errorf("got %+v and %+v", alone, chosen)
	}
}
