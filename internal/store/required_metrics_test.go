package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/store"
)

func TestReads(t *testing.T) {
	for expr, want := range map[string]string{
		`rate(b_total{x="1"}[1m]) / on (i) a`:        "a b_total",
		`a + a offset 5m`:                            "a",
		`{__name__="a", x="1"} or {__name__=~"b.*"}`: "",
		`vector(1)`: "",
		`absent(up{job="x"}) or up{job="y"} == 0`:      "",
		`absent_over_time(a[5m]) unless on () b`:       "",
		`a unless on () maintenance`:                   "a",
		`a and on () b`:                                "a b",
		`sum(a) or vector(0)`:                          "",
		`(a + b) or (b / c)`:                           "b",
		`max_over_time(rate(a_total[1m])[5m:15s]) > 1`: "a_total",
	} {
		t.Run(expr, func(t *testing.T) {
			got, err := store.Reads(expr)
			if err != nil || strings.Join(got, " ") != want || !slices.IsSorted(got) {
				t.Errorf("%s reads %q, %v; want %q", expr, got, err, want)
			}
		})
	}
	for expr, want := range map[string]string{
		`sum(`:    "parse the expression: 1:5: parse error",
		``:        "parse the expression: unknown position: parse error: no expression found",
		`a[5m]`:   "the expression gives a range vector, want an instant vector",
		`"text"`:  "the expression gives a string, want an instant vector",
		`1 + 1`:   "the expression gives a scalar, want an instant vector",
		`rate(a)`: "parse the expression: 1:6: parse error: expected type range vector",
	} {
		t.Run(expr, func(t *testing.T) {
			if _, err := store.Reads(expr); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v, want %s", expr, err, want)
			}
		})
	}
}
