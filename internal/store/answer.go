package store

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/teescope/teescope/internal/quota"
)

// madeAtOnce is how many answers of calls other than queries may be made at a time. Their memory is known only once they are made.
const madeAtOnce = 2

// reserveAnswers bounds the memory of answers that Prometheus' API makes as a whole: that of a query is reserved when its result is known, that
// of other calls, which are made two at a time, before its first byte is sent. So clients that do not read their answers make others
// wait or fail, and not the monitor.
func (s *Store) reserveAnswers(next http.Handler) http.Handler {
	making := make(queue, madeAtOnce)
	read := s.readInTurn(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = lenient{w}
		if r.URL.Path == "/query" || r.URL.Path == "/query_range" {
			next.ServeHTTP(w, plain(r))
			return
		}
		if r.URL.Path == "/read" && r.Method == http.MethodPost {
			read(w, r)
			return
		}
		if err := tooMuchToMake(r); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		wait, cancel := context.WithTimeout(r.Context(), s.opts.Query.Timeout)
		err := making.enter(wait)
		cancel()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		a := &madeAnswer{ResponseWriter: w, share: s.pages.answers(), making: making}
		defer a.giveBack() // also after a panic
		if formats(r) {
			if err := chained(r.Form.Get("query")); err != nil {
				http.Error(a, err.Error(), http.StatusUnprocessableEntity)
				return
			}
		}
		next.ServeHTTP(a, plain(r))
	})
}

const (
	// maxSelectors is how many match[] a call may have: each is looked up by itself, and all are joined.
	maxSelectors = 32
	// maxFormatted bounds the text of an expression that is only parsed or formatted, in bytes.
	maxFormatted = 8 << 10
)

// tooMuchToMake refuses a call, other than a query, whose answer would take long or much memory to make. None of these stops when
// its client leaves.
func tooMuchToMake(r *http.Request) error {
	expr := r.Form.Get("query")
	if n := len(r.Form["match[]"]); n > maxSelectors {
		return fmt.Errorf("the call has %d selectors (match[]), the limit is %d: make several calls, or join them with a regular expression", n, maxSelectors)
	}
	if tooDeep(expr) {
		return errTooDeep
	}
	if formats(r) && len(expr) > maxFormatted {
		return fmt.Errorf("the query has %d bytes; at most %d are parsed or formatted here", len(expr), maxFormatted)
	}
	return nil
}

// formats reports whether a call only parses or formats an expression.
func formats(r *http.Request) bool {
	return r.URL.Path == "/format_query" || r.URL.Path == "/parse_query"
}

// chained refuses an expression with a long row of operators. Each is a part within the next one, and the formatter prints each part
// again for each part around it: 2,000 of them take seconds.
func chained(expr string) error {
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return nil //nolint:nilerror // the API says what is wrong with it
	}
	if depth(e)-1 > maxNesting {
		return fmt.Errorf("the query has more than %d operators in a row or parts inside each other: format it in pieces", maxNesting)
	}
	return nil
}

// depth is how many parts of an expression are inside each other.
func depth(n parser.Node) (deepest int) {
	for child := range parser.ChildrenIter(n) {
		deepest = max(deepest, depth(child))
	}
	return deepest + 1
}

// lenient is an answer whose client may leave: Prometheus would log a line of each, with which any user could fill the log.
type lenient struct{ http.ResponseWriter }

// Write is that of http.ResponseWriter.
func (l lenient) Write(b []byte) (int, error) {
	_, _ = l.ResponseWriter.Write(b)
	return len(b), nil
}

// Flush sends what there is.
func (l lenient) Flush() { _ = http.NewResponseController(l.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (l lenient) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// plain asks the API for an answer that is not compressed: that is done outside, where its size is known.
func plain(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("Accept-Encoding")
	return r
}

// madeAnswer reserves the memory of an answer when it is sent.
type madeAnswer struct {
	http.ResponseWriter
	share   *quota.Share
	making  queue // left once the answer is made
	code    int
	begun   bool
	refused bool
	release func()
}

// WriteHeader is that of http.ResponseWriter; the code is sent with the first bytes.
func (a *madeAnswer) WriteHeader(code int) { a.code = code }

// Write is that of http.ResponseWriter.
func (a *madeAnswer) Write(b []byte) (int, error) {
	if !a.begun {
		a.begin(int64(len(b)))
	}
	if a.refused {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}

// begin reserves the answer and the buffer that it is made in, or sends the refusal in its place.
func (a *madeAnswer) begin(size int64) {
	a.begun = true
	a.making.release()
	release, err := a.share.Reserve(2 * size)
	if err != nil {
		a.refused = true
		h := a.Header()
		h.Del("Content-Type")
		http.Error(a.ResponseWriter, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a.release = release
	if a.code != 0 {
		a.ResponseWriter.WriteHeader(a.code)
	}
}

// Flush sends what there is.
func (a *madeAnswer) Flush() {
	if !a.begun {
		a.begin(0)
	}
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (a *madeAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// giveBack ends the reservation.
func (a *madeAnswer) giveBack() {
	if !a.begun {
		a.begin(0)
	}
	if a.release != nil {
		a.release()
	}
}
