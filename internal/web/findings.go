package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/analysis"
)

// What GET findings?... answers with at most, and unless limit= says otherwise.
const (
	findingsMost    = 5000
	findingsDefault = 1000
)

// findings answers GET findings: without parameters with what is open and closed
// lately, else with the part of the history that from, to, id, rule, subject, state and
// limit select. subject is a regular expression for the whole of a subject.
func findings(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out := o.Findings()
		if q := r.URL.Query(); o.History != nil && len(q) > 0 {
			f, err := filter(q)
			if err != nil {
				reply(w, o, http.StatusBadRequest, Error{err.Error()})
				return
			}
			if out.Findings, err = o.History(f); err != nil {
				reply(w, o, http.StatusInternalServerError, Error{err.Error()})
				return
			}
		}
		reply(w, o, http.StatusOK, out)
	}
}

// filter reads the parameters of GET findings.
func filter(q url.Values) (f analysis.Filter, err error) {
	for name := range q {
		if !slices.Contains([]string{"from", "to", "id", "rule", "subject", "state", "limit"}, name) {
			return f, fmt.Errorf("%s: no such parameter; there are from, to, id, rule, subject, state and limit", name)
		}
	}
	if f.From, f.To, err = span(q, "from", "to"); err != nil {
		return f, err
	}
	f.ID, f.Rule, f.State, f.Limit = q.Get("id"), q.Get("rule"), analysis.State(q.Get("state")), findingsDefault
	if s := q.Get("subject"); s != "" {
		if f.Subject, err = analysis.Whole(s); err != nil {
			return f, fmt.Errorf("subject: %w", err)
		}
	}
	if f.State != "" && f.State != analysis.Open && f.State != analysis.Closed {
		return f, errors.New("state: want open or closed")
	}
	if l := q.Get("limit"); l != "" {
		if f.Limit, err = strconv.Atoi(l); err != nil || f.Limit < 1 || f.Limit > findingsMost {
			return f, fmt.Errorf("limit: want a number from 1 to %d", findingsMost)
		}
	}
	return f, nil
}
