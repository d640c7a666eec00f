package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/teescope/teescope/internal/explain"
)

// serveExplanation answers GET explain?process=NAME; job, instance, from, to and per may be left out.
func serveExplanation(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := question(r)
		if err != nil {
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
			return
		}
		e, err := o.Explain(r.Context(), q)
		var refusal *explain.Refusal
		switch {
		case errors.As(err, &refusal) && refusal.NotFound:
			reply(w, o, http.StatusNotFound, Error{err.Error()})
		case errors.As(err, &refusal):
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
		case err != nil:
			reply(w, o, http.StatusInternalServerError, Error{err.Error()})
		default:
			reply(w, o, http.StatusOK, e)
		}
	}
}

// question reads the parameters; absent ones stay zero.
func question(r *http.Request) (explain.Question, error) {
	v := r.URL.Query()
	q := explain.Question{Process: v.Get("process"), Job: v.Get("job"), Instance: v.Get("instance")}
	if q.Process == "" {
		return q, errors.New("name a process: explain?process=NAME")
	}
	switch per := v.Get("per"); per {
	case "", "second":
	case "request":
		q.PerRequest = true
	default:
		return q, fmt.Errorf("per=%q: want second or request", per)
	}
	var err error
	q.From, q.To, err = span(v, "from", "to")
	return q, err
}
