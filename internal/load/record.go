package load

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold 1 nanosecond to 10 minutes; three digits are right from 16
// microseconds on, below it 16 nanoseconds are told apart.
const (
	finest  = 16
	longest = 600e9
	digits  = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(finest, longest, digits) }

// put counts a time; one out of range counts as the end of it.
func put(h *hdrhistogram.Histogram, ns int64) {
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

// record is what one thread has counted while measuring, and answered before.
type record struct {
	from, to int64 // the measured time
	width    int64 // of a window
	windows  []float64

	answered, requests     uint64
	late                   uint64
	sent, received         uint64
	errors                 map[string]uint64
	handshakes, resumed    uint64
	service, lag           *hdrhistogram.Histogram
	connect, handshakeTime *hdrhistogram.Histogram
}

func newRecord(o *Options) *record {
	r := &record{from: int64(o.Warm), to: int64(o.Warm + o.Measure), width: int64(o.window()), errors: map[string]uint64{},
		service: newHistogram(), lag: newHistogram(), connect: newHistogram(), handshakeTime: newHistogram()}
	r.windows = make([]float64, (r.to-r.from)/r.width)
	return r
}

// request is one that is under way. In a closed loop it is due when it is sent.
type request struct {
	seq       uint64
	due, sent int64
}

// measured reports whether a request counts. An open loop measures those that were
// due in the measured time, whenever they are answered; a closed loop those that were
// answered in it.
func (r *record) measured(q request, now int64, open bool) bool {
	if open {
		now = q.due
	}
	return now >= r.from && now < r.to
}

// answer counts a right answer. Times are those of the connection: from due in an
// open loop, from sent in a closed one.
func (r *record) answer(q request, now int64, open bool, times *hdrhistogram.Histogram) {
	r.answered++
	if i := (now - r.from) / r.width; now >= r.from && i < int64(len(r.windows)) {
		r.windows[i]++
	}
	if !r.measured(q, now, open) {
		return
	}
	r.requests++
	put(times, now-q.due)
	if open {
		put(r.service, now-q.sent)
	}
}

// fail counts a request that was not answered rightly.
func (r *record) fail(q request, now int64, open bool, kind string) {
	if r.measured(q, now, open) {
		r.errors[kind]++
	}
}

// sending notes how late a request is; ready is since when it could have been sent.
func (r *record) sending(q request, ready int64) {
	if q.due < r.from || q.due >= r.to {
		return
	}
	put(r.lag, q.sent-q.due)
	if q.sent-max(q.due, ready) > lateAfter {
		r.late++
	}
}

// connected notes a connection that was made while measuring, or before it to be
// used in it.
func (r *record) connected(c *made) {
	put(r.connect, int64(c.took))
	if c.handshake > 0 {
		put(r.handshakeTime, int64(c.handshake))
	}
}

// merge adds what another thread has counted.
func (r *record) merge(o *record) {
	for i := range r.windows {
		r.windows[i] += o.windows[i]
	}
	r.answered += o.answered
	r.requests += o.requests
	r.late += o.late
	r.sent += o.sent
	r.received += o.received
	r.handshakes += o.handshakes
	r.resumed += o.resumed
	for kind, n := range o.errors {
		r.errors[kind] += n
	}
	r.service.Merge(o.service)
	r.lag.Merge(o.lag)
	r.connect.Merge(o.connect)
	r.handshakeTime.Merge(o.handshakeTime)
}
