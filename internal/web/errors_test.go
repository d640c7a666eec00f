package web

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/result"
)

// noKeeper keeps no silences.
type noKeeper struct{ err error }

func (noKeeper) List() []findings.Silence                         { return nil }
func (k noKeeper) Add(findings.Silence) (findings.Silence, error) { return findings.Silence{}, k.err }
func (k noKeeper) Remove(string) error                            { return k.err }
func (noKeeper) Dashboards() Dashboards                           { return Dashboards{} }
func (k noKeeper) SetDashboards([]Dashboard) error                { return k.err }

// TestStatuses: the status of an answer is that of the error it wraps, however deep.
func TestStatuses(t *testing.T) {
	other := errors.New("anything else")
	for _, tc := range []struct {
		err  error
		want map[string]int // status by request
	}{
		{ErrNotFound, map[string]int{"POST sources/syscalls": 404, "GET platform": 404}},
		{&explain.Refusal{Reason: "x", NotFound: true}, map[string]int{"GET explain?process=a": 404}},
		{&explain.Refusal{Reason: "x"}, map[string]int{"GET explain?process=a": 400}},
		{findings.ErrNoSilence, map[string]int{"DELETE silences/1": 404}},
		{ErrNotKept, map[string]int{"POST silences": 507, "DELETE silences/1": 507, "PUT dashboards": 507}},
		{errChanged, map[string]int{"PUT dashboards": 412}},
		{fs.ErrNotExist, map[string]int{"GET results/a": 404}},
		{errNoResults, map[string]int{"GET results/a": 400}},
		{other, map[string]int{"POST sources/syscalls": 400, "GET explain?process=a": 500, "DELETE silences/1": 400, "PUT dashboards": 400, "GET results/a": 422}},
	} {
		err := fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", tc.err))
		h := served(func(o *Options) {
			o.SetSource = func(string, probe.Setting) error { return err }
			o.Platform = func(context.Context, query.Machine) (Platform, error) { return Platform{}, err }
			o.Explain = func(context.Context, explain.Question) (Explanation, error) { return Explanation{}, err }
			o.Silences, o.Dashboards = noKeeper{err}, noKeeper{err}
			o.Result = func(string) (*result.Experiment, error) { return nil, err }
		})
		for request, want := range tc.want {
			method, path, _ := strings.Cut(request, " ")
			body := map[string]string{http.MethodPut: `{"dashboards":[]}`, http.MethodPost: `{}`}[method]
			got := do(h, method, "/api/teescope/v1/"+path, body, "Content-Type", "application/json")
			if got.Code != want || !strings.Contains(got.Body.String(), "outer: inner: ") {
				t.Errorf("%s with %v: %d %s, want %d", request, tc.err, got.Code, got.Body, want)
			}
		}
	}
}
