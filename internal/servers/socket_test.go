package servers

import (
	"strings"
	"testing"
)

// TestCheckSocket: an address that no server can have is refused, with what would be accepted.
func TestCheckSocket(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:6379":                      "",
		"/run/redis/redis.sock":               "",
		"/" + strings.Repeat("s", 106):        "",
		"/" + strings.Repeat("s", 107):        "has 108 bytes, and the path of a Unix socket has at most 107",
		"run/redis.sock":                      "want HOST:PORT or the absolute path",
		"127.0.0.1:0":                         "want HOST:PORT or the absolute path",
		"@" + strings.Repeat("s", 50):         "want HOST:PORT or the absolute path",
		"localhost:" + strings.Repeat("1", 9): "want HOST:PORT or the absolute path",
	} {
		t.Run(address, func(t *testing.T) {
			if err := CheckSocket(address); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", address, err, want)
			}
		})
	}
}
