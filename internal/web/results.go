package web

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

// errNoResults refuses an empty comparison.
var errNoResults = errors.New("name the results to compare, as ?id=A&id=B")

// results serves the list of results. For one result (results/ID) or several side by side (comparisons?id=A&id=B) it
// serves the document, its origin, its explanation, its drawings and its tables.
func results(mux *routes, o Options) {
	get(mux, o, "words", func(context.Context, query.Machine) (report.Words, error) { return report.Vocabulary(), nil })
	get(mux, o, "results", func(context.Context, query.Machine) (Results, error) { return o.Results(), nil })
	view := func(r *http.Request) report.View {
		q := r.URL.Query()
		return report.View{Case: q.Get("case"), Metric: q.Get("metric")}
	}
	for name, of := range map[string]func(*result.Experiment, *http.Request) any{
		"": func(e *result.Experiment, _ *http.Request) any { return e },
		"/origin": func(_ *result.Experiment, r *http.Request) any {
			if id := r.PathValue("id"); id != "" {
				return o.Origin([]string{id})
			}
			return o.Origin(r.URL.Query()["id"])
		},
		"/explanation": func(e *result.Experiment, _ *http.Request) any { return ResultExplanation{o.ResultTrees(e)} },
		"/drawings":    func(e *result.Experiment, r *http.Request) any { return Drawings{report.Drawings(e, view(r))} },
		"/tables":      func(e *result.Experiment, r *http.Request) any { return Tables{report.Tables(e, view(r))} },
	} {
		serve := func(path string, read func(*http.Request) (*result.Experiment, error)) {
			mux.HandleFunc("GET /api/teescope/v1/"+path+name, func(w http.ResponseWriter, r *http.Request) {
				e, err := read(r)
				switch {
				case errors.Is(err, errNoResults):
					reply(w, o, http.StatusBadRequest, Error{err.Error()})
				case errors.Is(err, fs.ErrNotExist):
					reply(w, o, http.StatusNotFound, Error{err.Error()})
				case err != nil: // results that cannot be compared: the reason is the answer
					reply(w, o, statusOf(err, http.StatusUnprocessableEntity), Error{err.Error()})
				default:
					reply(w, o, http.StatusOK, of(e, r))
				}
			})
		}
		serve("results/{id}", func(r *http.Request) (*result.Experiment, error) { return o.Result(r.PathValue("id")) })
		serve("comparisons", func(r *http.Request) (*result.Experiment, error) {
			ids := r.URL.Query()["id"]
			if len(ids) == 0 {
				return nil, errNoResults
			}
			return o.Compare(ids)
		})
	}
}
