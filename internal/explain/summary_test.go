package explain

import "testing"

// TestSummary: one sentence and one level for the page and the commands, also where the rest is large.
func TestSummary(t *testing.T) {
	share := func(v float64) Amount { return Amount{v, v, v} }
	tree := func(largest, rest float64) Tree {
		return Tree{Subject: "redis", Per: "second", Active: share(1), Unexplained: share(rest), UnexplainedShare: share(rest),
			Rows: []Row{{ID: "user", Title: "user code", Share: share(largest), Time: share(largest)}}}
	}
	for name, c := range map[string]struct {
		tree     Tree
		causes   []FoundCause
		severity Level
		want     Summary
	}{
		"a cause": {tree(0.4, 0.1), []FoundCause{{Rule: "syscall_storm", Title: "redis spends 40 % of its active time in clock_gettime."}}, "",
			Summary{"info", "redis spends 40 % of its active time in clock_gettime.", "Its threads together were active for 1 s a second. Of that, 10 % [10, 10] is not explained.", false}},
		"a cause with a finding": {tree(0.4, 0.1), []FoundCause{{Rule: "lock_contention", Title: "redis waits."}, {Rule: Queueing}}, "critical",
			Summary{"critical", "redis waits.", "Its threads together were active for 1 s a second. Of that, 10 % [10, 10] is not explained.", true}},
		"the rest may hide a cause": {tree(0.6, 0.3), nil, "warning",
			Summary{"unknown", "No cause found for redis: 30 % of its active time is not explained.", "Its threads together were active for 1 s a second. Of that, 30 % [30, 30] is not explained.", false}},
		"the rest is larger than any row": {tree(0.14, 0.15), nil, "",
			Summary{"unknown", "No cause found for redis: 15 % of its active time is not explained.", "Its threads together were active for 1 s a second. Of that, 15 % [15, 15] is not explained.", false}},
		"its own work": {tree(0.9, 0.05), nil, "",
			Summary{"good", "redis does its own work: no cause costs enough of its time to act on. The largest part is user code (90 %).", "Its threads together were active for 1 s a second. Of that, 5 % [5, 5] is not explained.", false}},
		"no data": {Tree{Subject: "redis", Per: "request"}, nil, "",
			Summary{"unknown", "No data on where redis spends its time.", "Its threads together were active for 0 s a request.", false}},
		"all of it, within the error": {func() Tree {
			tr := tree(0.9, 0)
			tr.UnexplainedShare = Amount{-0.01, -0.03, 0.02}
			return tr
		}(), nil, "",
			Summary{"good", "redis does its own work: no cause costs enough of its time to act on. The largest part is user code (90 %).", "Its threads together were active for 1 s a second. Of that, at most 2 % is not explained.", false}},
		"too much explained": {func() Tree {
			tr := tree(0.9, 0)
			tr.UnexplainedShare = Amount{-0.2, -0.3, -0.1}
			return tr
		}(), nil, "",
			Summary{"good", "redis does its own work: no cause costs enough of its time to act on. The largest part is user code (90 %).", "Its threads together were active for 1 s a second. The rows explain 20 % [10, 30] more than was measured.", false}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.tree.Summarize(c.causes, c.severity); got != c.want {
				t.Errorf("got\n%+v\nwant\n%+v", got, c.want)
			}
		})
	}
}
