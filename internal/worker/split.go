package worker

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"

	"github.com/google/pprof/profile"
)

// The parts of a proxy's CPU time. A sample of the CPU profile belongs to the first part for
// which one of the functions on its stack contains a mark.
var proxyParts = []struct {
	name  string
	marks []string
}{
	{"logging", []string{"work.(*accessLog).", "log.(*Logger)."}},
	// The hashes and signatures of a handshake, and its messages.
	{"handshake", []string{"crypto/tls.(*Conn).handshakeContext", "crypto/tls.(*Conn).handlePostHandshakeMessage"}},
	// Sealing and opening records; the reads and writes around them belong to hop.
	{"records", []string{"crypto/tls.(*halfConn).encrypt", "crypto/tls.(*halfConn).decrypt"}},
	// Reading, parsing, forwarding and writing requests and answers.
	{"hop", []string{"net/http.", "net/http/httputil.", "net/textproto.", "bufio.", "internal/poll.", "net.", "crypto/tls."}},
	// The rest is Go's scheduler and garbage collector.
}

const runtimePart = "runtime"

// partOf returns the part that a stack, leaf first, belongs to.
func partOf(stack []string) string {
	for _, p := range proxyParts {
		for _, f := range stack {
			for _, mark := range p.marks {
				if strings.Contains(f, mark) {
					return p.name
				}
			}
		}
	}
	return runtimePart
}

// split profiles this process between readings of the page (100 samples per second of CPU time)
// and adds up the CPU time of each part.
type split struct {
	running *bytes.Buffer
	seconds map[string]float64
}

// next ends the current profile, begins another, and returns the CPU seconds by part of all
// profiles that have ended. With n samples of a part, their number has a standard error of about
// the square root of n.
func (s *split) next() (map[string]float64, error) {
	if s.seconds == nil {
		s.seconds = map[string]float64{runtimePart: 0}
		for _, p := range proxyParts {
			s.seconds[p.name] = 0
		}
	}
	if s.running != nil {
		pprof.StopCPUProfile()
		p, err := profile.Parse(s.running)
		s.running = nil
		if err != nil {
			return nil, fmt.Errorf("read the CPU profile: %w", err)
		}
		for _, sample := range p.Sample {
			s.seconds[partOf(functions(sample))] += float64(sample.Value[len(sample.Value)-1]) / 1e9
		}
	}
	s.running = new(bytes.Buffer)
	if err := pprof.StartCPUProfile(s.running); err != nil {
		s.running = nil
		return nil, fmt.Errorf("begin a CPU profile: %w", err)
	}
	return s.seconds, nil
}

// stopProfile ends the current profile.
func (s *split) stopProfile() {
	if s.running != nil {
		pprof.StopCPUProfile()
	}
}

// functions lists the names on a sample's stack, leaf first.
func functions(s *profile.Sample) []string {
	var out []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				out = append(out, line.Function.Name)
			}
		}
	}
	return out
}
