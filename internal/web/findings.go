package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/teescope/teescope/internal/findings"
)

// The largest and the default limit= of GET findings.
const (
	findingsMost    = 5000
	findingsDefault = 1000
)

// serveFindings answers GET findings. Without parameters it returns the open and the recently closed findings,
// otherwise the part of the history that from, to, id, rule, subject, state and limit select. subject is a regular
// expression that matches a whole subject. job and instance select those of one machine. as=markdown returns the selected findings as
// a text.
func serveFindings(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		on := machineOf(q)
		out, err := o.Findings(r.Context(), on)
		if err != nil {
			refuse(w, o, err)
			return
		}
		if o.History != nil && len(otherParams(q, "job", "instance")) > 0 {
			f, err := filter(q)
			if err != nil {
				reply(w, o, http.StatusBadRequest, Error{err.Error()})
				return
			}
			if out.Findings, err = o.History(r.Context(), f); err != nil {
				reply(w, o, http.StatusInternalServerError, Error{err.Error()})
				return
			}
		}
		if q.Get("as") == "markdown" {
			w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
			for _, r := range out.Findings {
				fmt.Fprintln(w, r.Markdown())
			}
			return
		}
		reply(w, o, http.StatusOK, out)
	}
}

// filter reads the parameters of GET findings.
func filter(q url.Values) (f findings.Filter, err error) {
	for name := range q {
		if !slices.Contains([]string{"from", "to", "id", "rule", "subject", "state", "limit", "job", "instance", "as"}, name) {
			return f, fmt.Errorf("%s: no such parameter; want from, to, id, rule, subject, state, limit, job, instance or as", name)
		}
	}
	if as := q.Get("as"); as != "" && as != "markdown" {
		return f, fmt.Errorf("as: %q: want markdown", as)
	}
	if f.From, f.To, err = span(q, "from", "to"); err != nil {
		return f, err
	}
	f.Machine = machineOf(q)
	f.ID, f.Rule, f.State, f.Limit = q.Get("id"), q.Get("rule"), findings.State(q.Get("state")), findingsDefault
	if s := q.Get("subject"); s != "" {
		if f.Subject, err = findings.Whole(s); err != nil {
			return f, fmt.Errorf("subject: %w", err)
		}
	}
	if f.State != "" && f.State != findings.Open && f.State != findings.Closed {
		return f, fmt.Errorf("state: %q: want open or closed", f.State)
	}
	if l := q.Get("limit"); l != "" {
		if f.Limit, err = strconv.Atoi(l); err != nil || f.Limit < 1 || f.Limit > findingsMost {
			return f, fmt.Errorf("limit: %q: want a number from 1 to %d", l, findingsMost)
		}
	}
	return f, nil
}
