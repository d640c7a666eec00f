package web

import (
	"errors"
	"net/http"

	"github.com/teescope/teescope/internal/findings"
)

// SilenceKeeper holds the silences of findings.
type SilenceKeeper interface {
	List() []findings.Silence
	// Add starts a silence under a new id.
	Add(findings.Silence) (findings.Silence, error)
	// Remove ends one; its error wraps findings.ErrNoSilence when there is none. Errors
	// of both wrap ErrNotKept when the change could not be stored.
	Remove(id string) error
}

// silences adds the routes of the silences. Each answers with the silences in force after the request.
func silences(mux *routes, o Options) {
	const at = "/api/teescope/v1/silences"
	answer := func(w http.ResponseWriter, err error) {
		switch {
		case errors.Is(err, findings.ErrNoSilence):
			reply(w, o, http.StatusNotFound, Error{err.Error()})
		case errors.Is(err, ErrNotKept):
			reply(w, o, http.StatusInsufficientStorage, Error{err.Error()})
		case err != nil:
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
		default:
			reply(w, o, http.StatusOK, Silences{o.Silences.List()})
		}
	}
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("POST "+at, func(w http.ResponseWriter, r *http.Request) {
		var s findings.Silence
		err := body(w, r, 1<<14, &s)
		if err == nil {
			who, _ := o.Authority.Find(r)
			s.Author = who.Name // whatever the client says
			_, err = o.Silences.Add(s)
		}
		answer(w, err)
	})
	mux.HandleFunc("DELETE "+at+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, o.Silences.Remove(r.PathValue("id")))
	})
}
