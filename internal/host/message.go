package host

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// failing are the words of a program's message about its failure, as against its banner, usage or summary.
var (
	failing = regexp.MustCompile(`(?i)error|fail|cannot|can't|could not|unable|denied|refused|not permitted|no such|not found|unknown|invalid|fatal|panic|abort|killed|too many|timed out|exceed`)
	fine    = regexp.MustCompile(`(?i)\b(0|no) (errors?|fail\w*)|(errors?|failures?)\s*[:=]\s*0\b`)
)

// Message returns the line in which a program says why it failed: the last such line of the first output that has one,
// else the last line of the first output that is not empty; "" without any. It is at most 300 bytes.
func Message(outputs ...[]byte) string {
	any := func([]byte) bool { return true }
	for _, wanted := range []func(line []byte) bool{saysFailure, any} {
		for _, o := range outputs {
			if n := len(o) - 1<<16; n > 0 { // of a program that talks much
				o = o[n:]
			}
			lines := bytes.FieldsFunc(o, func(r rune) bool { return r == '\n' || r == '\r' })
			for _, line := range slices.Backward(lines) {
				if line = bytes.TrimSpace(line); len(line) > 0 && wanted(line) {
					return strings.ToValidUTF8(string(line[:min(len(line), 300)]), "\uFFFD")
				}
			}
		}
	}
	return ""
}

func saysFailure(line []byte) bool { return failing.Match(line) && !fine.Match(line) }
