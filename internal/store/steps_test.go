package store_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// TestSteps: a page gets the same values and warnings as a user of the API.
func TestSteps(t *testing.T) {
	o := store.DefaultOptions()
	o.Dir, o.RuleInterval = t.TempDir(), time.Hour
	o.Sources = map[string]string{"calls_total": "syscalls"}
	s, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	calls := &metric.Desc{Name: "calls_total", Kind: metric.Counter, Labels: []string{"process"}}
	coverage := &metric.Desc{Name: "teescope_source_coverage_ratio", Kind: metric.Gauge, Labels: []string{"source"}}
	end := time.Now().Truncate(5 * time.Second)
	for i := range 60 {
		round := []metric.Sample{{Desc: calls, Labels: []string{"redis"}, Value: float64(i * i)}, {Desc: coverage, Labels: []string{"syscalls"}, Value: 0.25}}
		if i > 30 {
			round = append(round, metric.Sample{Desc: calls, Labels: []string{"late"}, Value: float64(i)})
		}
		if err := s.Append(end.Add(time.Duration(i-59)*5*time.Second), round); err != nil {
			t.Fatal(err)
		}
	}
	h := s.Handler()
	type row struct {
		Metric map[string]string
		Values [][2]any
		Value  [2]any
	}
	api := func(call string, p url.Values) (rows []row, warnings []string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/"+call+"?"+p.Encode(), nil))
		var a struct {
			Data     struct{ Result []row }
			Warnings []string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return a.Data.Result, a.Warnings
	}
	from := end.Add(-5 * time.Minute)
	for _, expr := range []string{`sum by (process) (rate(calls_total[20s]))`, `calls_total`, `calls_total / 0`, `absent_of_all`, `vector(1)`} {
		want, warned := api("query_range", url.Values{"query": {expr}, "start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(end.Unix())}, "step": {"5"}})
		got, _, err := s.Steps(t.Context(), expr, from, end, 5*time.Second)
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %d lines, want %d, %v", expr, len(got), len(want), err)
			continue
		}
		for i, r := range want {
			values := slices.Repeat([]float64{math.NaN()}, 61)
			for _, v := range r.Values {
				n, _ := strconv.ParseFloat(v[1].(string), 64)
				values[int(v[0].(float64)-float64(from.Unix()))/5] = n
			}
			var have []float64
			for step := range values {
				have = append(have, got[i].At(step))
			}
			if fmt.Sprint(got[i].Labels) != fmt.Sprint(r.Metric) || fmt.Sprint(have) != fmt.Sprint(values) {
				t.Errorf("%s: line %d is\n%v, want\n%v", expr, i, got[i], values)
			}
		}
		if notes := s.Notes(t.Context(), expr, from, end); !slices.Equal(notes, warned) {
			t.Errorf("%s: notes %q, the API has %q", expr, notes, warned)
		}
		one, warned := api("query", url.Values{"query": {expr}, "time": {fmt.Sprint(end.Unix())}})
		at, _, err := s.Steps(t.Context(), expr, end, end, 0)
		if err != nil || len(at) != len(one) {
			t.Errorf("%s at one time: %v, want %v, %v", expr, at, one, err)
			continue
		}
		for i, r := range one {
			if v, _ := strconv.ParseFloat(r.Value[1].(string), 64); fmt.Sprint(at[i].Labels) != fmt.Sprint(r.Metric) || at[i].Values[0] != v {
				t.Errorf("%s at one time: %v, want %v", expr, at[i], r)
			}
		}
		if strings.Contains(expr, "rate") && len(warned) != 1 {
			t.Errorf("the API's warnings are %q", warned)
		}
	}
	for _, bad := range []string{"sum(", "calls_total[1m]", `"text"`, strings.Repeat("(", 70_000)} {
		if _, _, err := s.Steps(t.Context(), bad, end, end, 0); err == nil {
			t.Errorf("%.20s is accepted", bad)
		}
		if n := s.Notes(t.Context(), bad, from, end); len(bad) < 100 && n != nil && bad != "calls_total[1m]" {
			t.Errorf("%s has notes %q", bad, n)
		}
	}
}
