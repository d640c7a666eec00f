package rules

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// asked counts the evaluations of each query.
type asked struct {
	query.Querier
	times map[string]int
}

func (a asked) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	a.times[expr]++
	return a.Querier.Query(ctx, expr, at)
}

// TestManyMachines: each of many machines with a cause has its finding with its own numbers, and the number of queries
// does not depend on that of the machines.
func TestManyMachines(t *testing.T) {
	steal := func(i int) string {
		on := fmt.Sprintf("job=\"agents\",instance=\"node-%d\",cpu=\"0\"", i)
		return fmt.Sprintf("  node_cpu_seconds_total{%s,mode=\"idle\"} 0+3x24\n  node_cpu_seconds_total{%s,mode=\"steal\"} 0+%gx24\n", on, on, 2+float64(i)/8)
	}
	hidden := func(i int) string {
		on := fmt.Sprintf("job=\"agents\",instance=\"node-%d\"", i)
		var out strings.Builder
		for _, source := range []string{"llc", "exits"} {
			fmt.Fprintf(&out, "  teescope_source_blind{%s,source=%q,reason=\"no PMU\"} 1x24\n  teescope_source_up{%s,source=%q} %dx24\n", on, source, on, source, i%2)
		}
		return out.String() + fmt.Sprintf("  teescope_source_up{%s,source=\"tee\"} 1x24\n", on)
	}
	for _, tt := range []struct {
		rule     string
		series   func(machine int) string
		subjects int // of a machine
		number   string
		want     func(machine int) float64
	}{
		{"cpu_steal", steal, 1, "share of CPU time stolen", func(i int) float64 { return (2 + float64(i)/8) / (5 + float64(i)/8) }},
		{"blind_counters", hidden, 2, "1 if the source delivers its other values", func(i int) float64 { return float64(i % 2) }},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			var asks []int
			for _, machines := range []int{3, 20} {
				var load strings.Builder
				load.WriteString("load 5s\n")
				for i := range machines {
					load.WriteString(tt.series(i))
				}
				at := time.Unix(120, 0)
				q := asked{storetest.Load(t, load.String()), map[string]int{}}
				o := findings.DefaultOptions()
				o.Now, o.Started, o.Interval = func() time.Time { return at }, at, 5*time.Second
				i := slices.IndexFunc(All, func(r *findings.Rule) bool { return r.Name == tt.rule })
				e := findings.New(All[i:i+1], q, o)
				e.Evaluate(t.Context())
				asks = append(asks, len(q.times))
				for expr, n := range q.times {
					if n > 1 {
						t.Errorf("%s: %d times in one pass: %s", tt.rule, n, expr)
					}
				}
				found := map[query.Machine]int{}
				for _, r := range e.Records() {
					found[r.Machine]++
					var of int
					if _, err := fmt.Sscanf(r.Instance, "node-%d", &of); err != nil || r.Job != "agents" || !strings.HasSuffix(r.Subject, " "+r.Instance) {
						t.Errorf("%s: %q is a finding of %v", tt.rule, r.Subject, r.Machine)
					}
					j := slices.IndexFunc(r.Evidence, func(ev query.Evidence) bool { return strings.HasPrefix(ev.Text, tt.number) })
					if j < 0 || math.Abs(r.Evidence[j].Value-tt.want(of)) > 1e-9 {
						t.Errorf("%s on %s: evidence %+v, want %q of %v", tt.rule, r.Instance, r.Evidence, tt.number, tt.want(of))
					}
					checkFinding(t, q.Querier, at, r.Finding)
				}
				if len(found) != machines || found[query.Machine{Job: "agents", Instance: "node-1"}] != tt.subjects {
					t.Errorf("%s: findings of %d machines, want %d, and %d of each: %v", tt.rule, len(found), machines, tt.subjects, e.Rules())
				}
			}
			if asks[0] != asks[1] {
				t.Errorf("%s: %d queries for 3 machines with the cause, %d for 20", tt.rule, asks[0], asks[1])
			}
		})
	}
}

// TestManyTargets: the number of queries does not depend on how many targets do not answer, or are not scraped any more;
// each has its own finding.
func TestManyTargets(t *testing.T) {
	kinds := []struct{ up, title string }{
		{"1x80 0x40", "is down: 100 % of its scrapes in the last 1m failed."},
		{"1x80 _x40", "was last scraped 200 s ago."},
		{"_x50 1x30 _x40", "was last scraped 200 s ago."}, // since 5m50s ago
	}
	var asks []int
	for _, targets := range []int{2, 300} {
		var load strings.Builder
		load.WriteString("load 5s\n")
		for i := range targets {
			for k, kind := range kinds {
				fmt.Fprintf(&load, "  up{job=\"agents\",instance=\"10.0.%d.%d:9781\",pod=\"p\"} %s\n", k, i, kind.up)
			}
		}
		fmt.Fprintf(&load, "  up{job=\"others\",instance=\"10.0.1.1:9781\"} 1x120\n")
		at := time.Unix(600, 0)
		q := asked{storetest.Load(t, load.String()), map[string]int{}}
		o := findings.DefaultOptions()
		o.Now, o.Started, o.Interval = func() time.Time { return at }, at, 5*time.Second
		e := findings.New([]*findings.Rule{targetDown}, q, o)
		e.Evaluate(t.Context())
		n := 0
		for expr, times := range q.times {
			n += times
			if times > 1 {
				t.Errorf("%d times in one pass: %s", times, expr)
			}
		}
		asks = append(asks, n)
		found := map[string]bool{}
		for _, r := range e.Records() {
			found[r.Title] = true
		}
		for i := range targets {
			for k, kind := range kinds {
				if title := fmt.Sprintf("The target 10.0.%d.%d:9781 (job agents) %s", k, i, kind.title); !found[title] {
					t.Errorf("of %d targets of each kind, no finding %q; %+v", targets, title, e.Rules())
				}
			}
		}
		if len(found) != len(kinds)*targets {
			t.Errorf("%d findings, want %d", len(found), len(kinds)*targets)
		}
		for _, r := range e.Records()[:len(kinds)] {
			checkFinding(t, q.Querier, at, r.Finding)
		}
	}
	if asks[0] != asks[1] {
		t.Errorf("%d queries with 2 targets of each kind, %d with 300", asks[0], asks[1])
	}
}

// TestMachineLeaves: when a node leaves the cluster, its series end, and so do all its findings. Those of others stay.
func TestMachineLeaves(t *testing.T) {
	var load strings.Builder
	load.WriteString("load 5s\n")
	for node, ends := range map[string]string{"node-1": " stale", "node-2": " %sx132"} { // node-1 after 10 minutes
		for series, values := range map[string][2]string{
			`up{instance=%q,job="agents"}`:                                                   {"1x60 0x59", "0"},
			`node_cpu_seconds_total{instance=%q,job="agents",cpu="0",mode="idle"}`:           {"0+3x120", "363+3"},
			`node_cpu_seconds_total{instance=%q,job="agents",cpu="0",mode="steal"}`:          {"0+2x120", "242+2"},
			`teescope_source_blind{instance=%q,job="agents",source="llc",reason="no PMU"}`:   {"1x120", "1"},
			`teescope_source_up{instance=%q,job="agents",source="llc"}`:                      {"0x120", "0"},
			`node_pressure_cpu_waiting_seconds_total{instance=%q,job="agents"}`:              {"0+4x120", "484+4"},
			`node_netstat_Tcp_RetransSegs{instance=%q,job="agents"}`:                         {"0+5000x120", "605000+5000"},
			`node_netstat_Tcp_OutSegs{instance=%q,job="agents"}`:                             {"0+10000x120", "1210000+10000"},
			`teescope_overhead_cpu_seconds_total{instance=%q,job="agents",part="userspace"}`: {"0+4x120", "484+4"},
		} {
			end := strings.Replace(ends, "%s", values[1], 1)
			fmt.Fprintf(&load, "  "+series+" %s%s\n", node, values[0], end)
		}
	}
	var at time.Time
	o := findings.DefaultOptions()
	o.Now, o.Started, o.Interval = func() time.Time { return at }, time.Unix(0, 0), 5*time.Second
	e := findings.New(All, storetest.Load(t, load.String()), o)
	open := func() map[string][]string {
		out := map[string][]string{}
		for _, r := range e.Records() {
			if r.State == findings.Open {
				out[r.Instance] = append(out[r.Instance], r.Rule)
				slices.Sort(out[r.Instance])
			}
		}
		return out
	}
	for at = time.Unix(450, 0); !at.After(time.Unix(600, 0)); at = at.Add(15 * time.Second) {
		e.Evaluate(t.Context())
	}
	before := open()
	if len(before["node-1"]) < 4 || !slices.Contains(before["node-1"], "target_down") || !slices.Equal(before["node-1"], before["node-2"]) {
		t.Fatalf("before: findings %v", before)
	}
	for ; !at.After(time.Unix(600, 0).Add(o.Windows.Long + o.CloseAfter)); at = at.Add(15 * time.Second) {
		e.Evaluate(t.Context())
	}
	if after := open(); len(after["node-1"]) > 0 || !slices.Equal(after["node-2"], before["node-2"]) {
		t.Errorf("findings before %v, after %v", before, after)
	}
}

// TestQuietMachines: machines without a cause are judged by queries about all of them: their number does not matter.
func TestQuietMachines(t *testing.T) {
	var asks []map[string]int
	for _, machines := range []int{2, 12} {
		var load strings.Builder
		load.WriteString("load 5s\n")
		for i := range machines {
			load.WriteString(quietMachine(fmt.Sprintf("job=\"agents\",instance=\"node-%d\"", i), 2))
		}
		at := time.Unix(600, 0)
		q := asked{storetest.Load(t, load.String()), map[string]int{}}
		o := findings.DefaultOptions()
		o.Now, o.Started, o.Interval = func() time.Time { return at }, time.Unix(0, 0), 5*time.Second
		o.Refusing = func() error { return nil }
		e := findings.New(All, q, o)
		e.Evaluate(t.Context())
		for _, r := range e.Rules() {
			if r.Answer != findings.Silent && r.Name != "anomaly" { // there is no history
				t.Errorf("%s is %s: %s", r.Name, r.Answer, r.Reason)
			}
		}
		asks = append(asks, q.times)
	}
	if few, many := len(asks[0]), len(asks[1]); few != many {
		t.Errorf("%d queries for 2 machines, %d for 12; for one of these alone:", few, many)
		for expr := range asks[1] {
			if strings.Contains(expr, "node-11") {
				t.Error(expr)
			}
		}
	}
}
