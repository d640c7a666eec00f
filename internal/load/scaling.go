package load

import "slices"

// Scaling is the result of a fixed number of messages to a newly started server: how it
// started, how it warmed up, and how fast it then was. In the Report, Requests and
// per-request values cover the measured messages, Handshake all clients' connections
// except the first, Windows and Width the warm-up, and CPUSeconds both the warm-up and
// the measured time.
type Scaling struct {
	Report
	// Began is how the measured time began: "connected" if all clients had their
	// connections, "unconnected" if they connected in that time.
	Began string `json:"began"`
	// PauseSeconds is how long each client waited after an answer before it continued.
	PauseSeconds float64 `json:"pause_seconds"`
	// FirstHandshake is the time from the first connect to the end of the first TLS
	// handshake, FirstAnswer from there to the answer to the first message; the client
	// had done both before.
	FirstHandshake float64 `json:"first_handshake_seconds"`
	FirstAnswer    float64 `json:"first_answer_seconds"`
	// BuildSeconds is how long building the server took, as recorded at the time.
	BuildSeconds *float64 `json:"build_seconds,omitempty"`
}

// MostMessages bounds the messages of a Scaling, whose times are stored individually.
const MostMessages = 10_000_000

// warmEnough is the share of the final rate at which a server counts as warm. The steps
// of a just-in-time compiler are factors; the noise of a small machine is not.
const warmEnough = 0.9

// atOnce windows of a warm-up are evaluated together; four times as many are the
// minimum that shows its end.
const atOnce = 5

// WarmUp finds the end of a warm-up from the answers in its windows: from then on the
// median of five reaches warmEnough of that of the last quarter. The warm-up has ended
// if the quarter before the last had reached it too; known says whether there are
// enough windows.
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
