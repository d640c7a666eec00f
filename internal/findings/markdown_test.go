package findings

import (
	"testing"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// TestMarkdown: all of a finding in a ticket's form. What a process calls itself is no markup.
func TestMarkdown(t *testing.T) {
	low, high := 410.0, 568.0
	until := time.Unix(300, 0)
	r := Record{
		Finding: Finding{Rule: "heat", Machine: query.Machine{Job: "teescope", Instance: "vm_1"}, Subject: "*db*", Unit: "db.service", Title: "*db* spends 80 % of its active time on locks.", Severity: Critical,
			Share: &[2]float64{0.7, 0.9}, ShareOf: ActiveTime, RunsIn: []string{"db.service"}, Remedy: "Hold <it> for less time.", Reference: "https://docs.example/a_b#c_d (see also R&D of @all).",
			Evidence: []query.Evidence{{Text: "calls", Value: 489, Unit: "1/s", Low: &low, High: &high, Expr: "sum(rate(a[1m]))"}, {Text: "odd", Value: 2, Unit: "ratio", Expr: "a{b=\"`\"}"}}},
		State: Closed, Since: time.Unix(100, 0), LastSeen: time.Unix(200, 0), Until: &until,
	}
	const want = "**ENDED on vm\\_1: \\*db\\* spends 80 % of its active time on locks.**\n\n" +
		"- since: 1970-01-01T00:01:40Z\n- until: 1970-01-01T00:05:00Z\n- subject: \\*db\\* of db.service\n- runs in: db.service\n- rule: heat\n- share of its active time: 70 % to 90 %\n" +
		"- what to do: Hold \\<it\\> for less time.\n- read more: <https://docs.example/a_b#c_d> (see also R\\&D of @\u200ball).\n\nEvidence, values of 1970-01-01T00:03:20Z:\n\n" +
		"- calls: 489/s \\[410/s, 568/s\\] (`sum(rate(a[1m]))`)\n- odd: 2 times (``a{b=\"`\"}``)\n"
	if got := r.Markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
