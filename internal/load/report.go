// Package load puts load on a server and times the answers. An open loop sends on a
// schedule that does not wait for answers and times from the moment a request was
// due, so that a stalled server is not spared (G. Tene's coordinated omission; wrk2);
// a closed loop sends as fast as answers come, for capacity alone.
package load

// Report is what a run of the load says, as the worker prints it in JSON.
type Report struct {
	Protocol string `json:"protocol"`
	// Loop is "open" or "closed", Arrivals "constant" or "poisson" (open only).
	Loop     string `json:"loop"`
	Arrivals string `json:"arrivals,omitempty"`
	// Rate is what was offered in requests per second (open only).
	Rate        float64 `json:"rate,omitempty"`
	Connections int     `json:"connections"`
	Pipeline    int     `json:"pipeline,omitempty"`
	// Seconds is the measured time after the warm-up.
	Seconds float64 `json:"seconds"`
	// Requests were answered rightly in that time. Due were due in it (open only): beyond
	// the server's capacity they are more, and some are answered after it. Errors are all
	// that were not answered rightly, of those due in an open loop, by kind ("refused",
	// "reset", "timeout", "wrong answer", "certificate", ...).
	Requests uint64            `json:"requests"`
	Due      uint64            `json:"due,omitempty"`
	Errors   map[string]uint64 `json:"errors,omitempty"`
	// Words are those of the first error of a kind, where the server, TLS or the kernel said
	// more of it than its kind does.
	Words map[string]string `json:"error_words,omitempty"`
	// Answered are all that were answered rightly from the first to the last, those
	// of the warm-up and of filling the server with data among them.
	Answered uint64 `json:"answered"`
	// Counted were answered rightly between Begins and Ends: those of the measured time,
	// and the few just before and after it. What is counted between is divided by them.
	Counted uint64 `json:"counted"`
	// Sent and Received are the bytes of requests and answers, those of the
	// protocol with them, without those of TLS and TCP.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
	// Late is how many requests were sent more than LateAfter seconds after they
	// were due because of this program and not of the server; see Lagging.
	Late      uint64  `json:"late"`
	LateAfter float64 `json:"late_after_seconds,omitempty"`
	// Response is from the moment a request was due to its answer, Service from
	// the moment it was sent, Lag from due to sent, Connect the time to a usable
	// connection (TCP, TLS and what the protocol adds), Handshake the part of TLS.
	// Histograms of nanoseconds in HdrHistogram's V2 encoding, base64; absent
	// where there is no such thing. A request that was given up for want of an answer
	// ("timeout", "unanswered") is in Response, or in a closed loop in Service, with its
	// time until then.
	Response  string `json:"response,omitempty"`
	Service   string `json:"service,omitempty"`
	Lag       string `json:"lag,omitempty"`
	Connect   string `json:"connect,omitempty"`
	Handshake string `json:"handshake,omitempty"`
	// Handshakes were made while measuring, Resumed among them.
	Handshakes uint64 `json:"handshakes,omitempty"`
	Resumed    uint64 `json:"resumed,omitempty"`
	// Windows are the answered requests of each Width seconds.
	Windows []float64 `json:"windows"`
	Width   float64   `json:"window_seconds"`
	// CPUSeconds is what this program used of the CPU while measuring, Cores how
	// many it could use.
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      int     `json:"cores"`
	// Digest is over what does not depend on time in the answers that were checked.
	Digest string `json:"digest"`
	// Server are the server's own statistics, by the server's names: for counters how far
	// they went between the two times that it was asked, when nothing was under way.
	// Expected requests were answered rightly in between. Versions is what it says it is.
	Server   map[string]float64 `json:"server,omitempty"`
	Expected uint64             `json:"server_expected,omitempty"`
	Versions map[string]string  `json:"versions,omitempty"`
}

// MostLate is the share of requests that may be late: above it the client was
// the bottleneck and the run is invalid.
const MostLate = 0.01

// Lagging reports whether the run says more of the client than of the server.
func (r *Report) Lagging() bool {
	return float64(r.Late) > MostLate*float64(r.Made())
}

// Failed is how many requests were not answered rightly.
func (r *Report) Failed() (n uint64) {
	for _, e := range r.Errors {
		n += e
	}
	return n
}

// Made is how many requests there were in the measured time, whatever became of them:
// shares of requests are shares of these. In an open loop they are those that were due,
// unless even more failed: attempts to connect anew fail too, and are no request's.
func (r *Report) Made() uint64 {
	if r.Loop == "open" {
		return max(r.Due, r.Failed())
	}
	return r.Requests + r.Failed()
}
