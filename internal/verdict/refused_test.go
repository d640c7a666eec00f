package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/result"
)

// TestRefusals: an arm is refused if it is comparable with no arm that has values; another arm's failure is not its
// fault.
func TestRefusals(t *testing.T) {
	other := func(r *result.Run) { r.OutputDigest = "sha256:other" }
	fails := func(r *result.Run) { r.Status, r.Reason, r.Metrics = result.Failed, "exit status 1", nil }
	for name, c := range map[string]struct {
		change map[string]func(*result.Run)
		refuse map[string]string // by arm; nothing is refused of the others
	}{
		"all alike":                  {nil, nil},
		"the middle does other work": {map[string]func(*result.Run){"b": other}, map[string]string{"b": "not comparable with a: the arms did different work"}},
		"the first does other work":  {map[string]func(*result.Run){"a": other}, map[string]string{"a": "not comparable with b: the arms did different work"}},
		"the first fails":            {map[string]func(*result.Run){"a": fails}, nil}, // the failure is its own reason
		"all but the last fail":      {map[string]func(*result.Run){"a": fails, "b": fails}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := latency("a", "b", "c")
			for arm, change := range c.change {
				l.each(arm, change)
			}
			l.conclude(Options{})
			for _, arm := range []string{"a", "b", "c"} {
				got, want := Refusals(l.Experiment, arm), c.refuse[arm]
				switch {
				case want == "" && len(got) > 0:
					t.Errorf("%s: %s is refused: %+v", name, arm, got)
				case want != "" && (len(got) != 1 || !strings.Contains(got[0].Message, want) || got[0].Level != result.Refuse || got[0].Case != "default" || got[0].Metric != ""):
					t.Errorf("%s: %s: %+v, want %q", name, arm, got, want)
				}
			}
		})
	}
	l := latency().also("", "ready_seconds", "seconds", "lower", 0.001).ceiling("ready_seconds", "native", 0.01, "the clock").conclude(Options{})
	if got := Refusals(l.Experiment, "native"); len(got) != 1 || got[0].Metric != "ready_seconds" || !strings.Contains(got[0].Message, "10 times what is possible") {
		t.Errorf("another metric: %+v", got)
	}
}

// TestRefusedOf: missing and refused values are kept in a history with the reason, and change nothing else in it.
func TestRefusedOf(t *testing.T) {
	var points []Point
	var refused []Refused
	for day, change := range []func(*lab){
		nil,
		func(l *lab) {
			l.each("", func(r *result.Run) { r.Status, r.Reason, r.Metrics = result.Failed, "exit status 1", nil })
		},
		nil,
		func(l *lab) { l.each("", func(r *result.Run) { r.Warmup = &result.Warmup{} }) },
		func(l *lab) {
			l.Guards = []result.Guard{{ID: invalidArm, Level: result.Refuse, Case: "default", Message: "not comparable"}}
		},
		func(l *lab) {
			l.Guards = []result.Guard{{ID: invalidArm, Level: result.Refuse, Case: "default", Metric: "another", Message: "not comparable"}}
		},
		func(l *lab) { l.Runs = nil },
	} {
		l := latency("native")
		l.Commit = &result.Commit{ID: string(rune('a' + day)), At: l.StartedAt.Add(time.Duration(-day) * time.Hour)}
		if change != nil {
			change(l)
		}
		p, r := Points(l.Experiment)
		points, refused = append(points, p...), append(refused, r...)
	}
	ss := Changes(points, ChangeOptions{Refused: refused})
	if len(ss) != 1 || len(ss[0].Points) != 3 || len(ss[0].Refused) != 4 {
		t.Fatalf("histories %+v", ss)
	}
	for i, want := range []struct {
		label, reason string
		value         bool
	}{{"g", "no run was made", false}, {"e", "not comparable", true}, {"d", "no steady state", false}, {"b", "exit status 1", false}} {
		t.Run(want.label, func(t *testing.T) {
			if r := ss[0].Refused[i]; r.Label != want.label || !strings.Contains(r.Reason, want.reason) || (r.Value != nil) != want.value {
				t.Errorf("refused %+v, want %+v", r, want)
			}
		})
	}
}
