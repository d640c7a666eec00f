// Package channelbench has the report of a measurement of the attested channel, which the worker writes and the
// workload reads.
package channelbench

// Report is the result of a measurement of the channel, printed by the worker as JSON.
// Its variants took turns in the same process over the same kind of connection.
type Report struct {
	// Measure is "handshake", "echo", "stream" or "codec".
	Measure   string `json:"measure"`
	Transport string `json:"transport"`
	Suite     string `json:"suite"`
	Threads   string `json:"threads"`
	Evidence  string `json:"evidence"`
	Message   string `json:"message"`
	Size      int    `json:"size_bytes"` // of a message, without a tensor's head
	// TLS is the suite that TLS chose: Go does not let the caller choose.
	TLS      string    `json:"tls_suite,omitempty"`
	Variants []Variant `json:"variants"`
	// Wrong is the number of wrong answers.
	Wrong uint64 `json:"wrong"`
	// Seconds is the time from the line "begin" to this document, by the worker's clock.
	Seconds float64 `json:"seconds"`
	// Absent says why values are missing.
	Absent map[string]string `json:"absent,omitempty"`
}

// Variant is one of the compared things, for example "plain_echo".
type Variant struct {
	Name    string   `json:"name"`
	Windows []Window `json:"windows"`
	// Histogram is the time of an operation in nanoseconds, in HdrHistogram's V2
	// encoding; absent if operations are not timed individually.
	Histogram string `json:"histogram,omitempty"`
	// Cycles of the CPU in user space for all operations of the windows, from the
	// hardware counter of the one thread that ran them.
	Cycles uint64 `json:"cycles,omitempty"`
}

// Parts is how many a Window has.
const Parts = 5

// Window is a stretch of one variant.
type Window struct {
	Operations uint64  `json:"operations"`
	Seconds    float64 `json:"seconds"`
	// Parts are the seconds of one operation in each fifth of the window: an
	// interruption distorts one of them but not their median.
	Parts []float64 `json:"parts_seconds"`
	// CPU is the CPU time of the process in seconds, for both sides if it runs both.
	CPU float64 `json:"cpu_seconds"`
}
