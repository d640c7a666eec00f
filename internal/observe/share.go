package observe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/metric"
)

// Share is a flag that takes 1% or 0.01.
type Share float64

func (s *Share) String() string { return strconv.FormatFloat(float64(*s)*100, 'g', -1, 64) + "%" }

// Type names the value in the help text.
func (s *Share) Type() string { return "percent" }

// Set parses the flag.
func (s *Share) Set(v string) error {
	num, pct := strings.CutSuffix(v, "%")
	f, err := metric.ParseNumber(num)
	if err != nil || f <= 0 {
		return fmt.Errorf("%q: want a share of a core above 0, like 1%%", v)
	}
	if pct {
		f /= 100
	}
	if f > 1 {
		return fmt.Errorf("%q: more than a whole core; want a share like 1%%", v)
	}
	*s = Share(f)
	return nil
}
