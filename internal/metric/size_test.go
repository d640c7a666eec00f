package metric

import (
	"fmt"
	"math"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]float64{"4": 4, "0.5": 0.5, "-2": -2, "1e3": 1000, "4k": 4096, "4KiB": 4096, "2G": 2 << 30, "7B": 7, "1TiB": 1 << 40} {
		t.Run(text, func(t *testing.T) {
			if got, err := ParseSize(text); err != nil || got != want {
				t.Errorf("%s is %v, %v, want %v", text, got, err, want)
			}
		})
	}
	for _, text := range []string{"", "k", "4 k", "4kk", "NaN", "Inf", "4s", "0x"} {
		t.Run(text, func(t *testing.T) {
			if got, err := ParseSize(text); err == nil {
				t.Errorf("%q is %v", text, got)
			}
		})
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"4KiB", "1e3", "-0.5M", "TTT", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := ParseSize(s)
		if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q is %s", s, fmt.Sprint(v))
		}
	})
}
