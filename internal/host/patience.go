package host

import (
	"os"
	"strconv"
	"time"
)

// Patience stretches a limit on what the machine, or a program on it, may take. TEESCOPE_PATIENCE is the factor, 1
// without it. Only tests set it: a slow machine must not fail them.
func Patience(limit time.Duration) time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv("TEESCOPE_PATIENCE"), 64)
	if err != nil || !(factor >= 1 && factor <= 100) {
		return limit
	}
	return time.Duration(factor * float64(limit))
}
