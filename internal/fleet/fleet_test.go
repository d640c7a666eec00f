package fleet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// load are the series of a monitor and of the agents that it scrapes every 15 s, for 20 minutes. The notation ends at
// an empty line.
var load = regexp.MustCompile(`\n(\s*(#.*)?\n)+`).ReplaceAllString(`load 15s
  teescope_info{job="teescope",instance="vm-1",version="old",hostname="vm-1"} 1x80
  teescope_info{job="teescope",instance="vm-1",version="new",hostname="vm-1"} 1x80
  teescope_source_up{job="teescope",instance="vm-1",source="self"} 1x80
  teescope_overhead_cpu_seconds_total{job="teescope",instance="vm-1",part="userspace"} 0+0.03x80
  teescope_overhead_cpu_seconds_total{job="teescope",instance="vm-1",part="page"} 0+9x80

  up{job="agents",instance="node-2"} 1x80
  teescope_info{job="agents",instance="node-2",version="1.2",hostname="node-2.example",node="n2",tee_unknown="nvidia-cc"} 1x80
  tee_info{job="agents",instance="node-2",kind="tdx-host",role="host",active="false"} 1x80
  tee_info{job="agents",instance="node-2",kind="sev",variant="sev-snp",role="guest",active="true",debug="true"} 1x80
  teescope_source_up{job="agents",instance="node-2",source="tee"} 1x80
  teescope_source_up{job="agents",instance="node-2",source="syscalls"} 1x80
  teescope_source_up{job="agents",instance="node-2",source="llc"} 0x80
  teescope_source_blind{job="agents",instance="node-2",source="llc",reason="no PMU"} 1x80
  teescope_source_coverage_ratio{job="agents",instance="node-2",source="syscalls"} 0.25x80
  teescope_source_coverage_ratio{job="agents",instance="node-2",source="tee"} 1x80
  teescope_source_standard_error_ratio{job="agents",instance="node-2",of="rest",source="syscalls"} 0.05x80
  teescope_source_standard_error_ratio{job="agents",instance="node-2",of="sum",source="syscalls"} 0.01x80
  teescope_overhead_cpu_seconds_total{job="agents",instance="node-2",part="userspace"} 0+0.09x80
  teescope_overhead_cpu_seconds_total{job="agents",instance="node-2",part="body"} 0+0.06x80
  node_pressure_cpu_waiting_seconds_total{job="agents",instance="node-2"} 0+1.2x80

  # The same name in another job.
  teescope_info{job="other",instance="node-2",version="1.3",hostname="twin"} 1x80
  teescope_source_up{job="other",instance="node-2",source="tee"} 1x80
  teescope_overhead_cpu_seconds_total{job="other",instance="node-2",part="userspace"} 0+0.3x80

  # One that vanished.
  teescope_info{job="agents",instance="node-3",version="1.2",hostname="node-3"} 1x40 stale
  teescope_source_up{job="agents",instance="node-3",source="tee"} 1x40 stale
  up{job="agents",instance="node-3"} 1x40 0x39

  # One without teescope_info.
  teescope_source_up{job="agents",instance="node-4",source="tee"} 1x80

  # Two agents under one name.
  teescope_info{job="agents",instance="node-5",version="1.2",hostname="node-5",pod="a",zone="z"} 1x80
  teescope_info{job="agents",instance="node-5",version="1.2",hostname="node-5",pod="b",zone="z"} 1x80
  teescope_source_up{job="agents",instance="node-5",source="tee"} 1x80

  # One that never answered, and a target that is no machine.
  up{job="agents",instance="node-6",node="n6"} 0x80
  up{job="redis",instance="redis:9121"} 0x80

  # A capable one.
  teescope_info{job="agents",instance="node-7",version="1.2",hostname="node-7",tee_unknown=""} 1x80
  tee_info{job="agents",instance="node-7",kind="sgx",variant="in-tree",role="host",active="false"} 1x80
  teescope_source_up{job="agents",instance="node-7",source="tee"} 1x80
`, "\n")

// counted keeps the queries.
type counted struct {
	query.Querier
	asked []string
}

func (c *counted) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	c.asked = append(c.asked, expr)
	return c.Querier.Query(ctx, expr, at)
}

var own = query.Machine{Job: "teescope", Instance: "vm-1"}

func agent(name string) query.Machine { return query.Machine{Job: "agents", Instance: name} }

// open are findings of several machines.
var open = []findings.Record{
	record("a", agent("node-2"), "cpu_steal", findings.Critical, 500, &[2]float64{0.1, 0.2}),
	record("b", agent("node-2"), "pressure", findings.Warning, 400, &[2]float64{0.3, 0.5}),
	record("c", agent("node-4"), "cpu_steal", findings.Warning, 300, nil),
	record("d", own, "over_budget", findings.Warning, 200, nil),
	record("e", query.Machine{Job: "redis", Instance: "redis:9121"}, "target_down", findings.Warning, 100, nil),
	record("f", query.Machine{Job: "node-exporter", Instance: "node-7"}, "anomaly", findings.Info, 100, nil),
}

func record(id string, on query.Machine, rule string, s findings.Severity, since int64, share *[2]float64) findings.Record {
	role := map[string]findings.Role{"over_budget": findings.RoleMonitor}[rule]
	return findings.Record{ID: id, State: findings.Open, Since: time.Unix(since, 0),
		Finding: findings.Finding{Machine: on, Rule: rule, Title: rule + " on " + on.Instance + ".", Severity: s, Share: share, Role: role}}
}

// watched returns the fleet of a store, and its clock, which is at a time since the first reading. It waits for each new
// list.
func watched(t testing.TB, q query.Querier, at time.Duration) (*Fleet, *time.Time) {
	now := time.Unix(0, 0).Add(at)
	f := New(q, Options{Own: own, Version: "new", Unsure: "nitro", Now: func() time.Time { return now }, Interval: func() time.Duration { return 15 * time.Second },
		Open: func() []findings.Record { return open },
		Rules: func() []findings.RuleStat {
			return []findings.RuleStat{{Name: "cpu_steal", Title: "CPU steal", Answer: findings.Fires}}
		}})
	t.Cleanup(f.Close)
	f.wait = time.Hour
	return f, &now
}

// line is a row as text.
func line(r Row) string {
	number := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.4g", *v)
	}
	worst, share := "-", "-"
	if r.Worst != nil {
		worst = r.Worst.ID
	}
	if r.Share != nil {
		share = fmt.Sprint(*r.Share)
	}
	seen := "never"
	if !r.LastSeen.IsZero() {
		seen = r.LastSeen.Sub(time.Unix(0, 0)).String()
	}
	return fmt.Sprintf("%s/%s %s own=%v agents=%d labels=%v version=%q %s seen=%s tee=%q findings=%d worst=%s share=%s cost=%s waiting=%s sources=%d/%d blind=%d coverage=%s error=%s",
		r.Job, r.Instance, r.Name, r.Own, r.Agents, r.Labels, r.Version, r.Health, seen, r.TEE, r.Findings, worst, share, number(r.Cost), number(r.Waiting), r.Up, r.Sources, r.Blind, number(r.Coverage), number(r.Error))
}

func lines(rows []Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, line(r))
	}
	return strings.Join(out, "\n")
}

func TestRows(t *testing.T) {
	f, _ := watched(t, storetest.Load(t, load), 20*time.Minute)
	rows, err := f.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(`
teescope/vm-1 vm-1 own=true agents=0 labels=map[] version="new" warning seen=20m0s tee="unknown" findings=1 worst=e share=- cost=0.002 waiting=- sources=1/1 blind=0 coverage=- error=-
agents/node-2 node-2.example own=false agents=0 labels=map[node:n2] version="1.2" critical seen=20m0s tee="sev-snp guest" findings=2 worst=a share=[0.3 0.5] cost=0.01 waiting=0.08 sources=2/3 blind=1 coverage=0.25 error=0.05
agents/node-3 node-3 own=false agents=0 labels=map[] version="" gone seen=10m0s tee="unknown" findings=0 worst=- share=- cost=- waiting=- sources=0/0 blind=0 coverage=- error=-
agents/node-4 node-4 own=false agents=0 labels=map[] version="" warning seen=20m0s tee="unknown" findings=1 worst=c share=- cost=- waiting=- sources=1/1 blind=0 coverage=- error=-
agents/node-5 node-5 own=false agents=2 labels=map[zone:z] version="1.2" good seen=20m0s tee="none" findings=0 worst=- share=- cost=- waiting=- sources=1/1 blind=0 coverage=- error=-
agents/node-6 node-6 own=false agents=0 labels=map[node:n6] version="" gone seen=never tee="unknown" findings=0 worst=- share=- cost=- waiting=- sources=0/0 blind=0 coverage=- error=-
agents/node-7 node-7 own=false agents=0 labels=map[] version="1.2" good seen=20m0s tee="inactive" findings=0 worst=- share=- cost=- waiting=- sources=1/1 blind=0 coverage=- error=-
other/node-2 twin own=false agents=0 labels=map[] version="1.3" good seen=20m0s tee="none" findings=0 worst=- share=- cost=0.02 waiting=- sources=1/1 blind=0 coverage=- error=-`)
	if got := lines(rows); got != want {
		t.Errorf("rows\n%s\nwant\n%s", got, want)
	}
	for _, m := range []query.Machine{agent("node-2"), {Job: "other", Instance: "node-2"}} {
		if r, err := f.Row(t.Context(), m); err != nil || r.Machine != m {
			t.Errorf("row of %v is %v, %v", m, r.Machine, err)
		}
	}
	if _, err := f.Row(t.Context(), query.Machine{Job: "redis", Instance: "redis:9121"}); !errors.Is(err, ErrNoMachine) {
		t.Errorf("an exporter: %v, want ErrNoMachine", err)
	}
}

// TestOwner: a finding belongs to the machine of its labels, to the only one with its instance, or to the monitor's.
func TestOwner(t *testing.T) {
	f, _ := watched(t, storetest.Load(t, load), 20*time.Minute)
	of, err := f.Owner(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[query.Machine]query.Machine{
		agent("node-2"): agent("node-2"),
		{Job: "node-exporter", Instance: "node-7"}: agent("node-7"),
		{Job: "node-exporter", Instance: "node-2"}: own, // there are two of that name
		{Job: "redis", Instance: "redis:9121"}:     own,
		{}:                                         own,
	} {
		if got := of(from); got != want {
			t.Errorf("%v belongs to %v, want %v", from, got, want)
		}
	}
}

// TestVanished: a machine stays in the list for a day after its last reading, whether or not somebody looked meanwhile.
func TestVanished(t *testing.T) {
	st := storetest.Load(t, load)
	f, now := watched(t, st, 9*time.Minute)
	state := func(want Health, seen time.Duration) {
		t.Helper()
		r, err := f.Row(t.Context(), agent("node-3"))
		if err != nil || r.Health != want || !r.LastSeen.Equal(time.Unix(0, 0).Add(seen)) {
			t.Errorf("at %v: %s, last seen %v, %v; want %s, %v", now.Unix(), r.Health, r.LastSeen.Unix(), err, want, seen)
		}
	}
	state(Good, 9*time.Minute)
	*now = time.Unix(0, 0).Add(10*time.Minute + 30*time.Second)
	state(Unknown, 10*time.Minute) // a reading or two may be missing
	*now = time.Unix(0, 0).Add(20 * time.Minute)
	state(Gone, 10*time.Minute)
	*now = time.Unix(0, 0).Add(2 * time.Minute) // the clock was set back
	state(Good, 2*time.Minute)
	*now = time.Unix(0, 0).Add(25*time.Hour + time.Minute)
	if r, err := f.Row(t.Context(), agent("node-4")); !errors.Is(err, ErrNoMachine) {
		t.Errorf("a day later: %v, %v", line(r), err)
	}
}

// TestQueries: the number of queries does not depend on that of machines, and rows are shown again for some seconds.
func TestQueries(t *testing.T) {
	var asked []int
	for _, text := range []string{load, agents(50)} {
		c := &counted{Querier: storetest.Load(t, text)}
		f, now := watched(t, c, 3*time.Minute)
		for range 3 {
			if _, err := f.Rows(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		asked = append(asked, len(c.asked))
		*now = now.Add(fresh + 50*perRow)
		if _, err := f.Rows(t.Context()); err != nil || len(c.asked) == asked[len(asked)-1] {
			t.Errorf("some seconds later: %v, %d queries; want new ones", err, len(c.asked))
		}
	}
	if asked[0] != asked[1]+1 || asked[0] > len(columns)+12 { // one machine of the first has no teescope_info
		t.Errorf("%v queries for 8 and for 50 machines, want one more for the first, at most %d", asked, len(columns)+12)
	}
}

// selectors are those of a query.
var selectors = regexp.MustCompile(`\b(up|(teescope|tee|node)_[a-z_]+)\b(\{[^}]*\})?|\{__name__=~[^}]*\}`)

// TestSeries: a list reads each series of a machine once; only its info, and its source tee, are read twice.
func TestSeries(t *testing.T) {
	const machines = 50
	st := storetest.Load(t, agents(machines))
	c := &counted{Querier: st}
	f, now := watched(t, c, 3*time.Minute)
	if _, err := f.Rows(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.asked, *now = nil, now.Add(fresh+machines*perRow) // the first looks for machines of the last day
	if _, err := f.Rows(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, expr := range c.asked {
		for _, s := range selectors.FindAllString(strings.ReplaceAll(expr, "count_values by (job, instance) (\"up\"", ""), -1) {
			points, err := st.Query(t.Context(), "count("+s+")", *now)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range points {
				read += int(p.Value)
			}
		}
	}
	if want := machines * (seriesOfAgent + 1); read != want {
		t.Errorf("%d series are read for %d machines, want %d: %q", read, machines, want, c.asked)
	}
}

// slow answers when its gate is open, and counts the queries that wait.
type slow struct {
	query.Querier
	gate chan struct{}
	n    atomic.Int64
}

func (s *slow) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	s.n.Add(1)
	select {
	case <-s.gate:
		return s.Querier.Query(ctx, expr, at)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestBusy: while a list is in the making, the last one is shown with its time, unless it is old. All who ask get the
// same one, whoever gives up.
func TestBusy(t *testing.T) {
	q := &slow{Querier: storetest.Load(t, load), gate: make(chan struct{})}
	f, now := watched(t, q, 19*time.Minute)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.Rows(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("the first list, without patience: %v", err)
	}
	close(q.gate)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if p, err := f.Page(t.Context(), Ask{Limit: 1}); err != nil || p.All != 8 {
				t.Errorf("%d machines, %v", p.All, err)
			}
		})
	}
	all.Wait()
	first, made := q.n.Load(), *now
	q.gate, f.wait = make(chan struct{}), 0
	at := func(age, want time.Duration) {
		t.Helper()
		*now = made.Add(age)
		if p, err := f.Page(t.Context(), Ask{Limit: 1}); err != nil || !p.At.Equal(made.Add(want)) {
			t.Errorf("after %v: the list of %v, %v; want that of %v after the first", age, p.At, err, want)
		}
	}
	at(10*time.Second, 0)
	at(20*time.Second, 0)
	if r, err := f.Row(t.Context(), agent("node-2")); err != nil || r.Version != "1.2" {
		t.Errorf("a machine of the last list: %v, %v", r, err)
	}
	*now = made.Add(fresh + 8*perRow + stale)
	if _, err := f.Rows(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("with an old list: %v, want to wait", err)
	}
	close(q.gate)
	f.wait = time.Hour
	at(fresh+8*perRow+stale, 10*time.Second)
	const recalled = 5 // queries about the last day, in the first list
	if n := q.n.Load() - first; n != first-recalled {
		t.Errorf("%d queries, want the %d of one list", n, first-recalled)
	}
}

// TestNewMachine: a machine that the last list lacks is looked for in the one in the making.
func TestNewMachine(t *testing.T) {
	q := &slow{Querier: storetest.Load(t, load), gate: make(chan struct{})}
	close(q.gate)
	f, now := watched(t, q, 19*time.Minute)
	if _, err := f.Rows(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.gate, f.wait = make(chan struct{}), 0
	q.Querier = storetest.Load(t, load+"  teescope_info{job=\"agents\",instance=\"new\",version=\"1.2\"} 1x80\n")
	*now = now.Add(10 * time.Second)
	asked := 0
	f.o.Now = func() time.Time {
		if asked++; asked == 2 { // after the last list was searched
			close(q.gate)
		}
		return *now
	}
	if r, err := f.Row(t.Context(), agent("new")); err != nil || r.Version != "1.2" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestMeter: the CPU time of a list is that of the pages that show it, although it is made in the background.
func TestMeter(t *testing.T) {
	f, _ := watched(t, storetest.Load(t, load), 20*time.Minute)
	n := 0
	f.o.Meter = func(do func()) { n++; do() }
	for range 2 {
		if _, err := f.Rows(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d lists are metered, want 1", n)
	}
}

// TestClose: what is in the making ends.
func TestClose(t *testing.T) {
	q := &slow{gate: make(chan struct{})}
	f, _ := watched(t, q, time.Minute)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.Rows(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.Close()
	asked := q.n.Load()
	if _, err := f.Rows(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("a list after the end: %v", err)
	}
	if n := q.n.Load(); n != asked {
		t.Errorf("%d queries after the end", n-asked)
	}
}

// TestBroken: a panic is the error of the list.
func TestBroken(t *testing.T) {
	f, _ := watched(t, nil, time.Minute)
	if _, err := f.Rows(t.Context()); err == nil || !strings.Contains(err.Error(), "list of machines crashed") {
		t.Errorf("error %v", err)
	}
}

type broken struct{}

func (broken) Query(context.Context, string, time.Time) ([]metric.Point, error) {
	return nil, errors.New("query timed out")
}

func TestBrokenStore(t *testing.T) {
	f, _ := watched(t, broken{}, time.Minute)
	if _, err := f.Page(t.Context(), Ask{Limit: 1}); err == nil || err.Error() != "query timed out" {
		t.Errorf("error %v", err)
	}
}

func TestPage(t *testing.T) {
	f, _ := watched(t, storetest.Load(t, load), 20*time.Minute)
	for _, tt := range []struct {
		ask     Ask
		matched int
		want    string
	}{
		{Ask{Limit: 3}, 8, "node-3 node-6 node-2.example"},
		{Ask{Limit: 3, Offset: 3}, 8, "vm-1 node-4 node-5"},
		{Ask{Limit: 3, Offset: 7}, 8, "twin"},
		{Ask{Limit: 3, Offset: 99}, 8, ""},
		{Ask{Limit: 9, Sort: "name"}, 8, "vm-1 node-2.example node-3 node-4 node-5 node-6 node-7 twin"},
		{Ask{Limit: 3, Sort: "cost"}, 8, "twin node-2.example vm-1"},
		{Ask{Limit: 2, Sort: "waiting"}, 8, "node-2.example vm-1"},
		{Ask{Limit: 2, Sort: "share"}, 8, "node-2.example vm-1"},
		{Ask{Limit: 1, Sort: "sources"}, 8, "node-2.example"},
		{Ask{Limit: 2, Sort: "seen"}, 8, "node-6 node-3"},
		{Ask{Limit: 1, Sort: "version"}, 8, "vm-1"},
		{Ask{Limit: 9, Text: "NODE-2"}, 2, "node-2.example twin"},
		{Ask{Limit: 9, Text: "n6"}, 1, "node-6"},
		{Ask{Limit: 9, TEE: "none"}, 2, "node-5 twin"},
		{Ask{Limit: 9, Health: Gone}, 2, "node-3 node-6"},
		{Ask{Limit: 9, Rule: "cpu_steal"}, 2, "node-2.example node-4"},
		{Ask{Limit: 9, Rule: "over_budget"}, 1, "vm-1"},
		{Ask{Limit: 9, Rule: "anomaly"}, 1, "node-7"},
		{Ask{Limit: 9, TEE: "none", Health: Gone}, 0, ""},
	} {
		t.Run(tt.want, func(t *testing.T) {
			p, err := f.Page(t.Context(), tt.ask)
			var got []string
			for _, r := range p.Machines {
				got = append(got, r.Name)
			}
			if err != nil || p.All != 8 || p.Matched != tt.matched || strings.Join(got, " ") != tt.want {
				t.Errorf("%+v: %q of %d of %d, %v; want %q of %d of 8", tt.ask, got, p.Matched, p.All, err, tt.want, tt.matched)
			}
		})
	}
	p, err := f.Page(t.Context(), Ask{Limit: 1})
	want := []Kind{
		{TEE: "unknown", Machines: 4, Gone: 2, Warning: 2},
		{TEE: "none", Machines: 2, Good: 2},
		{TEE: "inactive", Machines: 1, Good: 1},
		{TEE: "sev-snp guest", Machines: 1, Critical: 1},
	}
	if err != nil || !reflect.DeepEqual(p.Kinds, want) {
		t.Errorf("kinds %+v, %v, want %+v", p.Kinds, err, want)
	}
}

// TestMadeAt: a list that is shown again says when it was made.
func TestMadeAt(t *testing.T) {
	f, now := watched(t, storetest.Load(t, load), 20*time.Minute)
	made := *now
	for _, tt := range []struct{ age, want time.Duration }{{0, 0}, {time.Second, 0}, {fresh + 8*perRow, fresh + 8*perRow}} {
		*now = made.Add(tt.age)
		if p, err := f.Page(t.Context(), Ask{Limit: 1}); err != nil || !p.At.Equal(made.Add(tt.want)) {
			t.Errorf("after %v: made at %v, %v; want %v after the first", tt.age, p.At, err, tt.want)
		}
	}
}

func TestCauses(t *testing.T) {
	f, _ := watched(t, storetest.Load(t, load), 20*time.Minute)
	got, err := f.Causes(t.Context())
	want := []Cause{
		{"cpu_steal", "CPU steal", findings.Critical, time.Unix(300, 0), 2, 2, []string{"node-2.example", "node-4"}},
		{"over_budget", "over_budget", findings.Warning, time.Unix(200, 0), 1, 1, []string{"vm-1"}},
		{"pressure", "pressure", findings.Warning, time.Unix(400, 0), 1, 1, []string{"node-2.example"}},
		{"target_down", "target_down", findings.Warning, time.Unix(100, 0), 1, 1, []string{"vm-1"}},
		{"anomaly", "anomaly", findings.Info, time.Unix(100, 0), 1, 1, []string{"node-7"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("causes %+v, %v\nwant %+v", got, err, want)
	}
}
