package probetest

import "math/rand/v2"

// mostName is how long a process name of a test may begin, so that Name and a number of three digits fit into the
// kernel's 15 bytes.
const mostName = 6

// Name returns a process name that no other run of any test uses. It begins with prefix, which has six bytes at most,
// and ends in a letter.
func Name(prefix string) string {
	if len(prefix) > mostName {
		panic("the prefix " + prefix + " is too long")
	}
	b := []byte(prefix + "-")
	for range 5 {
		b = append(b, byte('a'+rand.N(26)))
	}
	return string(b)
}
