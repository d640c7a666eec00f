package findings

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// TestMachines: the same subject on two machines is two findings, which open, close and are kept apart.
func TestMachines(t *testing.T) {
	a, b := query.Machine{Job: "agents", Instance: "a"}, query.Machine{Job: "agents", Instance: "b"}
	hot := []query.Machine{a, b}
	now := time.Unix(1000, 0)
	heat := &Rule{Name: "heat", Run: func(_ context.Context, p *Pass) error {
		for _, m := range hot {
			p.Report(Finding{Machine: m, Subject: "redis", Severity: Warning, Title: "Hot on " + m.Instance + "."})
		}
		return nil
	}}
	o := DefaultOptions()
	o.Now, o.Started = func() time.Time { return now }, now
	e := New([]*Rule{heat}, nil, o)
	e.Evaluate(t.Context())
	first := e.Records()
	if len(first) != 2 || first[0].ID == first[1].ID || first[0].Machine == first[1].Machine {
		t.Fatalf("want a finding for each machine, got %+v", first)
	}
	for i, m := range []query.Machine{a, b} {
		if got := (Filter{Machine: m}).Select(first); len(got) != 1 || got[0].Machine != m {
			t.Errorf("machine %d selects %+v", i, got)
		}
	}
	if got := (Filter{On: func(query.Machine) bool { return false }}).Select(first); len(got) != 0 {
		t.Errorf("no machine selects %+v", got)
	}

	h, _, err := OpenHistory(HistoryOptions{Path: filepath.Join(t.TempDir(), "findings.jsonl"), Max: 10, Retention: time.Hour, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	h.WriteChanges(first, first)
	kept, err := h.All()
	if err != nil || len(kept) != 2 || kept[0].State != Open || kept[1].State != Open || kept[0].Machine == kept[1].Machine {
		t.Errorf("kept %+v, %v: want both, open", kept, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}

	o.Past = kept
	hot = []query.Machine{b}
	now = now.Add(2 * time.Minute)
	o.Now = func() time.Time { return now }
	again := New([]*Rule{heat}, nil, o)
	again.Evaluate(t.Context())
	now = now.Add(2 * time.Minute)
	again.Evaluate(t.Context())
	for _, r := range again.Records() {
		if want := map[query.Machine]State{a: Closed, b: Open}[r.Machine]; r.State != want {
			t.Errorf("%v is %s, want %s", r.Machine, r.State, want)
		}
	}
}
