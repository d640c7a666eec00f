package bench

import (
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

// TestToolNamedByParameter: a program that the user names is looked for in place of the usual one, whose package need not be installed.
func TestToolNamedByParameter(t *testing.T) {
	tool := Tool{Command: "no-such-tool", Package: "a-package", Param: "program"}
	for _, c := range []struct{ program, want string }{
		{"", "no-such-tool on this machine; install the package a-package"},
		{"no-such-tool", "no-such-tool on this machine; install the package a-package"},
		{"/bin/sh", ""},
		{"sh", ""},
		{"/no/such/tool", "program=/no/such/tool on this machine: "},
		{"no-other-tool", "program=no-other-tool on this machine: "},
	} {
		t.Run(c.program, func(t *testing.T) {
			got := tool.lack(host.Local(), Params{"program": c.program})
			if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
				t.Errorf("program=%s: lacks %q, want %q", c.program, got, c.want)
			}
		})
	}
}
