package store_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// TestNotes: an answer reports what its sources did not count in the requested time, and nothing about other sources,
// times and machines.
func TestNotes(t *testing.T) {
	coverage := &metric.Desc{Name: "teescope_source_coverage_ratio", Kind: metric.Gauge, Labels: []string{"source"}, Help: "Coverage."}
	deviation := &metric.Desc{Name: "teescope_source_standard_error_ratio", Kind: metric.Gauge, Labels: []string{"source", "of"}, Help: "Error."}
	blind := &metric.Desc{Name: "teescope_source_blind", Kind: metric.Gauge, Labels: []string{"source", "reason"}, Help: "Blind."}
	o := options(t)
	o.Sources = map[string]string{"tee_syscalls_total": "syscalls", "node_load1": "system"}
	s := open(t, o)
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	now := time.Now().Truncate(time.Second)
	for i := range 121 { // ten minutes; the source is short of time in the last two, and blind in the last
		at := now.Add(time.Duration(i-120) * 5 * time.Second)
		samples := []metric.Sample{call("redis", "read", float64(50*i)), {Desc: load, Value: 1}, {Desc: coverage, Labels: []string{"system"}, Value: 1}}
		share := 1.0
		if i >= 96 {
			share = 0.24
			samples = append(samples, metric.Sample{Desc: deviation, Labels: []string{"syscalls", "rest"}, Value: 0.034}, metric.Sample{Desc: deviation, Labels: []string{"syscalls", "sum"}, Value: 0.012})
		}
		samples = append(samples, metric.Sample{Desc: coverage, Labels: []string{"syscalls"}, Value: share})
		if i >= 108 {
			samples = append(samples, metric.Sample{Desc: blind, Labels: []string{"syscalls", "budget"}, Value: 1})
		}
		must(t, s.Append(at, samples))
	}
	ask := func(path string) []string {
		t.Helper()
		resp, err := http.Get(srv.URL + "/api/v1/" + path)
		must(t, err)
		defer resp.Body.Close()
		var a struct {
			Status   string
			Warnings []string
		}
		must(t, json.NewDecoder(resp.Body).Decode(&a))
		if a.Status != "success" {
			t.Fatalf("%s: %s", path, a.Status)
		}
		return a.Warnings
	}
	query := func(q string, at time.Time) string {
		return fmt.Sprintf("query?time=%d&query=%s", at.Unix(), url.QueryEscape(q))
	}
	early := now.Add(-5 * time.Minute)
	for _, c := range []struct {
		path string
		want []string
	}{
		{query(`rate(tee_syscalls_total[1m])`, now), []string{"24 %", "3.4 %", "no values for part of this time: budget"}},
		{query(`rate(tee_syscalls_total{instance="here"}[30s])`, now.Add(-65*time.Second)), []string{"24 %"}},
		{query(`{__name__=~"tee_.*"}`, now), []string{"24 %"}},
		{fmt.Sprintf("query_range?query=tee_syscalls_total&step=15&start=%d&end=%d", early.Unix(), now.Unix()), []string{"24 %", "budget"}},
		{query(`rate(tee_syscalls_total[1m])`, early), nil},
		{query(`rate(tee_syscalls_total{instance="elsewhere"}[1m])`, now), nil},
		{query(`node_load1`, now), nil},
		{query(store.Rules[0].Record, now), []string{"24 %"}},
	} {
		got := ask(c.path)
		all := strings.Join(got, "\n")
		if (c.want == nil) != (len(got) == 0) {
			t.Errorf("%s: warnings %q", c.path, got)
		}
		for _, w := range c.want {
			if !strings.Contains(all, w) {
				t.Errorf("%s: no %q in %q", c.path, w, got)
			}
		}
	}
}
