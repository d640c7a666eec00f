package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// twin has the same instance as node2, in another job; gone has no readings of the last two minutes.
var (
	node2   = query.Machine{Job: "agents", Instance: "node-2"}
	twin    = query.Machine{Job: "other", Instance: "node-2"}
	gone    = query.Machine{Job: "agents", Instance: "node-3"}
	nowhere = query.Machine{Job: "agents", Instance: "nowhere"}
)

// watching returns a monitor of vm-1, whose store has the readings of 5 minutes of it and of three other machines, and
// whose one rule fires on the agent.
func watching(t *testing.T) *monitor {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	o := store.DefaultOptions()
	o.Dir, o.Instance = t.TempDir(), "vm-1"
	st, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	on := func(m query.Machine, d *metric.Desc, value float64, labels ...string) metric.Sample {
		at := *d
		at.Labels = append([]string{"job", "instance"}, d.Labels...)
		return metric.Sample{Desc: &at, Value: value, Labels: append([]string{m.Job, m.Instance}, labels...)}
	}
	memory := &metric.Desc{Name: "node_memory_MemTotal_bytes", Kind: metric.Gauge}
	idle := &metric.Desc{Name: "node_cpu_seconds_total", Kind: metric.Counter, Labels: []string{"cpu", "mode"}}
	teeInfo := &metric.Desc{Name: "tee_info", Kind: metric.Gauge, Labels: []string{"kind", "variant", "role", "active", "debug"}}
	overhead := &metric.Desc{Name: "teescope_overhead_cpu_seconds_total", Kind: metric.Counter, Labels: []string{"part"}}
	rss := &metric.Desc{Name: "teescope_memory_bytes", Kind: metric.Gauge, Labels: []string{"kind"}}
	for s := 300; s >= 0; s -= 5 {
		age := float64(300 - s)
		list := []metric.Sample{
			on(query.Machine{Job: "teescope", Instance: "vm-1"}, probe.Up, 1, "cpu"),
			on(query.Machine{Job: "teescope", Instance: "vm-1"}, overhead, 1000+0.001*age, "userspace"),
			on(node2, observe.InfoDesc, 1, "1.2.3", "node-2.example", "Linux 6.12", "arm64", "Debian", "Neoverse", "none", "true", "nitro"),
			on(node2, observe.BudgetDesc, 0.02), on(node2, probe.SlowedDesc, 2), on(twin, probe.SlowedDesc, 1),
			on(node2, teeInfo, 1, "cca", "", "guest", "true", "true"),
			on(node2, probe.Up, 1, "tee"), on(node2, probe.Up, 1, "syscalls"), on(node2, probe.Up, 0, "system"), on(node2, probe.Up, 1, "of the future"),
			on(node2, probe.Coverage, 0.25, "syscalls"), on(node2, probe.StandardError, 0.05, "syscalls", probe.OfSum), on(node2, probe.StandardError, 0.2, "syscalls", probe.OfRest), on(node2, probe.LevelDesc, 1, "syscalls", "count"),
			on(node2, probe.BlindDesc, 1, "llc", "no PMU"),
			on(node2, memory, 1<<34), on(node2, idle, 1000+age, "0", "idle"), on(node2, idle, 1000+age, "1", "idle"),
			on(node2, overhead, 1000+0.012*age, "userspace"), on(node2, rss, 1<<25, "rss"),
			on(twin, probe.Up, 1, "cpu"), on(twin, overhead, 1000+0.5*age, "userspace"),
		}
		if s > 120 {
			list = append(list, on(gone, observe.InfoDesc, 1, "1.2.3", "node-3", "", "", "", "", "", "", ""), on(gone, probe.Up, 1, "tee"), on(gone, overhead, 1000+age, "userspace"))
		}
		if err := st.Append(now.Add(-time.Duration(s)*time.Second), list); err != nil {
			t.Fatal(err)
		}
	}
	h := host.At(t.TempDir())
	h.Now = func() time.Time { return now }
	m := &monitor{Settings: Settings{Judging: judging}, Observer: &observe.Observer{Host: h, Sources: sources.All, Chosen: sources.All, Budget: 0.01, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Platform: web.Platform{Hostname: "vm-1", CPUs: 8}}, series: st, served: st}
	m.Engine = probe.New(h, nil, nil, nil)
	m.slowest.Store(int64(5 * time.Second))
	steal := &findings.Rule{Name: "cpu_steal", Needs: []string{"node_cpu_seconds_total"}, Run: func(_ context.Context, p *findings.Pass) error {
		p.Report(findings.Finding{Machine: node2, Subject: "machine node-2", Severity: findings.Warning, Title: "Stolen."})
		return nil
	}}
	ao := findings.DefaultOptions()
	ao.Now, ao.Started = h.Now, now
	m.analysis = findings.New([]*findings.Rule{steal, {Name: "quiet", Needs: []string{"teescope_source_up"}, Run: func(context.Context, *findings.Pass) error { return nil }}}, st, ao)
	m.analysis.Evaluate(t.Context())
	m.fleet = m.machines()
	t.Cleanup(m.fleet.Close)
	m.pages = m.shared()
	t.Cleanup(m.pages.Close)
	return m
}

// TestElsewhere: what the monitor says of each machine is that machine's, or absent with a reason.
func TestElsewhere(t *testing.T) {
	m := watching(t)
	ctx := t.Context()
	for _, tt := range []struct {
		on   query.Machine
		want string
	}{
		{query.Machine{}, "vm-1 8 CPUs elsewhere=false gone=false budget=0.01 slowed=0 userspace=0.001 findings= rules=cpu_steal:cannot tell,quiet:silent"},
		{m.own(), "vm-1 8 CPUs elsewhere=false gone=false budget=0.01 slowed=0 userspace=0.001 findings= rules=cpu_steal:cannot tell,quiet:silent"},
		{node2, "node-2.example 2 CPUs elsewhere=true gone=false budget=0.02 slowed=2 userspace=0.012 findings=cpu_steal rules=cpu_steal:fires,quiet:silent"},
		{twin, "node-2 0 CPUs elsewhere=true gone=false budget=0 slowed=0 userspace=0.5 findings= rules=cpu_steal:cannot tell,quiet:silent"},
		{gone, "node-3 0 CPUs elsewhere=true gone=true budget=0 slowed=0 userspace=unknown findings= rules=cpu_steal:cannot tell,quiet:cannot tell"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			p, err := m.platformOf(ctx, tt.on)
			if err != nil {
				t.Fatal(err)
			}
			o, err := m.overhead(ctx, tt.on)
			if err != nil {
				t.Fatal(err)
			}
			of := tt.on
			if of == (query.Machine{}) {
				of = m.own()
			}
			f, err := m.findingsOf(ctx, of)
			if err != nil {
				t.Fatal(err)
			}
			userspace := "unknown"
			if v, ok := o.CPU["userspace"]; ok {
				userspace = fmt.Sprintf("%.4g", v)
			}
			var found, rules []string
			for _, r := range f.Findings {
				found = append(found, r.Rule)
			}
			for _, s := range f.Rules {
				rules = append(rules, s.Name+":"+string(s.Answer))
			}
			got := fmt.Sprintf("%s %d CPUs elsewhere=%v gone=%v budget=%v slowed=%v userspace=%s findings=%s rules=%s", p.Hostname, p.CPUs, p.Elsewhere, p.Gone, o.Budget, o.Slowed, userspace, strings.Join(found, ","), strings.Join(rules, ","))
			if got != tt.want || p.Machine != of {
				t.Errorf("%v: %s\nwant %s", tt.on, got, tt.want)
			}
		})
	}
	if f, err := m.findingsOf(ctx, query.Machine{}); err != nil || len(f.Findings) != 1 {
		t.Errorf("of all machines: %+v, %v; want one finding", f.Findings, err)
	}
	for name, ask := range map[string]func() error{
		"platform": func() error { _, err := m.platformOf(ctx, nowhere); return err },
		"sources":  func() error { _, err := m.sourcesOf(ctx, nowhere); return err },
		"overhead": func() error { _, err := m.overhead(ctx, nowhere); return err },
		"findings": func() error { _, err := m.findingsOf(ctx, nowhere); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if err := ask(); !errors.Is(err, web.ErrNotFound) {
				t.Errorf("%s of a machine that is not known: %v, want not found", name, err)
			}
		})
	}
}

// counted counts the queries of a store.
type counted struct {
	served
	n atomic.Int64
}

func (a *counted) Steps(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error) {
	a.n.Add(1)
	return a.served.Steps(ctx, expr, from, to, step)
}

func (a *counted) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	a.n.Add(1)
	return a.served.Query(ctx, expr, at)
}

// TestFindingsAreShared: however many pages show the findings of a machine, its series are counted once.
func TestFindingsAreShared(t *testing.T) {
	m := watching(t)
	if _, err := m.fleet.Rows(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &counted{served: m.served}
	m.series, m.served = a, a
	m.pages = m.shared()
	t.Cleanup(m.pages.Close)
	for range 10 {
		if _, err := m.findingsOf(t.Context(), twin); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.n.Load(); n != 1 {
		t.Errorf("10 pages: %d queries, want 1", n)
	}
}

func TestElsewherePlatform(t *testing.T) {
	m := watching(t)
	p, err := m.platformOf(t.Context(), node2)
	if err != nil || p.Version != "1.2.3" || p.Kernel != "Linux 6.12" || p.Arch != "arm64" || p.MemoryBytes != 1<<34 || p.Interval != 5 || !p.Privileged || len(p.Lacks) != 1 {
		t.Errorf("platform %+v, %v", p, err)
	}
	states := map[string]string{}
	for _, x := range p.TEEs {
		states[x.Kind] = x.State
		if x.Kind == "cca" && (x.Facts == nil || !x.Facts.Debug || !x.Facts.Active) {
			t.Errorf("cca: %+v", x.Facts)
		}
	}
	if states["cca"] != "here" || states["nitro"] != "could not tell" || states["sgx"] != "not here" {
		t.Errorf("TEEs %v", states)
	}
	// Without teescope_info nobody can say that there is no TEE.
	if p, err := m.platformOf(t.Context(), twin); err != nil || p.Version != "" || slices.ContainsFunc(p.TEEs, func(x web.TEE) bool { return x.State != "could not tell" }) {
		t.Errorf("platform without teescope_info: %+v, %v", p, err)
	}
	if p, err := m.platformOf(t.Context(), gone); err != nil || len(p.Lacks) != 2 || p.LastSeen.IsZero() {
		t.Errorf("a machine that is gone: %+v, %v", p, err)
	}
}

func TestElsewhereSources(t *testing.T) {
	m := watching(t)
	of := func(on query.Machine) map[string]web.Source {
		list, err := m.sourcesOf(t.Context(), on)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]web.Source{}
		for _, s := range list {
			out[s.Name] = s
		}
		return out
	}
	got := of(node2)
	for name, want := range map[string]string{"tee": "available", "syscalls": "available", "system": "unavailable", "disk": "not here", "of the future": "available"} {
		t.Run(name, func(t *testing.T) {
			if got[name].State != want || (want == "available") != (got[name].Reason == "") {
				t.Errorf("source %s is %s (%s), want %s", name, got[name].State, got[name].Reason, want)
			}
		})
	}
	if s := got["syscalls"]; s.Coverage == nil || *s.Coverage != 0.25 || s.Error == nil || *s.Error != 0.05 || s.RestError == nil || *s.RestError != 0.2 || s.Level != "count" || s.Doc == "" {
		t.Errorf("syscalls: %+v", s)
	}
	if s := got["llc"]; !s.Blind || s.Reason != "no PMU" {
		t.Errorf("llc: %+v", s)
	}
	if s := of(gone)["tee"]; s.State != "unavailable" || !strings.HasPrefix(s.Reason, "no reading of this machine since ") {
		t.Errorf("a source of a machine that is gone: %+v", s)
	}
}
