package load

import "slices"

// Scaling is what a fixed number of messages says of a server that was just started:
// how it started, how it warmed up, and how fast it then was. Of the Report, Requests
// and what is per request are of the measured messages, Handshake of all clients'
// connections but the first one, Windows and Width of the warm-up, and CPUSeconds of that and
// the measured time.
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

// MostMessages bounds the messages of a Scaling, whose times are kept one by one.
const MostMessages = 10_000_000

// warmEnough is the share of the last rate from which on a server counts as warm. The
// steps of a just-in-time compiler are factors, the noise of a small machine is not.
const warmEnough = 0.9

// atOnce windows of a warm-up are looked at together, and four times as many are the
// fewest that show its end.
const atOnce = 5

// WarmUp finds the end of a warm-up in the answers of its windows: from that one on the
// median of five reaches warmEnough of that of the last quarter. It has an end if the
// quarter before the last had reached it too; known says whether there are enough windows
// to tell.
func WarmUp(windows []float64) (end int, warm, known bool) {
	n := len(windows)
	if n < 4*atOnce {
		return 0, false, false
	}
	reached := warmEnough * middle(windows[3*n/4:])
	warm = reached > 0 && middle(windows[n/2:3*n/4]) >= reached
	for i := 0; i+atOnce <= n; i++ {
		if middle(windows[i:i+atOnce]) >= reached {
			return i, warm, true
		}
	}
	return n, warm, true
}

// middle is the median of some values.
func middle(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
