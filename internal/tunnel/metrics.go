package tunnel

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/teescope/teescope/channel"
	"github.com/teescope/teescope/internal/metric"
)

// The metrics of a side.
var (
	openDesc = &metric.Desc{Name: "teescope_channel_connections", Kind: metric.Gauge,
		Help: "Connections that are open now, counted by the tunnel."}
	handshakingDesc = &metric.Desc{Name: "teescope_channel_connections_without_session", Kind: metric.Gauge,
		Help: "Open connections that have no session yet, counted by the tunnel."}
	endedDesc = &metric.Desc{Name: "teescope_channel_connections_ended_total", Kind: metric.Counter, Labels: []string{"reason"},
		Help: "Connections that have ended, by reason, counted by the tunnel; done is an end in order, everything else was cut."}
	handshakeDesc = &metric.Desc{Name: "teescope_channel_handshake_seconds", Kind: metric.Histogram, Labels: []string{"kind"},
		Help: "Time of handshakes that succeeded in seconds, evidence and its verification included, by this side's clock; fresh or resumed."}
	bytesDesc = &metric.Desc{Name: "teescope_channel_bytes_total", Kind: metric.Counter, Labels: []string{"direction"},
		Help: "Plain bytes that this side has sent (out) and received (in) over the channel."}
	rekeysDesc = &metric.Desc{Name: "teescope_channel_rekeys_total", Kind: metric.Counter,
		Help: "New keys that this side has taken within sessions."}

	// Metrics are all of them.
	Metrics = []*metric.Desc{bytesDesc, openDesc, endedDesc, handshakingDesc, handshakeDesc, rekeysDesc}
)

// done is the reason of a connection that ended in order.
const done = "done"

// reasons are the kinds of ends, each with its error; the first that fits counts.
var reasons = []struct {
	name string
	err  error
}{
	{"busy", errBusy},
	{"stopped", errStopped},
	{"idle", errIdle},
	{"session", errSession},
	{"unreachable", errUnreachable},
	{"plain", errPlain},
	{"timeout", channel.ErrTimeout},
	{"evidence", channel.ErrEvidence},
	{"refused", channel.ErrRefused},
	{"mismatch", channel.ErrMismatch},
	{"forged", channel.ErrForged},
	{"too_large", channel.ErrTooLarge},
	{"malformed", channel.ErrMalformed},
	{"truncated", channel.ErrTruncated},
}

// reason names the kind of an end.
func reason(err error) string {
	if err == nil {
		return done
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "other" // this side could not make its own evidence, for example
}

// bounds of the histogram, in seconds: a handshake without a quote takes less than a
// millisecond, one with a quote tens of them, and the vendor's service takes seconds.
var bounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// counters count what happens on a side.
type counters struct {
	channel channel.Counters
	open    atomic.Int64
	in, out atomic.Uint64

	mu    sync.Mutex
	ended map[string]uint64
	times [2]metric.Hist // of fresh and resumed handshakes
}

func (c *counters) countEnd(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = map[string]uint64{}
	}
	c.ended[reason]++
}

func (c *counters) handshake(resumed bool, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.times[0]
	if resumed {
		h = &c.times[1]
	}
	if h.Counts == nil {
		h.Bounds, h.Counts = bounds, make([]uint64, len(bounds)+1)
	}
	at, _ := slices.BinarySearch(bounds, took.Seconds())
	h.Counts[at]++
	h.Sum += took.Seconds()
}

// Samples are the present values, in the order of names.
func (t *Tunnel) Samples() []metric.Sample {
	c := &t.count
	out := []metric.Sample{
		{Desc: bytesDesc, Labels: []string{"in"}, Value: float64(c.in.Load())},
		{Desc: bytesDesc, Labels: []string{"out"}, Value: float64(c.out.Load())},
		{Desc: openDesc, Value: float64(c.open.Load())},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range append([]string{done, "other"}, names()...) {
		out = append(out, metric.Sample{Desc: endedDesc, Labels: []string{name}, Value: float64(c.ended[name])})
	}
	out = append(out, metric.Sample{Desc: handshakingDesc, Value: float64(t.waiting.len())})
	for i, kind := range []string{"fresh", "resumed"} {
		h := metric.Hist{Bounds: bounds, Counts: make([]uint64, len(bounds)+1), Sum: c.times[i].Sum}
		copy(h.Counts, c.times[i].Counts)
		out = append(out, metric.Sample{Desc: handshakeDesc, Labels: []string{kind}, Hist: &h})
	}
	return append(out, metric.Sample{Desc: rekeysDesc, Value: float64(c.channel.Rekeys.Load())})
}

func names() []string {
	out := make([]string, len(reasons))
	for i, r := range reasons {
		out[i] = r.name
	}
	return out
}
