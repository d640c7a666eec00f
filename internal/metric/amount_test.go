package metric

import "testing"

// TestAmounts: which texts are values of a unit, and which are not.
func TestAmounts(t *testing.T) {
	for _, tt := range []struct {
		text, unit string
		want       float64
	}{
		{"20000/s", "1/s", 20_000}, {"20k/s", "1/s", 20_000}, {"1.5 M/s", "1/s", 1.5e6}, {" 2/s ", "1/s", 2},
		{"20 %", "ratio", 0.2}, {"20%", "ratio", 0.2}, {"0.2", "ratio", 0.2}, {"4", "ratio", 4},
		{"5ms", "seconds", 0.005}, {"1 m 30 s", "seconds", 90}, {"20µs", "seconds", 20e-6},
		{"64MiB", "bytes", 64 << 20}, {"1 GB", "bytes", 1e9}, {"512 B", "bytes", 512}, {"10MB/s", "bytes/s", 1e7},
		{"3 cores", "cores", 3}, {"1 core", "cores", 1}, {"2e3", "", 2000},
	} {
		t.Run(tt.text, func(t *testing.T) {
			if got, err := ParseAmount(tt.text, tt.unit); err != nil || got != tt.want {
				t.Errorf("in %q it is %v, %v; want %v", tt.unit, got, err, tt.want)
			}
			if got, err := GuessUnit(tt.text); err != nil || got != tt.unit && tt.unit != "ratio" {
				t.Errorf("its unit is %q, %v; want %q", got, err, tt.unit)
			}
		})
	}
	for _, tt := range [][2]string{
		{"", ""}, {"NaN", ""}, {"Inf", ""}, {"-1", ""}, {"1e999", ""}, {"1.2.3", ""}, {"1 2", ""}, {"0x10", ""},
		{"5", "seconds"}, {"-5ms", "seconds"}, {"0", "seconds"}, {"1/s", "bytes/s"}, {"1 KB", "bytes"}, {"5 %", "1/s"}, {"1", "cores"}, {"5ms", "ratio"},
	} {
		t.Run("not "+tt[0]+" in "+tt[1], func(t *testing.T) {
			if got, err := ParseAmount(tt[0], tt[1]); err == nil {
				t.Errorf("%v, want an error", got)
			}
		})
	}
}

func FuzzParseAmount(f *testing.F) {
	f.Add("20k/s", "1/s")
	f.Add("1h5m", "seconds")
	f.Add("20 %", "ratio")
	f.Add("9e99TiB", "bytes")
	f.Fuzz(func(t *testing.T, text, unit string) {
		if v, err := ParseAmount(text, unit); err == nil && !(v >= 0 && v-v == 0) {
			t.Errorf("%q in %q is %v", text, unit, v)
		}
	})
}
