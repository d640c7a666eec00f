package channel

// Report is what a measurement of the channel says, as the worker prints it in JSON.
// Its variants took turns in the same process over the same kind of connection.
type Report struct {
	// Measure is "handshake", "echo", "stream" or "codec".
	Measure   string `json:"measure"`
	Transport string `json:"transport"`
	Suite     string `json:"suite"`
	Threads   string `json:"threads"`
	Evidence  string `json:"evidence"`
	Message   string `json:"message"`
	Size      int    `json:"size_bytes"` // of a message, a tensor's head not counted
	// TLS is the suite that TLS chose: Go does not let the caller choose one.
	TLS      string    `json:"tls_suite,omitempty"`
	Variants []Variant `json:"variants"`
	// Wrong is the number of answers that were not what they should be.
	Wrong uint64 `json:"wrong"`
	// Seconds is the time from the line "begin" to this document, by the worker's clock.
	Seconds float64 `json:"seconds"`
	// Absent says why values are not there.
	Absent map[string]string `json:"absent,omitempty"`
}

// Variant is one of the things that are compared, "plain_echo" for example.
type Variant struct {
	Name    string   `json:"name"`
	Windows []Window `json:"windows"`
	// Histogram is of nanoseconds for one operation, in HdrHistogram's V2 encoding;
	// absent where operations are not timed one by one.
	Histogram string `json:"histogram,omitempty"`
	// Cycles of the CPU in user space for all operations of the windows, by the
	// hardware's counter of the one thread that ran them.
	Cycles uint64 `json:"cycles,omitempty"`
}

// Parts is how many a Window has.
const Parts = 5

// Window is a stretch of one variant.
type Window struct {
	Operations uint64  `json:"operations"`
	Seconds    float64 `json:"seconds"`
	// Parts are the seconds of one operation in each fifth of the window: an
	// interruption spoils one of them and not their median.
	Parts []float64 `json:"parts_seconds"`
	// CPU is the CPU time in seconds of the process, both sides where both are in it.
	CPU float64 `json:"cpu_seconds"`
}
