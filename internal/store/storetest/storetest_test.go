package storetest_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/storetest"
)

func TestQuery(t *testing.T) {
	s := storetest.Load(t, `
load 15s
  calls_total{process="redis"} 0+150x40
  calls_total{process="nginx"} 0+15x40
  gone                         1 1 stale
`)
	at := time.Unix(600, 0)
	tests := []struct {
		name, expr string
		want       []metric.Point
		wantErr    string
	}{
		{name: "vector", expr: `round(rate(calls_total{process="redis"}[1m]))`,
			want: []metric.Point{{Labels: map[string]string{"process": "redis"}, Value: 10}}},
		{name: "order kept", expr: `sort_desc(sum by (process) (calls_total))`,
			want: []metric.Point{{Labels: map[string]string{"process": "redis"}, Value: 6000}, {Labels: map[string]string{"process": "nginx"}, Value: 600}}},
		{name: "scalar", expr: `scalar(calls_total{process="nginx"})`,
			want: []metric.Point{{Labels: map[string]string{}, Value: 600}}},
		{name: "scalar of nothing", expr: `scalar(absent_metric)`},
		{name: "nothing", expr: `absent_metric`, want: []metric.Point{}},
		{name: "not a number", expr: `calls_total * NaN`, want: []metric.Point{}},
		{name: "stale series is gone", expr: `gone`, want: []metric.Point{}},
		{name: "matrix", expr: `calls_total[1m]`, wantErr: "result is a matrix"},
		{name: "string", expr: `"x"`, wantErr: "result is a string"},
		{name: "syntax", expr: `sum(`, wantErr: "query sum(: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := s.Query(t.Context(), tt.expr, at)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestQueryRange(t *testing.T) {
	st := storetest.Load(t, `load 10s
  a_total{p="x"} 0+10x5
  a_total{p="y"} _ _ 0+5x3
  b NaN NaN NaN`)
	got, err := st.QueryRange(t.Context(), "rate(a_total[20s])", time.Unix(20, 0), time.Unix(40, 0), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got[0].Values) != 3 || got[0].Labels["p"] != "x" || got[0].Values[0] != 1 || !got[0].At[2].Equal(time.Unix(40, 0)) {
		t.Errorf("got %v", got)
	}
	if len(got) == 2 && (len(got[1].Values) == 3 || got[1].Labels["p"] != "y") {
		t.Errorf("a series that began later has values from the start: %v", got[1])
	}
	if got, err := st.QueryRange(t.Context(), "b", time.Unix(0, 0), time.Unix(20, 0), 10*time.Second); err != nil || len(got) != 0 {
		t.Errorf("values that are no numbers: %v, %v", got, err)
	}
	if _, err := st.QueryRange(t.Context(), "sum(", time.Unix(0, 0), time.Unix(20, 0), 10*time.Second); err == nil {
		t.Error("a broken query was answered")
	}
}
