package query_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// TestExpand: what each of the former notations wrote, by the functions that wrote it then.
func TestExpand(t *testing.T) {
	machine := `job="teescope",instance="vm1"`
	process := `process="redis-server",` + machine
	everything := func(name string) (string, bool) { return "<" + name + ">", true }
	for _, tt := range []struct {
		name  string
		scope query.Scope
		text  string
		want  string
	}{
		{"explanation: rate of a process", query.Scope{Here: process, Over: "5m"}, `sum by (mode, call) ($rate(tee_sampled_cpu_seconds_total{$here}))`,
			"sum by (mode, call) (" + fmt.Sprintf("rate(%s{%s}[%s])", "tee_sampled_cpu_seconds_total", process, "5m") + ")"},
		{"explanation: two rates of the machine", query.Scope{Here: machine, Over: "90s"}, `sum($rate(node_cpu_seconds_total{$here,mode="steal"})) / sum($rate(node_cpu_seconds_total{$here}))`,
			fmt.Sprintf(`sum(rate(node_cpu_seconds_total{%s,mode="steal"}[%s])) / sum(rate(node_cpu_seconds_total{%s}[%s]))`, machine, "90s", machine, "90s")},
		{"explanation: subquery", query.Scope{Here: machine, Over: "5m"}, `max_over_time(count_over_time(teescope_source_up{$here}[1m])[$over:30s])`,
			fmt.Sprintf("max_over_time(count_over_time(teescope_source_up{%s}[1m])[%s:30s])", machine, "5m")},
		{"rule: subject", query.Scope{Here: machine, Over: "150s"}, `sum(rate(tee_swiotlb_bytes_total{$here,device="sda"}[$over]))`,
			`sum(rate(tee_swiotlb_bytes_total{` + machine + `,device="sda"}[150s]))`},
		{"rule: candidates", query.Scope{Over: "5m"}, `sum by (job) ($rate(tee_sampled_wait_seconds_total{$here,process!="other"}))`,
			`sum by (job) (rate(tee_sampled_wait_seconds_total{process!="other"}[5m]))`},
		{"rule: candidates without matchers", query.Scope{Over: "5m"}, `$rate(tee_swiotlb_bytes_total{$here})`, `rate(tee_swiotlb_bytes_total{}[5m])`},
		{"rule: its own words", query.Scope{Word: everything}, `$value >= $limit$only and "$$a"`, `<value> >= <limit><only> and "$a"`},
		{"rule: a threshold called rate", query.Scope{Word: everything}, `x >= $rate`, `x >= <rate>`},
		{"top: a minute where the readings are rare", query.Scope{Over: "15s", Longer: "1m"}, `sum by (process, instance) ($rate(tee_syscalls_total)) * 100`,
			`sum by (process, instance) (` + fmt.Sprintf("(rate(%[1]s[%[2]s]) or rate(%[1]s[1m]))", "tee_syscalls_total", "15s") + `) * 100`},
		{"top: with a matcher", query.Scope{Over: "15s", Longer: "1m"}, `$rate(tee_sampled_cpu_seconds_total{mode!="user"}) / $rate(tee_sampled_cpu_seconds_total)`,
			`(rate(tee_sampled_cpu_seconds_total{mode!="user"}[15s]) or rate(tee_sampled_cpu_seconds_total{mode!="user"}[1m])) / (rate(tee_sampled_cpu_seconds_total[15s]) or rate(tee_sampled_cpu_seconds_total[1m]))`},
		{"fleet: all machines", query.Scope{Over: "10s"}, `clamp_max(max by (job, instance) ($rate(node_pressure_cpu_waiting_seconds_total)), 1)`,
			strings.ReplaceAll(`clamp_max(max by (job, instance) (rate(node_pressure_cpu_waiting_seconds_total[$over])), 1)`, "$over", "10s")},
		{"parentheses in a matcher", query.Scope{Over: "1m"}, `$rate({__name__=~"tee_sampled_(cpu|wait)_seconds_total",a="\")",b=` + "`\\`" + `}) + 1`,
			`rate({__name__=~"tee_sampled_(cpu|wait)_seconds_total",a="\")",b=` + "`\\`" + `}[1m]) + 1`},
		{"a value that looks like placeholders", query.Scope{Here: `process="$over)$here"`, Over: "1m"}, `$rate(x{$here})`, `rate(x{process="$over)$here"}[1m])`},
		{"unknown", query.Scope{}, `$unknown + $`, `$unknown + $`},
		{"not closed", query.Scope{Over: "1m"}, `$rate(x{a=")"}`, `$rate(x{a=")"}`},
		{"nothing", query.Scope{}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.scope.Expand(tt.text); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestMethods: the methods write what Expand does.
func TestMethods(t *testing.T) {
	s := query.Scope{Here: query.MatchersFor("process", "a \"b\"", "job", "x"), Over: query.PromDuration(90 * time.Second)}
	for _, tt := range []struct{ name, got, want string }{
		{"select", s.Select("m"), `m{process="a \"b\"",job="x"}`},
		{"select more", s.Select("m", "", `k="v"`), `m{process="a \"b\"",job="x",k="v"}`},
		{"select all", query.Scope{}.Select("m"), `m{}`},
		{"rate", s.Rate("m", `k="v"`), s.Expand(`$rate(m{$here,k="v"})`)},
		{"mean", s.Mean("m"), s.Expand(`avg_over_time(m{$here}[$over])`)},
		{"sum", query.SumRate("m", "1m"), `sum(rate(m[1m]))`},
		{"narrow", query.Narrow(`m{a="1"}`, `b="2"`), `m{a="1",b="2"}`},
		{"narrow all", query.Narrow("m{}", `b="2"`), `m{b="2"}`},
		{"narrow a name", query.Narrow("m", `b="2"`), `m{b="2"}`},
		{"labels in order", query.Selector("m", map[string]string{"b": "2", "a": "1"}), `m{a="1",b="2"}`},
		{"labels that are there", query.MatchersOf(map[string]string{"job": "j", "x": "y"}, "job", "instance"), `job="j"`},
		{"machine", query.Machine{Job: "j", Instance: "i"}.Matchers(), `job="j",instance="i"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %s, want %s", tt.got, tt.want)
			}
		})
	}
}

// TestPromDuration: the largest unit that the duration is a whole number of.
func TestPromDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{time.Hour: "60m", 90 * time.Second: "90s", 1500 * time.Millisecond: "1500ms", time.Microsecond: "1ms"} {
		if got := query.PromDuration(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}
