package prices

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/stats"
)

// rounds is how often each job is run; a run of the common kind has seven windows
// of a millisecond, in five batches each.
const rounds = 3

// leastBatches are needed for a spread; a round that is complete has as many or more.
const leastBatches = 20

// windows are the last words of a job that is measured in timed windows (see
// workloads/micro/measure.h): seven of a millisecond, as many operations as fit,
// no warm-up but that of finding their number. The word in front of a job is the
// clock (workloads/micro/calm.c).
var windows = []string{"7", "1", "0", "0"}

func timed(args ...string) []string { return slices.Concat(args, windows) }

// jobs are the runs of the worker that the events of All need, by name, and why
// this machine can have none for an event.
func jobs(h *host.Host) (out map[string][]string, none map[string]error) {
	out, none = map[string][]string{}, map[string]error{}
	for _, p := range All {
		maps.Copy(out, p.jobs)
		if p.prepare == nil {
			continue
		}
		made, err := p.prepare(h)
		if err != nil {
			none[p.Event] = err
		}
		maps.Copy(out, made)
	}
	return out, none
}

// absent is a unit that no machine's calibration has.
func absent(why string) func(*worker) (Unit, error) {
	return func(*worker) (Unit, error) { return Unit{}, errors.New(why) }
}

// direct is the cost of a job's operation.
func direct(job string) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		r, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		u := r.unit()
		return u, u.check()
	}
}

// switches is half a round trip less a part of the two calls that an end of it makes.
func switches(job string, part float64) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		trip, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		calls, err := w.readings("calls")
		if err != nil {
			return Unit{}, err
		}
		u, own := trip.unit(), calls.unit()
		u.Seconds = u.Seconds/2 - part*own.Seconds
		u.Low, u.High = u.Low/2-part*own.High, u.High/2-part*own.Low
		return u, u.check()
	}
}

// unseen is the part of a job's operation that samples of its CPU time do not find
// in the kernel: it combines the binomial error of their share with the spread of
// the operation's cost.
func unseen(job string) func(*worker) (Unit, error) {
	return func(w *worker) (Unit, error) {
		s, err := w.readings("sampled " + job)
		if err != nil {
			return Unit{}, err
		}
		r, err := w.readings(job)
		if err != nil {
			return Unit{}, err
		}
		n := float64(s.user + s.kernel + s.other)
		if n < leastSamples {
			return Unit{}, fmt.Errorf("the CPU clock gave only %g samples, want %d", n, leastSamples)
		}
		p := float64(s.user) / n
		off := 1.96 * math.Sqrt(p*(1-p)/n)
		whole, loop := r.unit(), stats.Median(s.loop)
		u := Unit{Seconds: p*whole.Seconds - loop, Low: max(0, p-off)*whole.Low - loop, High: min(1, p+off)*whole.High - loop,
			Batches: whole.Batches, Operations: s.operations}
		return u, u.check()
	}
}

// leastSamples bring the standard error of a share below 1.6 points.
const leastSamples = 1000

// unit is the spread of what was read.
func (r *readings) unit() Unit {
	x := slices.Sorted(slices.Values(r.seconds))
	cut := int(0.025 * float64(len(x))) // that many lie outside on either side
	return Unit{Seconds: stats.Median(x), Low: x[cut], High: x[len(x)-1-cut], Batches: len(x), Operations: r.operations}
}

// check refuses what is no cost, as a difference of two measurements may be, and
// leaves no bound below 0.
func (u *Unit) check() error {
	if !(u.Seconds > 0) || math.IsInf(u.High, 0) {
		return fmt.Errorf("it is too small to be distinguished from 0 (%.3g s, between %.3g and %.3g)", u.Seconds, u.Low, u.High)
	}
	u.Low = max(0, u.Low)
	return nil
}
