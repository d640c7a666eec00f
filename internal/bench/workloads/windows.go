package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

// Some workloads repeat one operation in windows of a few parts, and print a line at both ends of
// each part (workloads/micro/measure.h). The time of a part is that between the arrivals of the
// two lines, by the harness's clock, because a clock inside a TEE may be slow, coarse or under
// the control of the host. A window's cost is the median of its parts, so an interruption of
// worker or harness spoils one part and not the window; a longer one shows in the windows.
//
// The operation and the number of windows are fixed; the worker chooses the operations per window
// so that a window has about the same length everywhere, and the cost per operation is compared.
// A fixed count would make windows of microseconds in one arm, lost in the jitter of the
// arrivals, or of minutes in the other: the arms of a system call differ by a factor of 150. The
// steady state of the windows shows that the count does not change the cost per operation. The
// parameter operations fixes the count if needed. Either way each operation's answer is verified.

// clockDisagreement is shared by the workloads with windows.
var clockDisagreement = quotient(&metric.Desc{Name: "clock_disagreement_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Lower,
	Help: "Relative difference between the cost on the worker's own clock and on the harness's clock. Above about 0.03, one of the clocks or the delivery of lines to the harness cannot be trusted."})

// windowParams are the parameters of a workload with windows.
func windowParams(window, warmup string) []bench.Param {
	return []bench.Param{
		{Name: "windows", Doc: "Number of timed windows in a run.", Default: "20"},
		{Name: "window", Doc: "Length of a window. A fifth of the length should be at least 100 times the jitter of a line's arrival.", Default: window},
		{Name: "operations", Doc: "Number of operations in a window. 0: as many as fit into the window.", Default: "0"},
		{Name: "warmup", Doc: "Minimum duration of the same work before the windows.", Default: warmup},
	}
}

// mostWindows keeps the lines of a run below the limit of package host.
const mostWindows = 2000

// windowArgs are the worker's arguments for windowParams.
func windowArgs(p bench.Params) ([]string, error) {
	windows, err := p.Int("windows", 1)
	if err != nil {
		return nil, err
	}
	window, err := p.Seconds("window")
	if err != nil {
		return nil, err
	}
	if window < time.Millisecond || window > time.Hour {
		return nil, fmt.Errorf("parameter window=%q: want 1ms to 1h", p["window"])
	}
	operations, err := p.Int("operations", 0)
	if err != nil {
		return nil, err
	}
	if windows > mostWindows {
		return nil, fmt.Errorf("parameter windows=%d: want at most %d", windows, mostWindows)
	}
	warmup, err := p.Seconds("warmup")
	if err != nil {
		return nil, err
	}
	if warmup > time.Hour {
		return nil, fmt.Errorf("parameter warmup=%q: want at most 1h", p["warmup"])
	}
	return []string{fmt.Sprint(windows), fmt.Sprint(window.Milliseconds()), fmt.Sprint(operations), fmt.Sprint(warmup.Milliseconds())}, nil
}

// windowTime is roughly the time of the windows and their calibration.
func windowTime(p bench.Params) time.Duration {
	windows, err := p.Int("windows", 1)
	window, err2 := p.Seconds("window")
	warmup, err3 := p.Seconds("warmup")
	if err != nil || err2 != nil || err3 != nil {
		return time.Second // Job reports what is wrong
	}
	return time.Duration(min(windows, mostWindows)+1)*min(window, time.Hour) + min(warmup, time.Hour)
}

// part is the operations of one stretch, and its time by the clocks of the harness and of the
// worker.
type part struct {
	operations      uint64
	outside, inside time.Duration
}

// byHarness and byWorker are the seconds of one operation.
func (p part) byHarness() float64 { return p.outside.Seconds() / float64(p.operations) }
func (p part) byWorker() float64  { return p.inside.Seconds() / float64(p.operations) }

// window is the parts between two gaps.
type window []part

func (w window) operations() (n uint64) {
	for _, p := range w {
		n += p.operations
	}
	return n
}

// cost is the median of the parts' costs by a clock.
func (w window) cost(by func(part) float64) float64 {
	var all []float64
	for _, p := range w {
		all = append(all, by(p))
	}
	return stats.Median(all)
}

// record is the output of a worker with windows.
type record struct {
	windows           []window
	operations, wrong uint64 // wrong: with an answer other than expected
	took              time.Duration
	others            []string // lines of other kinds
}

// cost is the median of the windows' costs by a clock.
func (r record) cost(by func(part) float64) float64 {
	var all []float64
	for _, w := range r.windows {
		all = append(all, w.cost(by))
	}
	return stats.Median(all)
}

// readWindows reads the lines of a run; a truncated output is an error.
func readWindows(o host.Output) (record, error) {
	var r record
	if len(o.Lines) == 0 || !bytes.HasSuffix(o.Stdout, []byte("\n")) {
		return r, errors.New("the worker's output is cut off")
	}
	open, from := -1, time.Duration(0)
	for _, line := range o.Lines[:len(o.Lines)-1] {
		word, rest, _ := strings.Cut(line.Text, " ")
		switch word {
		case "begin":
			v, err := numbers(rest, 1)
			if err != nil || open >= 0 || v[0] != uint64(len(r.windows)) && v[0]+1 != uint64(len(r.windows)) {
				return r, fmt.Errorf("the worker printed the line %.60q in the wrong place", line.Text)
			}
			if v[0] == uint64(len(r.windows)) {
				r.windows = append(r.windows, nil)
			}
			open, from = len(r.windows)-1, line.At
		case "end":
			v, err := numbers(rest, 3)
			if err != nil || open < 0 || v[0] != uint64(open) || v[1] == 0 {
				return r, fmt.Errorf("the worker printed the line %.60q in the wrong place", line.Text)
			}
			p := part{v[1], line.At - from, time.Duration(v[2])}
			r.windows[open] = append(r.windows[open], p)
			r.operations += p.operations
			r.took += p.outside
			open = -1
		default:
			r.others = append(r.others, line.Text)
		}
	}
	last := o.Lines[len(o.Lines)-1].Text
	rest, ok := strings.CutPrefix(last, "done ")
	v, err := numbers(rest, 2)
	if !ok || err != nil || open >= 0 {
		return r, fmt.Errorf("the worker's last line is %.60q, want a line that begins with \"done\"", last)
	}
	if len(r.windows) == 0 || v[0] != r.operations {
		return r, fmt.Errorf("the worker reports %d operations, but the windows add up to %d operations", v[0], r.operations)
	}
	for i, w := range r.windows {
		if w.cost(part.byHarness) <= 0 {
			return r, fmt.Errorf("the first and last line of window %d arrived together. Either the machine was too busy to read the lines in time (set a longer window), or a program on the way buffers the output", i)
		}
	}
	r.wrong = v[1]
	return r, nil
}

// numbers reads n whole numbers, each of at most 2^46 (19 hours in nanoseconds), so the 100,000
// lines of an output add up without overflow.
func numbers(s string, n int) ([]uint64, error) {
	fields := strings.Fields(s)
	if len(fields) != n {
		return nil, fmt.Errorf("%.60q: want %d numbers", s, n)
	}
	out := make([]uint64, n)
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil || v > 1<<46 {
			return nil, fmt.Errorf("%.60q: want %d whole numbers", s, n)
		}
		out[i] = v
	}
	return out, nil
}

// check refuses a record without the work that the parameters ask for.
func (r record) check(p bench.Params) error {
	windows, err := p.Int("windows", 1)
	if err != nil {
		return err
	}
	operations, err := p.Int("operations", 0)
	if err != nil {
		return err
	}
	if int64(len(r.windows)) != windows {
		return fmt.Errorf("the worker made %d windows, want %d", len(r.windows), windows)
	}
	for i, w := range r.windows {
		if n := w.operations(); operations > 0 && n != uint64(operations) {
			return fmt.Errorf("window %d has %d operations, want %d", i, n, operations)
		}
	}
	if r.wrong > 0 {
		return fmt.Errorf("%d of %d operations gave a wrong answer", r.wrong, r.operations)
	}
	return nil
}

// disagreement is the sample of clockDisagreement.
func (r record) disagreement() metric.Sample {
	return metric.Sample{Desc: clockDisagreement, Trust: metric.Derived,
		Value: math.Abs(r.cost(part.byWorker)/r.cost(part.byHarness) - 1)}
}

// windowSeries makes a workload's Series; value is its primary metric for a cost.
func windowSeries(value func(p bench.Params, cost float64) float64) func(bench.Outcome) (bench.Series, error) {
	return func(o bench.Outcome) (bench.Series, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return bench.Series{}, err
		}
		s := bench.Series{Width: r.took.Seconds() / float64(len(r.windows))}
		for _, w := range r.windows {
			s.Values = append(s.Values, value(o.Params, w.cost(part.byHarness)))
		}
		return s, nil
	}
}
