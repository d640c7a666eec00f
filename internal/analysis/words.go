package analysis

import (
	"strconv"
)

// Count prints a number as a sentence needs it: three digits are enough to act
// on, and the evidence has all of them ("3,420,000", "12.3").
func Count(v float64) string {
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
