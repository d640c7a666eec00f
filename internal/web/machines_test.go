package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// several serves a store with six machines; node-3 has a finding.
func several(t *testing.T) func(*Options) {
	var load strings.Builder
	load.WriteString("load 15s\n")
	for i := range 6 {
		fmt.Fprintf(&load, "  teescope_source_up{job=\"agents\",instance=\"node-%d\",source=\"tee\"} 1x8\n", i)
	}
	now := time.Unix(120, 0)
	return func(o *Options) {
		o.Fleet = fleet.New(storetest.Load(t, load.String()), fleet.Options{
			Now: func() time.Time { return now }, Interval: func() time.Duration { return 15 * time.Second },
			Open: func() []findings.Record {
				return []findings.Record{{ID: "a", Since: now, Finding: findings.Finding{Rule: "cpu_steal", Machine: query.Machine{Job: "agents", Instance: "node-3"}, Severity: findings.Warning, Title: "Stolen."}}}
			},
			Rules: func() []findings.RuleStat {
				return []findings.RuleStat{{Name: "cpu_steal", Title: "CPU steal", Answer: findings.Fires}}
			},
		})
		t.Cleanup(o.Fleet.Close)
	}
}

func TestMachines(t *testing.T) {
	h := served(several(t))
	for target, want := range map[string]string{
		"machines":                            "6 of 6: node-3 node-0 node-1 node-2 node-4 node-5",
		"machines?sort=name&limit=2&offset=1": "6 of 6: node-1 node-2",
		"machines?text=NODE-5":                "1 of 6: node-5",
		"machines?health=warning":             "1 of 6: node-3",
		"machines?rule=cpu_steal":             "1 of 6: node-3",
		"machines?tee=none":                   "0 of 6:",
		"machines?offset=9":                   "6 of 6:",
		"machines?limit=0":                    `400 limit: "0": want a number from 1 to 1000`,
		"machines?limit=1001":                 `400 limit: "1001": want a number from 1 to 1000`,
		"machines?offset=-1":                  `400 offset: "-1": want a number`,
		"machines?sort=age":                   `400 sort: "age": want one of health, name, tee`,
		"machines?health=bad":                 `400 health: "bad": want one of [gone critical`,
		"machines?instance=node-1":            "400 instance: no such parameter; want text, tee, health, rule, sort, offset or limit",
	} {
		t.Run(target, func(t *testing.T) {
			w := do(h, "GET", "/api/teescope/v1/"+target, "")
			if w.Code != 200 {
				var e Error
				err := json.Unmarshal(w.Body.Bytes(), &e)
				if got := fmt.Sprintf("%d %s", w.Code, e.Error); err != nil || !strings.HasPrefix(got, want) {
					t.Errorf("%s: %s, %v, want %s", target, got, err, want)
				}
				return
			}
			var p fleet.Page
			err := json.Unmarshal(w.Body.Bytes(), &p)
			got := fmt.Sprintf("%d of %d:", p.Matched, p.All)
			for _, r := range p.Machines {
				got += " " + r.Instance
			}
			if err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", target, got, err, want)
			}
		})
	}
	w := do(h, "GET", "/api/teescope/v1/causes", "")
	if want := `{"causes":[{"rule":"cpu_steal","title":"CPU steal","severity":"warning","since":`; w.Code != 200 || !strings.HasPrefix(w.Body.String(), want) {
		t.Errorf("causes: %d %s, want %s", w.Code, w.Body, want)
	}
}
