package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/query"
)

// instant reads a time in unix seconds or RFC 3339.
func instant(text string) (time.Time, error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(s) < 1<<40 {
		return time.UnixMicro(int64(math.Round(s * 1e6))), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%q: want a time as unix seconds or like 2006-01-02T15:04:05Z", text)
	}
	return t, nil
}

// span reads the two ends of a span of time; an absent one is the zero time.
func span(q url.Values, from, to string) (start, end time.Time, err error) {
	for name, t := range map[string]*time.Time{from: &start, to: &end} {
		if text := q.Get(name); text != "" {
			if *t, err = instant(text); err != nil {
				return start, end, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if !start.IsZero() && !end.IsZero() && end.Before(start) {
		return start, end, fmt.Errorf("%s is before %s", to, from)
	}
	return start, end, nil
}

// machineOf reads the machine that a request is about; the zero value without one.
func machineOf(q url.Values) query.Machine {
	return query.Machine{Job: q.Get("job"), Instance: q.Get("instance")}
}

// otherParams returns the other parameters.
func otherParams(q url.Values, names ...string) url.Values {
	out := maps.Clone(q)
	for _, n := range names {
		out.Del(n)
	}
	return out
}

// statusOf returns the status that an error asks for, as one of a share of memory does, or else code.
func statusOf(err error, code int) int {
	var s interface{ Status() int }
	if errors.As(err, &s) {
		return s.Status()
	}
	return code
}

// body decodes the single JSON value of a request, of at most limit bytes, into v.
func body(w http.ResponseWriter, r *http.Request, limit int64, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && !errors.Is(d.Decode(new(any)), io.EOF) {
		err = errors.New("more than one JSON value; send only one")
	}
	if err != nil {
		return fmt.Errorf("read body: %w", err)
	}
	return nil
}
