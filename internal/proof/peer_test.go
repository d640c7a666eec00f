package proof

import (
	"strings"
	"testing"
)

func said(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestForChannel: what is of results only is refused, not ignored.
func TestForChannel(t *testing.T) {
	for text, want := range map[string]string{"debug: true": "", "max_age: 1h": "", "nonce: 0aff": "nonce", "tee: [tdx]": ""} {
		t.Run(text, func(t *testing.T) {
			p, err := ReadPolicy([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			said(t, p.ForChannel(), want)
		})
	}
	said(t, (&Policy{Keys: []string{"SHA256:x"}}).ForChannel(), "keys")
}
