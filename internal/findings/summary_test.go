package findings

import (
	"testing"
	"time"
)

// TestSummary: nothing is wrong only when checks had an answer, and for no longer than was watched.
func TestSummary(t *testing.T) {
	now := time.Unix(100_000, 0)
	stat := func(a Answer, reason string) RuleStat {
		return RuleStat{Name: "r", Answer: a, Reason: reason, Windows: [2]float64{300, 60}}
	}
	silent, blind := stat(Silent, ""), stat(CannotTell, "no samples.")
	over := func(minutes int) func(*Record) {
		until := now.Add(-time.Duration(minutes) * time.Minute)
		return func(r *Record) { r.State, r.Until = Closed, &until }
	}
	for name, c := range map[string]struct {
		records []Record
		rules   []RuleStat
		age     time.Duration // of the monitor; 0 is not known
		want    Summary
	}{
		"nothing wrong": {nil, []RuleStat{silent}, 0,
			Summary{Level: GoodLevel, Headline: "Nothing wrong in the last 5 min.", Checks: "1 of 1 check ran"}},
		"a check that did not run": {nil, []RuleStat{silent, blind}, 0,
			Summary{Level: GoodLevel, Headline: "Nothing wrong in the last 5 min.", Detail: "1 of 2 checks ran; 1 lacks data here.", Checks: "1 of 2 checks ran; 1 lacks data here"}},
		"no answer": {nil, []RuleStat{blind, blind}, time.Hour,
			Summary{Level: UnknownLevel, Headline: "Not enough data yet to tell whether anything is wrong.",
				Detail: "None of the 2 checks has an answer, for example: no samples.", Checks: "0 of 2 checks ran; 2 lack data here"}},
		"no rule": {nil, nil, time.Hour,
			Summary{Level: UnknownLevel, Headline: "Not enough data yet to tell whether anything is wrong.", Detail: "No check has run so far.", Checks: "0 of 0 checks ran"}},
		"just started": {nil, []RuleStat{blind}, 20 * time.Second,
			Summary{Level: UnknownLevel, Headline: "The monitor started 20 s ago; the first answers take a minute.", Checks: "0 of 1 check ran; 1 lacks data here",
				Youth: "The monitor started 20 s ago; the first answers take a minute."}},
		"no longer than was watched": {nil, []RuleStat{silent}, 30 * time.Second,
			Summary{Level: GoodLevel, Headline: "Nothing wrong in the last 30 s.", Checks: "1 of 1 check ran", Youth: "The monitor started 30 s ago; the first answers take a minute."}},
		"a problem that ended": {[]Record{seen(blocked, over(2)), seen(blocked, over(6)), seen(blocked, over(2), graded(Info)), seen(costly, over(2))}, []RuleStat{silent}, time.Hour,
			Summary{Level: GoodLevel, Headline: "Nothing wrong now; 1 problem ended in the last 5 min.", Checks: "1 of 1 check ran"}},
		"the monitor itself is no problem": {[]Record{seen(costly)}, []RuleStat{silent}, time.Hour,
			Summary{Level: GoodLevel, Headline: "Nothing wrong in the last 5 min.", Checks: "1 of 1 check ran"}},
		"one problem": {[]Record{seen(blocked)}, []RuleStat{silent}, time.Hour,
			Summary{Level: WarningLevel, Headline: "1 problem: redis shows locked", Checks: "1 of 1 check ran"}},
		"the worst of several": {[]Record{seen(blocked, on("db")), seen(stormy, graded(Critical)), seen(lossy, graded(Critical))}, []RuleStat{silent}, time.Hour,
			Summary{Level: CriticalLevel, Headline: "2 problems, the worst: redis shows stormy", Checks: "1 of 1 check ran"}},
	} {
		t.Run(name, func(t *testing.T) {
			var started time.Time
			if c.age > 0 {
				started = now.Add(-c.age)
			}
			if got := Summarize(c.records, c.rules, now, started); got != c.want {
				t.Errorf("got\n%+v\nwant\n%+v", got, c.want)
			}
		})
	}
}
