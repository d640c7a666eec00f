package verdict

import (
	"math"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// clocksTogether is how far the clocks of two machines may be apart, in seconds: those of machines that keep time by
// NTP are within a tenth of that, and without nanoseconds a clock is read to a second.
const clocksTogether = 1

// clocksDiffer reports whether a clock certainly differs from the harness's.
func clocksDiffer(c *result.ClockOffset) bool {
	return c != nil && math.Abs(c.Seconds)-c.Uncertainty > clocksTogether
}

var machineClocks = Guard{
	ID:     "machine-clocks",
	Doc:    "The clock of another machine differs from the clock of teescope's machine by more than a second. Durations stay right, because each is measured by one clock. But certificates and evidence may be refused, and logs and stored series do not line up with the runs.",
	Effect: "a warning",
	Help:   "set the clocks by NTP (chronyc tracking, timedatectl) and run again",
	check: func(p *guardRun) {
		say := func(s scope, who string, c *result.ClockOffset) {
			side := "ahead of"
			if c.Seconds < 0 {
				side = "behind"
			}
			p.report(warn, s, values{"seconds": c.Seconds}, "the clock of %s is %s %s teescope's clock (uncertainty %s)", who, time.Duration(math.Abs(c.Seconds)*1e9).Round(100*time.Millisecond), side, metric.Value(c.Uncertainty, "seconds"))
		}
		for i := range p.e.Environments {
			e := &p.e.Environments[i]
			switch {
			case clocksDiffer(e.Clock):
				say(scope{arm: e.ID}, e.ID, e.Clock)
			case e.Clock == nil && isRemote(e):
				p.unknown(scope{arm: e.ID}, "whether the clock of %s agrees with teescope's clock: the clock was not reported", e.ID)
			}
		}
		if c := p.e.Design.ClientClock; clocksDiffer(c) {
			say(scope{}, p.e.Design.Client, c)
		}
	},
}
