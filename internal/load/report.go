// Package load puts load on a server and times the answers. An open loop sends on a
// schedule that does not wait for answers, and times from the moment a request was due,
// so a stalled server is not spared (G. Tene's coordinated omission; wrk2). A closed
// loop sends as fast as answers come, and only measures capacity.
package load

// Report is the result of a load, printed by the worker as JSON.
type Report struct {
	Protocol string `json:"protocol"`
	// Loop is "open" or "closed", Arrivals "constant" or "poisson" (open only).
	Loop     string `json:"loop"`
	Arrivals string `json:"arrivals,omitempty"`
	// Rate is the offered rate in requests per second (open only).
	Rate        float64 `json:"rate,omitempty"`
	Connections int     `json:"connections"`
	Pipeline    int     `json:"pipeline,omitempty"`
	// Seconds is the measured time after the warm-up; where a number of requests ends the load, the time until the last
	// was over.
	Seconds float64 `json:"seconds"`
	// Requests were answered correctly in that time. Due were due in it (open only):
	// beyond the server's capacity there are more of them, and some are answered after
	// it. Errors are the others (in an open loop, of those due), by kind ("refused",
	// "reset", "timeout", "wrong answer", "certificate", ...).
	Requests uint64            `json:"requests"`
	Due      uint64            `json:"due,omitempty"`
	Errors   map[string]uint64 `json:"errors,omitempty"`
	// Words are those of the first error of a kind, if the server, TLS or the kernel
	// said more than the kind does.
	Words map[string]string `json:"error_words,omitempty"`
	// Answered are all that were answered correctly from the first to the last,
	// including the warm-up and filling the server with data.
	Answered uint64 `json:"answered"`
	// Counted were answered correctly between Begins and Ends: those of the measured
	// time, and the few just before and after it. Counters over that time are divided
	// by them.
	Counted uint64 `json:"counted"`
	// Sent and Received are the bytes of requests and answers, including the protocol's
	// own, excluding TLS and TCP.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
	// Late is how many requests were sent more than LateAfter seconds after they were
	// due, because of this program and not of the server.
	Late      uint64  `json:"late"`
	LateAfter float64 `json:"late_after_seconds,omitempty"`
	// Response is the time from when a request was due to its answer, Service from when
	// it was sent, Lag from due to sent, Connect the time to a usable connection (TCP,
	// TLS and the protocol's part), Handshake the TLS part. Histograms of nanoseconds
	// in HdrHistogram's V2 encoding, base64; absent if not applicable. A request
	// abandoned without an answer ("timeout", "unanswered") is in Response, or in a
	// closed loop in Service, with its time until then.
	Response  string `json:"response,omitempty"`
	Service   string `json:"service,omitempty"`
	Lag       string `json:"lag,omitempty"`
	Connect   string `json:"connect,omitempty"`
	Handshake string `json:"handshake,omitempty"`
	// Handshakes were made while measuring; Resumed are among them.
	Handshakes uint64 `json:"handshakes,omitempty"`
	Resumed    uint64 `json:"resumed,omitempty"`
	// Windows are the answered requests of each Width seconds.
	Windows []float64 `json:"windows"`
	Width   float64   `json:"window_seconds"`
	// CPUSeconds is the CPU time of this program while measuring, Cores how many CPUs
	// it could use.
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      int     `json:"cores"`
	// Digest covers what does not depend on time in the checked answers.
	Digest string `json:"digest"`
	// Server are the server's own statistics, under the server's names: for counters
	// their growth between the two times it was asked, with nothing in flight. Expected
	// requests were answered correctly in between. Versions is the version that it
	// reports.
	Server   map[string]float64 `json:"server,omitempty"`
	Expected uint64             `json:"server_expected,omitempty"`
	Versions map[string]string  `json:"versions,omitempty"`
}

// Failed is the number of requests that were not answered correctly.
func (r *Report) Failed() (n uint64) {
	for _, e := range r.Errors {
		n += e
	}
	return n
}

// Attempts is the number of requests in the measured time, whatever their outcome: shares
// of requests are relative to it. In an open loop these are the due ones, unless even
// more failed: failed reconnection attempts count too, and belong to no request.
func (r *Report) Attempts() uint64 {
	if r.Loop == "open" {
		return max(r.Due, r.Failed())
	}
	return r.Requests + r.Failed()
}

// Chat is the result of a load on a language model (ChatOptions).
type Chat struct {
	Model string `json:"model"`
	// Loop is "open", "closed" or "unlimited" (all requests at once), Arrivals "constant" or "poisson" (open only).
	Loop     string  `json:"loop"`
	Arrivals string  `json:"arrivals,omitempty"`
	Rate     float64 `json:"rate,omitempty"`
	Users    int     `json:"users,omitempty"`
	// Asked is the number of measured requests; Done of them were answered with the right number of tokens, Errors are the others, by kind, and
	// Words those of the first of a kind.
	Asked  uint64            `json:"asked"`
	Done   uint64            `json:"done"`
	Errors map[string]uint64 `json:"errors,omitempty"`
	Words  map[string]string `json:"error_words,omitempty"`
	// Retried are the requests that were sent once more on a new connection, because the server had closed the one that they went out on before any byte of an
	// answer (RFC 9112, section 9.3.1). Their times begin when they were first due or sent.
	Retried uint64 `json:"retried"`
	// NewConnections is true if each request had a connection of its own, because the server ends connections after its answers, or each from the
	// first retried one on.
	NewConnections bool `json:"new_connections"`
	// Counted were answered between Begins and Ends, which are Done.
	Counted uint64 `json:"counted"`
	// Seconds is the time from the first request, or the moment when it was due, to the end of the last answer.
	Seconds float64 `json:"seconds"`
	// Of the answers in Done: the tokens by the server's count (usage), and the pieces of text.
	PromptTokens     uint64 `json:"prompt_tokens"`
	CompletionTokens uint64 `json:"completion_tokens"`
	Pieces           uint64 `json:"pieces"`
	// Cached are the tokens of prompts that the server found in its cache of prefixes; absent if it does not report them for each answer.
	Cached *uint64 `json:"cached_prompt_tokens,omitempty"`
	// Served is what the server counted itself; nil if it was not asked.
	Served *Served `json:"served,omitempty"`
	// Held are the answers in Done whose time per output token is not known, because much of their text arrived at once.
	Held uint64 `json:"held,omitempty"`
	// Good are the answers that met both objectives, which are in seconds; answers in Held are not counted.
	Good          uint64  `json:"good"`
	ObjectiveTTFT float64 `json:"objective_ttft_seconds"`
	ObjectiveTPOT float64 `json:"objective_tpot_seconds"`
	// Histograms as in a Report: TTFT, TPOT and Total have a value for each answer in Done (TPOT for those of two tokens or more that are not in Held), Gap one for each arrival of
	// text but the first; pieces that are read at once are one arrival. Lag is from due to sent (open only).
	TTFT  string `json:"ttft"`
	TPOT  string `json:"tpot,omitempty"`
	Gap   string `json:"gap,omitempty"`
	Total string `json:"total"`
	Lag   string `json:"lag,omitempty"`
	// Late is as in a Report, but of the answered requests only those whose lateness is also more than a hundredth of their TTFT.
	Late      uint64  `json:"late"`
	LateAfter float64 `json:"late_after_seconds,omitempty"`
	// CPUSeconds and Cores are as in a Report.
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      int     `json:"cores"`
	// Prompts is the digest of what was asked, Texts that of the answers in the order of the requests.
	Prompts string `json:"prompts_digest"`
	Texts   string `json:"texts_digest"`
	// Each has for each answer in Done: tokens of prompt and answer, TTFT, TPOT (0 where there is none) and total time in nanoseconds.
	Each [][5]int64 `json:"each"`
}

// Served is what a server of language models counted itself from before the first measured request until after the last: llama.cpp's
// counters, which its option --metrics shows. Times of requests that it answers together add up.
type Served struct {
	// PromptTokens were computed; those that it had in its cache are not among them.
	PromptTokens      float64 `json:"prompt_tokens"`
	CompletionTokens  float64 `json:"completion_tokens"`
	PromptSeconds     float64 `json:"prompt_seconds"`
	CompletionSeconds float64 `json:"completion_seconds"`
	// Rounding is by how many tokens each count may be wrong: the server writes six digits.
	Rounding float64 `json:"rounding,omitempty"`
}
