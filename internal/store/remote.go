package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/store/space"
)

// Remote asks a Prometheus-compatible engine elsewhere: Prometheus, Thanos, Mimir, VictoriaMetrics. It answers what a
// Store answers, and stores nothing. Expressions are evaluated there.
type Remote struct {
	base    *url.URL
	client  *http.Client
	sources map[string]string
	timeout time.Duration
	limit   int64
	running queue
	trouble troubles
}

// RemoteOptions say where an engine is. URL is what /api/v1/query is added to; Client makes the calls.
type RemoteOptions struct {
	URL    string
	Client *http.Client
	// Sources are those of Options.
	Sources map[string]string
	// Query bounds a query, with its timeout and how many run at once.
	Query EngineOptions

	limit int64 // of an answer, in bytes; 0 is remoteLimit
}

// remoteLimit bounds an answer in bytes: some 500,000 values.
const remoteLimit = 16 << 20

// NewRemote checks the URL, and asks nothing yet.
func NewRemote(o RemoteOptions) (*Remote, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want the URL of a Prometheus-compatible engine, without /api/v1, like http://127.0.0.1:9090")
	}
	r := &Remote{base: u, client: o.Client, sources: o.Sources, timeout: o.Query.Timeout, limit: o.limit, running: queue(make(chan struct{}, max(1, o.Query.Concurrent)))}
	if r.limit == 0 {
		r.limit = remoteLimit
	}
	return r, nil
}

// errAway is wrapped by errors of an engine that could not be reached, which may be there later.
var errAway = errors.New("cannot be reached")

// Check asks the engine for a number. It returns nil if it answers, and whether it may answer later if not: an engine
// that is down is no wrong address.
func (r *Remote) Check(ctx context.Context) (later bool, err error) {
	_, err = r.Query(ctx, "vector(1)", time.Now())
	return errors.Is(err, errAway), err
}

// Err returns the trouble of the last call, nil if it was answered.
func (r *Remote) Err() error { return r.trouble.get("engine") }

// answered is an answer of the API.
type answered struct {
	Status   string   `json:"status"`
	Type     string   `json:"errorType"`
	Error    string   `json:"error"`
	Warnings []string `json:"warnings"`
	Infos    []string `json:"infos"`
	Data     struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

// stream is a series of an answer: Value of an instant, Values of a range. Histograms have neither.
type stream struct {
	Metric map[string]string `json:"metric"`
	Value  *pair             `json:"value"`
	Values []pair            `json:"values"`
}

// pair is a time in milliseconds and a value, written as [1690000000.123, "0.5"].
type pair struct {
	t int64
	v float64
}

// UnmarshalJSON reads a pair.
func (p *pair) UnmarshalJSON(b []byte) error {
	list, ok := bytes.CutPrefix(bytes.TrimSpace(b), []byte("["))
	list, end := bytes.CutSuffix(list, []byte("]"))
	at, value, two := bytes.Cut(list, []byte(","))
	t, err := strconv.ParseFloat(string(bytes.TrimSpace(at)), 64)
	v, verr := strconv.ParseFloat(strings.Trim(string(bytes.TrimSpace(value)), `"`), 64)
	if !ok || !end || !two || err != nil || verr != nil || math.IsNaN(t) || math.Abs(t) > 1<<43 {
		return fmt.Errorf("%.60s: want a time and a value", b)
	}
	p.t, p.v = int64(math.Round(t*1000)), v
	return nil
}

// tooLong is the error of a reader at its limit.
type tooLong int64

func (n tooLong) Error() string {
	return fmt.Sprintf("the answer is longer than %s: ask for fewer series or a shorter time", space.Text(int64(n)))
}

// within reads at most n bytes, and then fails.
type within struct {
	io.Reader
	left, n int64
}

func (w *within) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, tooLong(w.n)
	}
	n, err := w.Reader.Read(b[:min(int64(len(b)), w.left)])
	w.left -= int64(n)
	return n, err
}

// call makes a call of the API, within the bounds of time, size and calls at once, and gives the answer to take.
func (r *Remote) call(ctx context.Context, method, name string, form url.Values, take func(*http.Response) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("no whole answer within %v", r.timeout))
	defer cancel()
	if err := r.running.enter(ctx); err != nil {
		return err
	}
	defer r.running.release()
	u := *r.base
	u.Path = path.Join("/", u.Path, "api/v1", name)
	u.RawPath = ""
	shown := printable.URL(&u)
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else {
		u.RawQuery = form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", shown, err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := r.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&within{resp.Body, r.limit, r.limit}, resp.Body}
		err = take(resp)
	} else {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL and its password
		}
		err = fmt.Errorf("%w: %w", errAway, err)
	}
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errAway, context.Cause(ctx))
	}
	var refused *refusedQuery
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("ask %s: %w", shown, err)
		if !errors.Is(ctx.Err(), context.Canceled) { // else the caller went away
			r.trouble.set("engine", err)
		}
		return err
	}
	r.trouble.set("engine", nil)
	return err
}

// refusedQuery is an engine's own error about a query.
type refusedQuery struct{ text string }

func (e *refusedQuery) Error() string { return e.text }

// evaluate asks for an expression, at the steps of a range or at its end if step is 0.
func (r *Remote) evaluate(ctx context.Context, expr string, from, to time.Time, step time.Duration) (a answered, err error) {
	if len(expr) > callLimit {
		return a, fmt.Errorf("the query is longer than %d KiB: shorten it", callLimit>>10)
	}
	name, form := "query", url.Values{"query": {expr}, "timeout": {r.timeout.String()}}
	if step == 0 {
		form.Set("time", unixSeconds(to))
	} else {
		name = "query_range"
		form.Set("start", unixSeconds(from))
		form.Set("end", unixSeconds(to))
		form.Set("step", strconv.FormatFloat(step.Seconds(), 'f', -1, 64))
	}
	err = r.call(ctx, http.MethodPost, name, form, func(resp *http.Response) error {
		err := json.NewDecoder(resp.Body).Decode(&a)
		switch {
		case err == nil && a.Status == "error" && a.Error != "" && resp.StatusCode != http.StatusServiceUnavailable:
			return &refusedQuery{a.Error}
		case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
			return fmt.Errorf("%s: name a user or a token (--query-config)", resp.Status)
		case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
			return fmt.Errorf("%w: %s", errAway, strings.TrimSpace(resp.Status+" "+a.Error))
		case resp.StatusCode != http.StatusOK:
			return fmt.Errorf("%s: no Prometheus-compatible engine answers there: name the URL to which /api/v1/query is added", resp.Status)
		case errors.As(err, new(tooLong)):
			return err
		case err != nil:
			return fmt.Errorf("the answer is not that of Prometheus' API: %w; name the URL to which /api/v1/query is added", err)
		case a.Status != "success":
			return errors.New("the answer is not that of Prometheus' API: it has no status; name the URL to which /api/v1/query is added")
		}
		return nil
	})
	return a, err
}

func unixSeconds(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64)
}

// streams returns the series of an answer; a scalar is one without labels.
func (a answered) streams() ([]stream, error) {
	var list []stream
	var err error
	switch a.Data.Type {
	case "vector", "matrix":
		err = json.Unmarshal(a.Data.Result, &list)
	case "scalar":
		var p pair
		err = json.Unmarshal(a.Data.Result, &p)
		list = []stream{{Metric: map[string]string{}, Value: &p}}
	default:
		err = fmt.Errorf("result is a %q, want a vector or a scalar", a.Data.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("read the engine's answer: %w", err)
	}
	for i := range list {
		if list[i].Metric == nil {
			list[i].Metric = map[string]string{}
		}
	}
	return list, nil
}

// Query is [Store.Query].
func (r *Remote) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	a, err := r.evaluate(ctx, expr, at, at, 0)
	if err == nil && a.Data.Type == "matrix" {
		err = errors.New("result is a matrix, want a vector or a scalar")
	}
	var list []stream
	if err == nil {
		list, err = a.streams()
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	points := make([]metric.Point, 0, len(list))
	for _, s := range list {
		if s.Value != nil && !math.IsNaN(s.Value.v) {
			points = append(points, metric.Point{Labels: s.Metric, Value: s.Value.v})
		}
	}
	return points, nil
}

// QueryRange is [Store.QueryRange].
func (r *Remote) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Series, error) {
	a, err := r.evaluate(ctx, expr, from, to, step)
	var list []stream
	if err == nil {
		list, err = a.streams()
	}
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	var out []metric.Series
	for _, s := range list {
		series := metric.Series{Labels: s.Metric}
		for _, p := range s.Values {
			if !math.IsNaN(p.v) {
				series.At = append(series.At, time.UnixMilli(p.t))
				series.Values = append(series.Values, p.v)
			}
		}
		if len(series.Values) > 0 {
			out = append(out, series)
		}
	}
	return out, nil
}

// Steps is [Store.Steps].
func (r *Remote) Steps(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error) {
	a, err := r.evaluate(ctx, expr, from, to, step)
	if err != nil {
		return nil, nil, err
	}
	if step == 0 && a.Data.Type == "matrix" {
		return nil, nil, errors.New("the query gives a range vector; pages show instant vectors and scalars, as of rate(...)")
	}
	list, err := a.streams()
	if err != nil {
		return nil, nil, err
	}
	var lines []metric.Line
	for _, s := range list {
		switch {
		case step == 0 && s.Value != nil:
			lines = append(lines, metric.Line{Labels: s.Metric, Values: []float64{s.Value.v}})
		case step > 0 && len(s.Values) > 0:
			lines = append(lines, s.onGrid(from, to, step))
		}
	}
	return lines, slices.Concat(a.Warnings, a.Infos), nil
}

// onGrid returns a value for each step, NaN where the series has none.
func (s stream) onGrid(from, to time.Time, step time.Duration) metric.Line {
	l := metric.Line{Labels: s.Metric, Values: make([]float64, int(to.Sub(from)/step)+1)}
	for i := range l.Values {
		l.Values[i] = math.NaN()
	}
	first, end := len(l.Values), 0
	for _, p := range s.Values {
		if i := int((p.t - from.UnixMilli()) / step.Milliseconds()); i >= 0 && i < len(l.Values) {
			l.Values[i] = p.v
			first, end = min(first, i), max(end, i+1)
		}
	}
	if first >= end {
		return metric.Line{Labels: s.Metric}
	}
	l.Skip, l.Values = first, slices.Clone(l.Values[first:end])
	return l
}

// Notes is [Store.Notes], from what the engine has about the sources.
func (r *Remote) Notes(ctx context.Context, expr string, from, to time.Time) []string {
	all, _ := selectors(expr, from)
	var out []string
	asked := map[string]bool{}
	for _, v := range all {
		var where []string
		for _, m := range v.matchers {
			if m.Name == "instance" || m.Name == "job" {
				where = append(where, m.String())
			}
		}
		for _, m := range v.matchers {
			if m.Name != model.MetricNameLabel {
				continue
			}
			for _, source := range sourcesOf(r.sources, m) {
				here := "{" + strings.Join(append([]string{fmt.Sprintf("source=%q", source)}, where...), ",") + "}" +
					fmt.Sprintf("[%dms]", max(1, to.Sub(v.from).Milliseconds()))
				if asked[here] {
					continue
				}
				asked[here] = true
				for _, err := range r.notesOf(ctx, source, here, to) {
					if text := err.Error(); !slices.Contains(out, text) {
						out = append(out, text)
					}
				}
			}
		}
	}
	return out
}

// notesOf asks what a source did not count in the range that here selects.
func (r *Remote) notesOf(ctx context.Context, source, here string, to time.Time) []error {
	one := func(expr string, none float64) float64 {
		points, err := r.Query(ctx, expr, to)
		if err != nil || len(points) == 0 {
			return none // the query itself returns the same error
		}
		return points[0].Value
	}
	coverage := one("min(min_over_time("+coverageSeries+here+"))", 1)
	deviation := 0.0
	if coverage < 1 {
		deviation = one("max(max_over_time("+errorSeries+here+"))", 0)
	}
	var blind []string
	points, _ := r.Query(ctx, "count by (reason) (max_over_time("+blindSeries+here+"))", to)
	for _, p := range points {
		blind = append(blind, p.Labels["reason"])
	}
	slices.Sort(blind)
	return notesOn(source, coverage, deviation, blind)
}

// Handler passes the reading calls of the Prometheus HTTP API on, with this program's credentials.
func (r *Remote) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, name := range []string{"query", "query_range", "query_exemplars", "series", "labels"} {
		mux.HandleFunc("/api/v1/"+name, r.pass(http.MethodPost))
	}
	for _, name := range []string{"label/{name}/values", "metadata", "targets", "rules", "alerts", "status/buildinfo"} {
		mux.HandleFunc("GET /api/v1/"+name, r.pass(http.MethodGet))
	}
	return bounded(mux)
}

func (r *Remote) pass(method string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		begun := false
		err := r.call(req.Context(), method, strings.TrimPrefix(req.URL.Path, "/api/v1/"), req.Form, func(resp *http.Response) error {
			if resp.StatusCode/100 == 3 {
				return fmt.Errorf("%s: name the URL to which it leads", resp.Status)
			}
			begun = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(resp.StatusCode)
			_, err := io.Copy(w, resp.Body)
			return err
		})
		switch {
		case err == nil:
		case begun:
			panic(http.ErrAbortHandler) // a part of an answer is none
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_ = json.NewEncoder(w).Encode(answered{Status: "error", Type: "unavailable", Error: err.Error()})
		}
	}
}
