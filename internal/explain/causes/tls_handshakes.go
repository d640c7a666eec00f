package causes

import "github.com/teescope/teescope/internal/explain"

// TLSHandshakes is connections that are opened too often.
var TLSHandshakes = explain.Cause{
	Name:  "tls_handshakes",
	Doing: "in TLS handshakes{often}",
	Remedy: "Keep connections open (keep-alive, pools, HTTP/2) and let sessions resume: use a session cache that all workers share, or tickets with a key that all " +
		"servers share; for nginx keepalive_timeout, ssl_session_cache and ssl_session_tickets, in clients a session that outlives the connection. Use ECDSA P-256 " +
		"certificates, whose signatures cost the server far less than those of RSA. Where the handshake carries attestation, cache its verdict for as long as policy allows.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool {
		return e.Metric == explain.CPUSamples && e.Label("call") == "tls_handshake"
	},
}
