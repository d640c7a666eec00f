// Package client asks a monitor, for the commands that show what it knows.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/web"
)

// Backend answers what explain and top ask: a monitor, this program from the series of an engine, or a monitor in this
// process.
type Backend struct {
	// Where says who answers, for a reader.
	Where    string
	Findings func(ctx context.Context) (web.Findings, error)
	Platform func(ctx context.Context) (web.Platform, error)
	Overhead func(ctx context.Context) (web.Overhead, error)
	Query    func(ctx context.Context, expr string, at time.Time) ([]metric.Point, error)
	Lines    func(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error)
	// Tree explains a process, per "second" or "request".
	Tree func(ctx context.Context, s Subject, per string, from, to time.Time) (web.Explanation, error)
	// Span is the time that rates can be taken over: from the first reading, or when the observation began, until the last
	// reading. A zero time is not known; then rates end now.
	Span func(p web.Platform) (from, until time.Time)
	// Draw runs what draws its answers. In this process that must not count as the cost of measuring.
	Draw func(func())
	// Lacks says what is not read, and what would help; "" for nothing, or where only the monitor knows it.
	Lacks func() string
}

// Subject is a process of a machine.
type Subject struct{ Process, Instance string }

// SpanMargin is what a window has before the first reading, which is else outside: windows are open on the left. A counter
// from 0 has not counted there, so its first rates are too low by this part.
const SpanMargin = 2 * time.Millisecond

// answer is the Prometheus API's answer to a query, with values at one time or at several.
type answer struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]json.RawMessage // seconds, and the value as a string
			Values [][2]json.RawMessage
		}
	}
}

// points are the values of an instant query.
func (a answer) points() ([]metric.Point, error) {
	var out []metric.Point
	for _, r := range a.Data.Result {
		v, err := parseValue(r.Value[1])
		if err != nil {
			return nil, fmt.Errorf("a value of %v: %w", r.Metric, err)
		}
		out = append(out, metric.Point{Labels: r.Metric, Value: v})
	}
	return out, nil
}

// lines are the values of a range query.
func (a answer) lines() ([]metric.Series, error) {
	var out []metric.Series
	for _, r := range a.Data.Result {
		s := metric.Series{Labels: r.Metric}
		for _, p := range r.Values {
			at, err := parseValue(p[0])
			if err != nil {
				return nil, fmt.Errorf("a time of %v: %w", r.Metric, err)
			}
			v, err := parseValue(p[1])
			if err != nil {
				return nil, fmt.Errorf("a value of %v: %w", r.Metric, err)
			}
			s.At, s.Values = append(s.At, time.UnixMilli(int64(at*1000))), append(s.Values, v)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseValue(text json.RawMessage) (float64, error) {
	return strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
}

// Monitor is the monitor at a URL.
func Monitor(base *url.URL) Backend {
	const own = "api/teescope/v1/"
	query := func(ctx context.Context, name string, parameters url.Values) (a answer, u *url.URL, err error) {
		u = base.JoinPath("api/v1", name)
		u.RawQuery = parameters.Encode()
		err = GetJSON(ctx, u, &a)
		return a, u, err
	}
	unread := func(u *url.URL, err error) error {
		if err != nil {
			err = fmt.Errorf("read the monitor's answer from %s: %w; is a teescope monitor at this address?", printable.URL(u), err)
		}
		return err
	}
	return Backend{
		Where: printable.URL(base),
		Findings: func(ctx context.Context) (f web.Findings, err error) {
			err = GetJSON(ctx, base.JoinPath(own, "findings"), &f)
			if f.Problems == nil { // of a monitor of an earlier version
				f = f.WithSummary(time.Time{})
			}
			return f, err
		},
		Platform: func(ctx context.Context) (p web.Platform, err error) {
			err = GetJSON(ctx, base.JoinPath(own, "platform"), &p)
			return p, err
		},
		Overhead: func(ctx context.Context) (o web.Overhead, err error) {
			err = GetJSON(ctx, base.JoinPath(own, "overhead"), &o)
			return o, err
		},
		Query: func(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
			a, u, err := query(ctx, "query", url.Values{"query": {expr}, "time": {at.Format(time.RFC3339Nano)}})
			if err != nil {
				return nil, err
			}
			points, err := a.points()
			return points, unread(u, err)
		},
		Lines: func(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
			a, u, err := query(ctx, "query_range", url.Values{"query": {expr}, "start": {from.Format(time.RFC3339Nano)}, "end": {to.Format(time.RFC3339Nano)}, "step": {fmt.Sprint(step.Seconds())}})
			if err != nil {
				return nil, err
			}
			lines, err := a.lines()
			return lines, unread(u, err)
		},
		Tree: func(ctx context.Context, s Subject, per string, from, to time.Time) (e web.Explanation, err error) {
			u := base.JoinPath(own, "explain")
			u.RawQuery = url.Values{
				"process": {s.Process}, "instance": {s.Instance}, "per": {per},
				"from": {from.Format(time.RFC3339Nano)}, "to": {to.Format(time.RFC3339Nano)},
			}.Encode()
			err = GetJSON(ctx, u, &e)
			return e, err
		},
		Span:  func(p web.Platform) (from, until time.Time) { return p.Started, time.Time{} },
		Draw:  func(f func()) { f() },
		Lacks: func() string { return "" },
	}
}

// MonitorAnswers reports whether a monitor answers at the address where one is expected; false is that nothing listens there, or
// an agent, which has no findings. What else does not answer as a monitor is an error: it may be one that asks for a password, or is slow.
func MonitorAnswers(ctx context.Context, base *url.URL) (bool, error) {
	var f web.Findings
	err := GetJSON(ctx, base.JoinPath("api/teescope/v1/findings"), &f)
	var no *Refused
	if NothingListens(err) || errors.As(err, &no) && no.Other {
		return false, nil
	}
	return err == nil, err
}

// NothingListens reports whether connecting failed because nothing listens. A machine whose loopback device is down says that
// its network is unreachable.
func NothingListens(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH)
}
