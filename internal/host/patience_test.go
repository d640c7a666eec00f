package host

import (
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	for factor, want := range map[string]time.Duration{
		"": time.Minute, "1": time.Minute, "10": 10 * time.Minute, "1.5": 90 * time.Second,
		"0": time.Minute, "-1": time.Minute, "0.5": time.Minute, "NaN": time.Minute, "1e9": time.Minute, "long": time.Minute,
	} {
		t.Run(factor, func(t *testing.T) {
			t.Setenv("TEESCOPE_PATIENCE", factor)
			if got := Patience(time.Minute); got != want {
				t.Errorf("a minute with %q is %v, want %v", factor, got, want)
			}
		})
	}
}
