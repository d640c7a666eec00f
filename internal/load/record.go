//go:build linux

package load

import (
	"errors"
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold 1 nanosecond to 10 minutes; three digits are accurate from 16
// microseconds on, below that the resolution is 16 nanoseconds.
const (
	finest  = 16
	longest = 600e9
	digits  = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(finest, longest, digits) }

// recordTime counts a time; a time out of range counts at the range's end.
func recordTime(h *hdrhistogram.Histogram, ns int64) {
	_ = h.RecordValue(min(max(ns, 1), longest))
}

// encode is a histogram's text, "" for one without values.
func encode(h *hdrhistogram.Histogram) (string, error) {
	if h.TotalCount() == 0 {
		return "", nil
	}
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return string(b), nil
}

// failures are errors by kind, with the message of the first of each if there is one.
type failures struct {
	count map[string]uint64
	words map[string]string
}

func newFailures() failures { return failures{map[string]uint64{}, map[string]string{}} }

// mostWords bounds the words of an error, in bytes.
const mostWords = 300

// add returns the kind.
func (f *failures) add(err error) string {
	kind := kindOf(err)
	f.count[kind]++
	if f.count[kind] > 1 {
		return kind
	}
	said := err.Error()
	var own fault
	if errors.As(err, &own) {
		said = own.said
	}
	if said != "" {
		f.words[kind] = strings.ToValidUTF8(said[:min(len(said), mostWords)], "")
	}
	return kind
}

func (f *failures) merge(o failures) {
	for kind, n := range o.count {
		f.count[kind] += n
	}
	for kind, said := range o.words {
		if f.words[kind] == "" {
			f.words[kind] = said
		}
	}
}

// record holds the counts of one thread: during the measurement, and the answers before
// and after.
type record struct {
	stretch
	windows []float64
	last    int64 // when the last request of the stretch was over

	answered, requests     uint64
	due                    uint64 // in an open loop
	late                   uint64
	sent, received         uint64
	errors                 failures
	handshakes, resumed    uint64
	service, lag           *hdrhistogram.Histogram
	connect, handshakeTime *hdrhistogram.Histogram
}

func newRecord() *record {
	return &record{errors: newFailures(), service: newHistogram(), lag: newHistogram(), connect: newHistogram(), handshakeTime: newHistogram()}
}

// measure begins a stretch of the load.
func (r *record) measure(s stretch) {
	r.stretch, r.windows, r.last = s, nil, 0
	if s.tickets == nil {
		r.windows = make([]float64, (s.to-s.from)/s.width)
	}
}

// window is the index of a time's window, or one that does not exist. Where the time of a stretch is not known before,
// windows are made, and twice as many as wanted become half as many.
func (r *record) window(now int64) int64 {
	if r.tickets == nil {
		return (now - r.from) / r.width
	}
	for (now-r.from)/r.width >= 2*windows {
		r.widen()
	}
	for int64(len(r.windows)) <= (now-r.from)/r.width {
		r.windows = append(r.windows, 0)
	}
	return (now - r.from) / r.width
}

// widen doubles the width of the windows.
func (r *record) widen() {
	for i, n := range r.windows {
		r.windows[i] = 0
		r.windows[i/2] += n
	}
	r.windows = r.windows[:(len(r.windows)+1)/2]
	r.width *= 2
}

// complete leaves out the last window, in which the load ended.
func (r *record) complete() {
	r.windows = append([]float64{}, r.windows[:min(int64(len(r.windows)), (r.last-r.from)/r.width)]...)
}

// request is a request in flight. In a closed loop it is due when it is sent.
type request struct {
	seq       uint64
	due, sent int64
}

// measured reports whether a request counts. An open loop measures those due in the
// measured time, whenever they are answered; a closed loop those answered in it.
func (r *record) measured(q request, now int64, open bool) bool {
	if open {
		now = q.due
	}
	return now >= r.from && now < r.to
}

// answer counts a correct answer. Times start when the request was due in an open loop,
// when it was sent in a closed one.
func (r *record) answer(q request, now int64, open bool, times *hdrhistogram.Histogram) {
	r.answered++
	if now >= r.from && now < r.to {
		r.requests++
	}
	r.last = max(r.last, now)
	if now >= r.from {
		if i := r.window(now); i < int64(len(r.windows)) {
			r.windows[i]++
		}
	}
	if !r.measured(q, now, open) {
		return
	}
	recordTime(times, now-q.due)
	if open {
		r.due++
		recordTime(r.service, now-q.sent)
	}
}

// fail counts a failed request. The time so far of an abandoned one is shorter than its
// answer would have taken, but it is kept: without it, more missing answers would
// improve the tail.
func (r *record) fail(q request, now int64, open bool, err error, times *hdrhistogram.Histogram) {
	if !r.measured(q, now, open) {
		return
	}
	r.last = max(r.last, now)
	if kind := r.errors.add(err); kind == timedOut || kind == unanswered {
		recordTime(times, now-q.due)
	}
	if open {
		r.due++
	}
}

// unanswered counts a request of an open loop without an answer at the end.
func (r *record) unanswered(q request, now int64, times *hdrhistogram.Histogram) {
	r.fail(q, now, true, fault{kind: unanswered}, times)
}

// The kinds of errors of abandoned requests: after Options.Timeout, and at the end.
const (
	timedOut   = "timeout"
	unanswered = "unanswered"
)

// breach counts an answer without a request, a failure of the server only.
func (r *record) breach(now int64, err error) {
	if now >= r.from && now < r.to {
		r.errors.add(err)
	}
}

// sending records how late a request is; ready is the earliest time at which it could have been
// sent.
func (r *record) sending(q request, ready int64) {
	if q.due < r.from || q.due >= r.to {
		return
	}
	recordTime(r.lag, q.sent-q.due)
	if q.sent-max(q.due, ready) > lateAfter {
		r.late++
	}
}

// connected records a connection made while measuring, or before it for use in it.
func (r *record) connected(c *made) {
	recordTime(r.connect, int64(c.took))
	if c.handshake > 0 {
		recordTime(r.handshakeTime, int64(c.handshake))
	}
}

// merge adds another thread's counts.
func (r *record) merge(o *record) {
	if r.width == 0 {
		r.stretch = o.stretch
	}
	for r.width < o.width {
		r.widen()
	}
	for o.width < r.width {
		o.widen()
	}
	r.last = max(r.last, o.last)
	r.windows = append(r.windows, make([]float64, max(0, len(o.windows)-len(r.windows)))...)
	for i := range o.windows {
		r.windows[i] += o.windows[i]
	}
	r.answered += o.answered
	r.requests += o.requests
	r.due += o.due
	r.late += o.late
	r.sent += o.sent
	r.received += o.received
	r.handshakes += o.handshakes
	r.resumed += o.resumed
	r.errors.merge(o.errors)
	r.service.Merge(o.service)
	r.lag.Merge(o.lag)
	r.connect.Merge(o.connect)
	r.handshakeTime.Merge(o.handshakeTime)
}
