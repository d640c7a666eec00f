package host

import (
	"strings"
	"testing"
)

func TestMessage(t *testing.T) {
	for _, tt := range []struct{ stderr, stdout, want string }{
		{"tool 1.2 (c) 2026\nerror: no such device\n\nUsage: tool [options]\n  -h  help\n", "", "error: no such device"},
		{"warming up\nTraceback (most recent call last):\n  File \"x.py\", line 1\nValueError: bad\n", "", "ValueError: bad"},
		{"", "started\nbind: permission denied\n0 errors, 1 run\n", "bind: permission denied"},
		{"a note\n", "FATAL: cannot allocate\n", "FATAL: cannot allocate"},
		{"one\ntwo\r\n \n", "three\n", "two"},
		{" \n", "three", "three"},
		{"errors: 0\nbye\n", "", "bye"},
		{"fa\xffiled: \xfe\n", "", "fa\uFFFDiled: \uFFFD"},
		{"", "", ""},
		{strings.Repeat("x", 1000), "", strings.Repeat("x", 300)},
	} {
		if got := Message([]byte(tt.stderr), []byte(tt.stdout)); got != tt.want {
			t.Errorf("%.60q, %.60q: %q, want %q", tt.stderr, tt.stdout, got, tt.want)
		}
	}
}
