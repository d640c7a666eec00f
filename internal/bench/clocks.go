package bench

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/result"
)

// AskClock is a shell's command that prints a machine's clock in seconds, for CompareClocks.
const AskClock = "date +%s.%N"

// CompareClocks compares the clock of another machine, which was read at some moment between before and after, with
// this machine's. It is nil if the text is no time.
func CompareClocks(text string, before, after time.Time) *result.ClockOffset {
	whole, fraction, _ := strings.Cut(strings.TrimSpace(text), ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < 0 || seconds > math.MaxInt32*4 {
		return nil
	}
	// A date without nanoseconds (BusyBox) is rounded down.
	low, high := time.Unix(seconds, 0), time.Unix(seconds+1, 0)
	if nanoseconds, err := strconv.ParseUint(fraction, 10, 32); err == nil && len(fraction) == 9 {
		low = time.Unix(seconds, int64(nanoseconds))
		high = low
	}
	least, most := low.Sub(after.Round(0)).Seconds(), high.Sub(before.Round(0)).Seconds()
	return &result.ClockOffset{Seconds: (least + most) / 2, Uncertainty: math.Abs(most-least) / 2}
}
