package cost

import (
	"strconv"
	"strings"
)

// short writes a number as a sentence needs it ("3,420,000", "12.3").
func short(v float64) string {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil || v < 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent writes a share with its interval ("31 % (29 to 33 %)").
func percent(a Amount) string {
	point := func(v float64) string {
		return strings.TrimSuffix(strconv.FormatFloat(v*100, 'f', 1, 64), ".0")
	}
	return point(a.Value) + " % (" + point(a.Low) + " to " + point(a.High) + " %)"
}
