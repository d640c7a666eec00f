package cost

import (
	"strconv"
	"strings"
)

// percent writes a share with its interval ("31 % (29 to 33 %)").
func percent(a Amount) string {
	point := func(v float64) string {
		return strings.TrimSuffix(strconv.FormatFloat(v*100, 'f', 1, 64), ".0")
	}
	return point(a.Value) + " % (" + point(a.Low) + " to " + point(a.High) + " %)"
}
