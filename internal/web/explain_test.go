package web

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
)

func TestExplain(t *testing.T) {
	var asked explain.Question
	h := served(func(o *Options) {
		o.Explain = func(_ context.Context, q explain.Question) (Explanation, error) {
			asked = q
			switch q.Process {
			case "gone":
				return Explanation{}, &explain.Refusal{NotFound: true, Reason: `no process "gone"`}
			case "two":
				return Explanation{}, &explain.Refusal{Reason: "several machines"}
			case "broken":
				return Explanation{}, errors.New("the store is closed")
			}
			return Explanation{Tree: explain.Tree{Subject: q.Process}, Causes: []explain.FoundCause{{Rule: "lock_contention"}}}, nil
		}
	})
	for _, c := range []struct {
		query string
		code  int
		want  string
	}{
		{"process=redis-server", 200, `"rule":"lock_contention"`},
		{"", 400, "explain?process=NAME"},
		{"process=x&per=hour", 400, "second or request"},
		{"process=x&from=yesterday", 400, `from: \"yesterday\": want a time`},
		{"process=x&to=NaN", 400, `to: \"NaN\"`},
		{"process=x&to=1e300", 400, `to: \"1e300\"`},
		{"process=gone", 404, "no process"},
		{"process=two", 400, "several machines"},
		{"process=broken", 500, "the store is closed"},
	} {
		t.Run(c.query, func(t *testing.T) {
			w := do(h, "GET", "/api/teescope/v1/explain?"+c.query, "")
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s: %d %s, want %d with %s", c.query, w.Code, w.Body, c.code, c.want)
			}
		})
	}
	do(h, "GET", "/api/teescope/v1/explain?process=a+b&instance=vm1&from=1000.5&to=2026-03-01T14:02:15%2B01:00&per=request", "")
	want := explain.Question{Process: "a b", Instance: "vm1", From: time.Unix(1000, 5e8), To: time.Date(2026, 3, 1, 13, 2, 15, 0, time.UTC), PerRequest: true}
	if asked.Process != want.Process || asked.Instance != want.Instance || !asked.From.Equal(want.From) || !asked.To.Equal(want.To) || !asked.PerRequest {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
}
