package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/metric"
)

const (
	// maxQueries and queriesLimit bound one call: the longest page has some 60 charts.
	maxQueries   = 200
	queriesLimit = 256 << 10
)

// queries adds POST queries: many PromQL expressions in one call. The answer has a line of JSON, an Answer, for each
// expression, in the order in which they are ready. The line of a failed query has its error.
func queries(mux *routes, o Options) {
	mux.HandleFunc("POST /api/teescope/v1/queries", func(w http.ResponseWriter, r *http.Request) {
		var asked Queries
		err := body(w, r, queriesLimit, &asked)
		if errors.As(err, new(*http.MaxBytesError)) {
			reply(w, o, http.StatusRequestEntityTooLarge, Error{fmt.Sprintf("the request is longer than %d KiB; send fewer queries at once", queriesLimit>>10)})
			return
		}
		list, e := asked.feed()
		if err = errors.Join(err, e); err != nil {
			reply(w, o, statusOf(err, http.StatusBadRequest), Error{err.Error()})
			return
		}
		out := lines{w: w, out: http.NewResponseController(w)}
		err = o.Query(r.Context(), list, func(i int, a feed.Answer, err error) {
			out.add(i, list[i], a, err)
		}, out.flush)
		if err == nil {
			out.refuseUnanswered(o)
		}
		if err = errors.Join(err, out.gone); err != nil && o.Logger != nil {
			o.Logger.Debug("answer queries", "error", err) // the page went away
		}
	})
}

// lines are the answers of one call. Refusals wait for the first answer that is none: if all are refused, the call is.
type lines struct {
	w       http.ResponseWriter
	out     *http.ResponseController
	begun   bool
	held    []byte
	refused error // the first refusal
	gone    error
}

// add sends the line of a query.
func (l *lines) add(i int, q feed.Query, a feed.Answer, err error) {
	if !l.begun && statusOf(err, 0) != 0 {
		if l.refused == nil {
			l.refused = err
		}
		var b bytes.Buffer
		_ = writeAnswer(&b, i, q, a, err) // memory takes all
		l.held = append(l.held, b.Bytes()...)
		return
	}
	l.begin()
	l.gone = errors.Join(l.gone, writeAnswer(l.w, i, q, a, err))
}

func (l *lines) begin() {
	if l.begun {
		return
	}
	l.begun = true
	l.w.Header().Set("Content-Type", "application/x-ndjson")
	if len(l.held) > 0 {
		_, err := l.w.Write(l.held)
		l.gone, l.held = errors.Join(l.gone, err), nil
	}
}

// flush sends what there is while nothing is ready.
func (l *lines) flush() {
	if l.begun {
		l.gone = errors.Join(l.gone, l.out.Flush())
	}
}

// refuseUnanswered refuses the call if nothing was answered.
func (l *lines) refuseUnanswered(o Options) {
	if !l.begun && l.refused != nil {
		reply(l.w, o, statusOf(l.refused, http.StatusUnprocessableEntity), Error{l.refused.Error()})
		return
	}
	l.begin()
}

// feed checks the queries of a call.
func (q Queries) feed() ([]feed.Query, error) {
	if n := len(q.Queries); n == 0 || n > maxQueries {
		return nil, fmt.Errorf(`%d queries: want 1 to %d, as {"queries": [{"query": "up", "from": 1700000000, "to": 1700000300, "step": 5}]}`, n, maxQueries)
	}
	out := make([]feed.Query, len(q.Queries))
	for i, one := range q.Queries {
		var err error
		if out[i], err = one.feed(); err != nil {
			return nil, fmt.Errorf("query %d: %w", i, err)
		}
	}
	return out, nil
}

func (q Query) feed() (f feed.Query, err error) {
	switch {
	case q.Query == "":
		return f, errors.New("query: want a PromQL expression")
	case !(q.To > 0 && q.To < 1<<40):
		return f, fmt.Errorf("to: %g: want a time as unix seconds", q.To)
	case !(q.Step >= 0 && q.Step < 1<<32):
		return f, fmt.Errorf("step: %g: want the seconds between two points, or 0 for only the value at the time `to`", q.Step)
	case q.Top < 0:
		return f, fmt.Errorf("top: %d: want a number of lines, or 0 for all", q.Top)
	}
	f = feed.Query{Expr: q.Query, To: millis(q.To), Step: time.Duration(math.Round(q.Step*1000)) * time.Millisecond, Top: q.Top, Known: q.Known}
	f.From = f.To
	if q.Step == 0 {
		return f, nil
	}
	switch {
	case f.Step <= 0:
		return f, fmt.Errorf("step: %g: want at least 0.001", q.Step)
	case !(q.From > 0 && q.From <= q.To):
		return f, fmt.Errorf("from: %g: want a time as unix seconds, not after to", q.From)
	case (q.To-q.From)/q.Step > feed.MaxSteps:
		return f, fmt.Errorf("%.0f steps: want at most %d; use a longer step", (q.To-q.From)/q.Step, feed.MaxSteps)
	case q.Since != 0 && !(q.Since >= q.From && q.Since <= q.To):
		return f, fmt.Errorf("since: %g: want a time between from and to", q.Since)
	}
	f.From = millis(q.From)
	if q.Since != 0 {
		f.Since = millis(q.Since)
	}
	return f, nil
}

func millis(seconds float64) time.Time { return time.UnixMilli(int64(math.Round(seconds * 1000))) }

// writeAnswer writes the line of a query, an Answer in JSON. It encodes one series at a time: the text of a large answer would take more
// memory than its values. Encoding cannot fail.
func writeAnswer(w io.Writer, i int, q feed.Query, a feed.Answer, err error) error {
	since, text := 0.0, ""
	if err != nil {
		text = err.Error()
	} else {
		since = float64(a.Since.UnixMilli()) / 1000
	}
	to := bufio.NewWriterSize(w, 32<<10)
	put := func(v any) {
		b, _ := json.Marshal(v)
		_, _ = to.Write(b) // Flush returns the error
	}
	_, _ = fmt.Fprintf(to, `{"index":%d,"since":`, i)
	put(since)
	_, _ = to.WriteString(`,"lines":`)
	if len(a.Lines) == 0 {
		_, _ = to.WriteString("null")
	}
	for n, l := range a.Lines {
		_ = to.WriteByte("[,"[min(n, 1)])
		put(lineOf(l, q.Step == 0))
	}
	if len(a.Lines) > 0 {
		_, _ = to.WriteString("]")
	}
	if a.Rest != nil {
		_, _ = to.WriteString(`,"rest":`)
		put(lineOf(*a.Rest, false))
	}
	rest, _ := json.Marshal(struct {
		Folded   int      `json:"folded,omitempty"`
		Set      string   `json:"set,omitempty"`
		Warnings []string `json:"warnings,omitempty"`
		Error    string   `json:"error,omitempty"`
	}{a.Folded, a.Set, a.Warnings, text})
	if len(rest) > len("{}") {
		_, _ = to.WriteString(",")
	}
	_, _ = to.Write(append(rest[1:], '\n'))
	return to.Flush()
}

func lineOf(l metric.Line, single bool) Line {
	if single && len(l.Values) == 1 {
		return Line{Labels: l.Labels, Value: strconv.FormatFloat(l.Values[0], 'f', -1, 64)}
	}
	return Line{Labels: l.Labels, Values: l.Values}
}

// MarshalJSON writes null for a value that is not finite: a gap.
func (v Values) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 12*len(v)+2)
	b = append(b, '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendFloat(b, x, 'g', -1, 64)
	}
	return append(b, ']'), nil
}
