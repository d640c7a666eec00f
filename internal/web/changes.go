package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/findings/anomaly"
)

// compareFor is the time limit of a comparison; its answer is what it has found by then.
const compareFor = 20 * time.Second

// changes adds GET changes?from=TIME&to=TIME&beforeFrom=TIME&beforeTo=TIME, with process= as a regular expression
// (unanchored), top= as the number of changes, and job= and instance= for one machine, and GET distributions?query=PROMQL&from=TIME&to=TIME&windows=N.
func changes(mux *routes, o Options) {
	// One at a time: a comparison reads an hour of all series, on the host of the workload.
	turn := make(chan struct{}, 1)
	serve := func(name string, answer func(context.Context, url.Values) (any, error)) {
		mux.HandleFunc("GET /api/teescope/v1/"+name, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), compareFor)
			defer cancel()
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-ctx.Done():
				reply(w, o, http.StatusServiceUnavailable, Error{name + ": another comparison is running; try again when it is done"})
				return
			}
			v, err := answer(ctx, r.URL.Query())
			switch {
			case errors.As(err, new(badParameter)):
				reply(w, o, http.StatusBadRequest, Error{err.Error()})
			case err != nil:
				reply(w, o, http.StatusUnprocessableEntity, Error{err.Error()})
			default:
				reply(w, o, http.StatusOK, v)
			}
		})
	}
	serve("changes", func(ctx context.Context, q url.Values) (any, error) {
		after, err := window(q, "from", "to")
		if err != nil {
			return nil, err
		}
		before, err := window(q, "beforeFrom", "beforeTo")
		if err != nil {
			return nil, err
		}
		co := anomaly.Options{Process: q.Get("process"), Machine: machineOf(q)}
		if _, err := regexp.Compile(co.Process); err != nil {
			return nil, badParameter{"process", err}
		}
		if co.Top, err = number(q, "top", 0, 1000); err != nil {
			return nil, err
		}
		return o.Changes(ctx, before, after, co)
	})
	serve("distributions", func(ctx context.Context, q url.Values) (any, error) {
		w, err := window(q, "from", "to")
		if err != nil {
			return nil, err
		}
		if q.Get("query") == "" {
			return nil, badParameter{"query", errors.New("want a PromQL expression")}
		}
		n, err := number(q, "windows", 1, anomaly.MaxWindows)
		if err != nil {
			return nil, err
		}
		boxes, err := o.Boxes(ctx, q.Get("query"), w.From, w.To, n)
		return Distributions{Boxes: boxes}, err
	})
}

// badParameter is an invalid parameter of a request.
type badParameter struct {
	name string
	err  error
}

func (b badParameter) Error() string { return b.name + ": " + b.err.Error() }

// window reads a span of time; both ends are required.
func window(q url.Values, from, to string) (w anomaly.Window, err error) {
	if w.From, w.To, err = span(q, from, to); err != nil {
		return w, badParameter{"times", err}
	}
	if w.From.IsZero() || w.To.IsZero() {
		return w, badParameter{from + " and " + to, errors.New("give both times, as Unix seconds or like 2006-01-02T15:04:05Z")}
	}
	return w, nil
}

// number reads a whole number from least to most; the default is least.
func number(q url.Values, name string, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return least, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badParameter{name, fmt.Errorf("%q: want a number from %d to %d", text, least, most)}
	}
	return n, nil
}
