package findings_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

// above holds while the temperature is above its threshold.
func above(name string) *findings.Rule {
	r := &findings.Rule{
		Name: name, Title: name, Doc: "Above.", Needs: []string{"temperature"}, Remedy: "Wait.", Reference: "thermometer(1)",
		Thresholds: []findings.Threshold{{Name: "degrees", Doc: "temperature", Default: 90}},
	}
	r.Run = func(ctx context.Context, p *findings.Pass) error {
		points, err := p.Query(ctx, "temperature", p.To)
		for _, pt := range points {
			if pt.Value > p.Limit("degrees", "a") {
				p.Report(findings.Finding{Subject: "a", Severity: findings.Warning, Title: "Hot."})
			}
		}
		return err
	}
	return r
}

// TestUse: new rules, windows and limits apply from the next evaluation on, and a finding keeps its id while its rule
// exists.
func TestUse(t *testing.T) {
	c := &clock{at: time.Minute}
	var told []string
	e := start(t, c, "load 15s\n  temperature 100x100\n", []*findings.Rule{above("warm")}, func(o *findings.Options) {
		o.Observe = func(r findings.Record) { told = append(told, fmt.Sprintf("%s %s %s", c.at, r.State, r.Rule)) }
	})
	evaluate := func(want ...string) {
		t.Helper()
		told = nil
		e.Evaluate(t.Context())
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		c.at += 15 * time.Second
	}
	limit := func(degrees float64) findings.Options {
		o := findings.DefaultOptions()
		o.CloseAfter = 30 * time.Second
		o.Limits = []findings.Limit{{Rule: "warm", Threshold: "degrees", Value: degrees}}
		return o
	}
	evaluate("1m0s open warm")
	first := e.Records()[0].ID

	o := limit(95)
	o.Windows = findings.Windows{Long: 10 * time.Minute, Short: 2 * time.Minute}
	both := []*findings.Rule{above("warm"), above("cold")}
	e.Reconfigure(both, o)
	if s := e.Rules(); len(s) != 2 || s[0].Answer != findings.Fires || s[0].Windows != [2]float64{600, 120} || s[1].Answer != findings.CannotTell {
		t.Errorf("rules %+v", s)
	}
	evaluate("1m15s open cold")
	if i := slices.IndexFunc(e.Records(), func(r findings.Record) bool { return r.ID == first }); i < 0 || e.Records()[i].State != findings.Open {
		t.Errorf("the open finding did not go on under its id: %+v", e.Records())
	}

	e.Reconfigure(both, limit(110))
	evaluate()
	evaluate("1m45s closed warm")

	e.Reconfigure([]*findings.Rule{above("warm")}, limit(90))
	evaluate("2m0s closed cold", "2m0s open warm")
	for _, r := range e.Records() {
		if r.State == findings.Open && (r.ID == first || !r.Since.Equal(c.now().Add(-15*time.Second))) {
			t.Errorf("what opened anew is %+v", r)
		}
	}
}

// TestUsePace: Run uses the evaluation interval set last.
func TestUsePace(t *testing.T) {
	c := &clock{at: time.Minute}
	o := findings.DefaultOptions()
	evaluated := make(chan struct{}, 1)
	rules := []*findings.Rule{above("warm")}
	e := start(t, c, "load 15s\n  temperature 100x100\n", rules, func(o *findings.Options) {
		o.Every = time.Hour
		o.Evaluated = func(_, _ []findings.Record) {
			select {
			case evaluated <- struct{}{}:
			default:
			}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	for _, o.Every = range []time.Duration{2 * time.Hour, time.Millisecond} {
		e.Reconfigure(rules, o)
	}
	<-evaluated
	stop()
	<-done
}

// TestSlowed: evaluations of patient rules are skipped while the monitor's own work does not fit into its budget, but each runs at
// least once in its short window. The others keep their time.
func TestSlowed(t *testing.T) {
	for _, c := range []struct {
		slowed int
		short  time.Duration
		want   time.Duration // between two evaluations, every 15 s as usual
	}{
		{1, time.Minute, 15 * time.Second},
		{2, time.Minute, 30 * time.Second},
		{4, time.Minute, time.Minute},
		{4, 40 * time.Second, 30 * time.Second},
		{4, 21 * time.Second, 15 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var at []time.Time
			o := findings.DefaultOptions()
			o.Now, o.Started, o.Interval = time.Now, time.Now(), 5*time.Second
			o.Windows.Short = c.short
			o.Slowed = func() int { return c.slowed }
			var others []time.Time
			silent := func(name string, patient bool, ran *[]time.Time) *findings.Rule {
				return &findings.Rule{Name: name, Patient: patient, Run: func(context.Context, *findings.Pass) error {
					if *ran = append(*ran, time.Now()); patient && len(*ran) == 4 {
						stop()
					}
					return nil
				}}
			}
			rules := []*findings.Rule{silent("prompt", false, &others), silent("patient", true, &at)}
			if err := findings.New(rules, nil, o).Run(ctx); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			for i := 1; i < len(others); i++ {
				if got := others[i].Sub(others[i-1]); got != o.Every {
					t.Errorf("slowed %d times: %v between two evaluations of a rule that is not patient, want %v", c.slowed, got, o.Every)
				}
			}
			for i := 1; i < len(at); i++ {
				if got := at[i].Sub(at[i-1]); got != c.want {
					t.Errorf("slowed %d times with a short window of %v: %v between two evaluations, want %v", c.slowed, c.short, got, c.want)
				}
			}
		})
	}
}

// TestSlowedClosing: one evaluation of a patient rule that does not see a cause closes no finding, however rare evaluations are; the second does.
func TestSlowedClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		o := findings.DefaultOptions()
		o.Now, o.Started, o.Interval = time.Now, time.Now(), 5*time.Second
		o.Slowed = func() int { return 4 }
		var open []int
		seen := []bool{true, false, true, false, false, false}
		ran := 0
		o.Evaluated = func(_, now []findings.Record) {
			if len(open) == ran {
				return // it was skipped
			}
			if open = append(open, len(now)); len(open) == len(seen) {
				stop()
			}
		}
		hot := &findings.Rule{Name: "hot", Patient: true, Run: func(_ context.Context, p *findings.Pass) error {
			ran++
			if seen[ran-1] {
				p.Report(findings.Finding{Subject: "x", Title: "x is hot.", Severity: findings.Warning})
			}
			return nil
		}}
		if err := findings.New([]*findings.Rule{hot}, nil, o).Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if want := []int{1, 1, 1, 1, 0, 0}; !slices.Equal(open, want) {
			t.Errorf("open findings %v, want %v", open, want)
		}
	})
}
