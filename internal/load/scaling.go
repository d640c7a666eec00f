package load

// Scaling is what a fixed number of messages says of a server that was just started:
// how it started, how it warmed up, and how fast it then was. Of the Report, Requests
// and what is per request are of the measured messages, Handshake of all clients'
// connections but the first one, Windows and Width of the warm-up.
type Scaling struct {
	Report
	// Began is how the measured time began: "connected" when all clients had
	// their connection, "unconnected" when they made it in that time.
	Began string `json:"began"`
	// PauseSeconds is what each client waited after an answer before it went on.
	PauseSeconds float64 `json:"pause_seconds"`
	// FirstHandshake is from the first connect to the end of the first TLS
	// handshake, FirstAnswer from there to the answer to the first message, both
	// by a client that has done both before.
	FirstHandshake float64 `json:"first_handshake_seconds"`
	FirstAnswer    float64 `json:"first_answer_seconds"`
	// BuildSeconds is how long it took to build the server, as noted then.
	BuildSeconds *float64 `json:"build_seconds,omitempty"`
}
