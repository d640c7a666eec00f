package licenses

import (
	"strings"
	"testing"
)

// TestOthers: the text names what is linked, with terms. tools/release compares it with what is linked now.
func TestOthers(t *testing.T) {
	b, err := Others()
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, part := range []string{"teescope contains these works of others", "\nGo's standard library\n", "\ngithub.com/prometheus/prometheus v", "\nreact 1", "\nmusl 1.2.3", "Permission is hereby granted", "Apache License"} {
		t.Run(part, func(t *testing.T) {
			if !strings.Contains(text, part) {
				t.Errorf("it has no %q", part)
			}
		})
	}
}
