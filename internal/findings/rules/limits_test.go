package rules

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/store/storetest"
)

// TestLimitsBySubject: each subject is compared with its own limit, higher or lower than the others'.
func TestLimitsBySubject(t *testing.T) {
	st := storetest.Load(t, `load 5s
  tee_syscalls_total{job="teescope",instance="vm1",process="redis-server",syscall="futex"} 0+100000x120
  tee_syscalls_total{job="teescope",instance="vm1",process="nginx",syscall="futex"} 0+100000x120
  tee_syscalls_total{job="teescope",instance="vm1",process="cron",syscall="futex"} 0+5000x120
  tee_syscalls_total{job="teescope",instance="vm1",process="sshd",syscall="futex"} 0+5000x120
`)
	at := time.Unix(600, 0)
	o := findings.DefaultOptions()
	o.Now, o.Started = func() time.Time { return at }, time.Unix(0, 0)
	limit := func(pattern string, v float64) findings.Limit {
		return findings.Limit{Rule: "syscall_storm", Threshold: "rate", Subject: regexp.MustCompile("^(?:" + pattern + ")$"), Value: v}
	}
	o.Limits = []findings.Limit{limit("redis.*", 50_000), limit("cron", 500)}
	e := findings.New([]*findings.Rule{syscallStorm}, st, o)
	e.Evaluate(t.Context())
	var got []string
	for _, r := range e.Records() {
		got = append(got, r.Subject)
	}
	slices.Sort(got)
	if want := []string{"cron", "nginx"}; !slices.Equal(got, want) {
		t.Errorf("storms of %q, want %q: at 20,000/s redis-server is below its 50,000 and nginx above the 10,000 of all; at 1,000/s cron is above its 500", got, want)
	}
}

// TestWilson: the numbers match the textbook formula, and the interval of an extreme share stays within 0 and 1.
func TestWilson(t *testing.T) {
	for _, tt := range []struct{ share, n, low, high float64 }{
		{0.5, 100, 0.4038, 0.5962},
		{0.1, 10, 0.0179, 0.4042},
		{0, 50, 0, 0.0713},
		{1, 50, 0.9287, 1},
	} {
		got := wilson(tt.share, tt.n)
		if d := max(got[0]-tt.low, tt.low-got[0], got[1]-tt.high, tt.high-got[1]); d > 1e-4 {
			t.Errorf("wilson(%v, %v) = %.4f, want %.4f to %.4f", tt.share, tt.n, got, tt.low, tt.high)
		}
	}
}

func TestGroupName(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"shop/web-0/app":     {"id": "/x", "name": "1f", "namespace": "shop", "pod": "web-0", "container": "app"},
		"shop/web-0/sandbox": {"id": "/x", "name": "1f", "namespace": "shop", "pod": "web-0"},
		"shop/web-0/pod":     {"id": "/x", "namespace": "shop", "pod": "web-0"},
		"unknown: 0f1e/pod":  {"id": "/x", "pod": "unknown: 0f1e"},
		"1f":                 {"id": "/x", "name": "1f"},
		"/x":                 {"id": "/x"},
	} {
		t.Run(want, func(t *testing.T) {
			if got := groupName(labels); got != want {
				t.Errorf("%v: %q, want %q", labels, got, want)
			}
		})
	}
}
