package metric

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestLeadingNumber(t *testing.T) {
	for _, c := range []struct {
		in   string
		v    float64
		rest string
	}{
		{"0", 0, ""}, {"0.512", 0.512, ""}, {".5", 0.5, ""}, {"007", 7, ""}, {"+1", 1, ""}, {"-3.2 %", -3.2, " %"},
		{"\u22123.2 %", -3.2, " %"}, {"1,075", 1075, ""}, {"12,345,678.9 ms", 12345678.9, " ms"}, {"12\u202f346", 12346, ""},
		{"12\u00a0346\u00a0req/s", 12346, "\u00a0req/s"}, {"1\u2009000", 1000, ""}, {"1'234'567", 1234567, ""},
		{"1e3", 1000, ""}, {"1.5E-3s", 0.0015, "s"}, {"2e", 2, "e"}, {"5.", 5, "."}, {"1, 2", 1, ", 2"}, {"1,x", 1, ",x"},
		{"3 ± 0.1", 3, " ± 0.1"}, {"1000000", 1e6, ""}, {"12ms", 12, "ms"}, {"9'", 9, "'"}, {"1e-400", 0, ""},
	} {
		t.Run(c.in, func(t *testing.T) {
			v, plain, rest, err := LeadingNumber(c.in)
			if back, perr := strconv.ParseFloat(plain, 64); err != nil || v != c.v || rest != c.rest || perr != nil || back != v {
				t.Errorf("%q: %v (%q), then %q, %v; want %v, then %q", c.in, v, plain, rest, err, c.v, c.rest)
			}
		})
	}
	for _, in := range []string{"", "-", "x", ".", "-.", "NaN", "Inf", "-inf", "0x10", "1_000",
		// decimal commas, groups that are none, and mixed conventions
		"0,512", "0,001", "00,512", "2523,00", "1,5", "12,34", "1,0750", "1234,567", "1,234,56", "1.234,5", "1.234.567", "1,234'567", "12\u00a034", "0\u202f512", "1,234.5,6",
		"1e999", "-1e999", "1 2", "9\u00e9", " 1", "1 ", "1\n"} {
		t.Run(in, func(t *testing.T) {
			if v, err := ParseNumber(in); err == nil {
				t.Errorf("%q is read as %v", in, v)
			}
		})
	}
	if v, err := ParseNumber("1,234.5"); v != 1234.5 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := ParseNumber("0,512"); err == nil || !strings.Contains(err.Error(), "point") {
		t.Errorf("the error does not say what to write: %v", err)
	}
}

// FuzzLeadingNumber: what is read is a number, printed at the start of the text.
func FuzzLeadingNumber(f *testing.F) {
	for _, s := range []string{"0,512", "1,075", "1\u202f000.5", "\u22121e3x", "1.234,5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, plain, rest, err := LeadingNumber(s)
		if err != nil {
			return
		}
		if math.IsNaN(v) || math.IsInf(v, 0) || !strings.HasSuffix(s, rest) || rest == s {
			t.Errorf("%q is %v, then %q", s, v, rest)
		}
		whole, _, _ := strings.Cut(strings.TrimLeft(plain, "-"), ".")
		read := s[:len(s)-len(rest)]
		if strings.ContainsAny(read, groupMarks) && (strings.HasPrefix(whole, "0") || len(strings.SplitN(whole, "e", 2)[0]) < 4) {
			t.Errorf("%q is %q", read, plain)
		}
	})
}
