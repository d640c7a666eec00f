package workloads

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
)

// TestLLMHeld: a run whose answers arrived at once has no time per token and no share of answers that meet an objective for it, and says why;
// a few such answers count as answers that do not meet it.
func TestLLMHeld(t *testing.T) {
	const why = "the time between tokens is unknown"
	b, err := os.ReadFile("testdata/llm-url.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var recorded load.Chat
	for _, f := range txtar.Parse(b).Files {
		if f.Name == "good/stdout" {
			if err := json.Unmarshal(f.Data, &recorded); err != nil {
				t.Fatal(err)
			}
		}
	}
	params, err := bench.Complete("workload llm", llm.Params, bench.Params{"server": llmURL, "url": "http://127.0.0.1:8000/v1", "requests": "12", "rate": "20"})
	if err != nil {
		t.Fatal(err)
	}
	always := []string{"ttft_mean_seconds", "answer_mean_seconds", "output_tokens_per_second", "requests_per_second"}
	objectives := []string{"goodput_requests_per_second", "objective_ratio"}
	for _, c := range []struct {
		name string
		held uint64
		gaps bool
		want bool // TPOT is there
	}{{"none", 0, true, true}, {"one of twelve", 1, true, true}, {"some", 4, true, false}, {"all", 12, false, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := recorded
			if r.Held, r.Good = c.held, r.Done-c.held; c.held == r.Done {
				r.TPOT = ""
			}
			if !c.gaps {
				r.Gap = ""
			}
			out, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			samples, err := llm.Parse(bench.Outcome{Params: params, Inside: host.Output{Stdout: out}})
			got := map[string]float64{}
			for _, s := range samples {
				got[s.Desc.Name] = s.Value
			}
			reasons := ""
			if err != nil {
				reasons = err.Error()
			}
			has := func(name string, want bool) {
				_, is := got[name]
				if is != want || strings.Contains("\n"+reasons, "\n"+name+": "+why) == want {
					t.Errorf("%s is there: %v, want %v; missing:\n%s", name, is, want, reasons)
				}
			}
			for _, name := range always {
				has(name, true)
			}
			has("tpot_mean_seconds", c.want)
			for _, name := range objectives { // of each answer it must be known whether it met them
				has(name, c.held == 0)
			}
			has("gap_mean_seconds", c.gaps)
			if c.held == 0 && got["objective_ratio"] != 1 {
				t.Errorf("objective_ratio is %v", got["objective_ratio"])
			}
		})
	}
}
