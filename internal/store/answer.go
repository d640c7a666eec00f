package store

import (
	"net/http"

	"github.com/teescope/teescope/internal/quota"
)

// madeAtOnce is how many answers of calls other than queries may be made at a time. Their memory is known only once they are made.
const madeAtOnce = 2

// held bounds the memory of answers that Prometheus' API makes as a whole: that of a query is reserved when its result is known, that
// of other calls, which are made two at a time, before its first byte is sent. So clients that do not read their answers make others
// wait or fail, and not the monitor.
func (s *Store) held(next http.Handler) http.Handler {
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
		if err := making.enter(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		a := &madeAnswer{ResponseWriter: w, share: s.pages.answers(), making: making}
		defer a.end()
		next.ServeHTTP(a, plain(r))
	})
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
	a.making.leave()
	release, err := a.share.Take(2 * size)
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

// end ends the reservation.
func (a *madeAnswer) end() {
	if !a.begun {
		a.begin(0)
	}
	if a.release != nil {
		a.release()
	}
}
