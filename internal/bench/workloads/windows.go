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
)

// Some workloads repeat one operation in windows, and print a line at both ends
// of each (workloads/micro/measure.h). The time of a window is that between the
// arrivals of the two lines, by the harness's clock, because a clock inside a TEE
// may be slow to ask, coarse or under the control of the host.
//
// What is fixed is the operation and the number of windows; the operations in a
// window are counted by the worker so that a window takes about as long
// everywhere, and the cost per operation is compared. A fixed count would give
// windows of microseconds in one arm, lost in the jitter of the arrivals, or of
// minutes in the other: the arms of a system call differ by a factor of 150. That
// the count does not change the cost per operation is what the steady state of
// the windows shows. The parameter operations fixes the count where that is
// wanted. Either way each operation's answer is verified.

// clockDisagreement is shared by the workloads with windows.
var clockDisagreement = &metric.Desc{Name: "clock_disagreement_ratio", Unit: "ratio", Kind: metric.Gauge, Better: metric.Lower,
	Help: "How far the time of the windows by the worker's own clock is from that by the harness's, as a ratio: above some 0.03 one of the clocks, or the way of the lines to the harness, is not to be trusted."}

// windowParams are the parameters of a workload with windows.
func windowParams(window string) []bench.Param {
	return []bench.Param{
		{Name: "windows", Doc: "Number of timed windows in a run.", Default: "20"},
		{Name: "window", Doc: "Length of a window; 100 times the jitter of a line's arrival at least.", Default: window},
		{Name: "operations", Doc: "Operations in a window; 0 for as many as fill it.", Default: "0"},
	}
}

// windowArgs are the worker's arguments for them.
func windowArgs(p bench.Params) ([]string, error) {
	windows, err := p.Int("windows", 1)
	if err != nil {
		return nil, err
	}
	window, err := p.Seconds("window")
	if err != nil {
		return nil, err
	}
	if window < time.Millisecond {
		return nil, fmt.Errorf("parameter window=%q: want 1ms or more", p["window"])
	}
	operations, err := p.Int("operations", 0)
	if err != nil {
		return nil, err
	}
	if windows > 10_000 {
		return nil, fmt.Errorf("parameter windows=%d: want at most 10000", windows)
	}
	return []string{fmt.Sprint(windows), fmt.Sprint(window.Milliseconds()), fmt.Sprint(operations)}, nil
}

// windowTime is about how long the windows and their calibration take.
func windowTime(p bench.Params) time.Duration {
	windows, err := p.Int("windows", 1)
	window, err2 := p.Seconds("window")
	if err != nil || err2 != nil {
		return time.Second // Job says what is wrong
	}
	return time.Duration(windows+1) * window
}

// window is what was done in one window, and how long it took by the clocks of
// the harness and of the worker.
type window struct {
	operations      uint64
	outside, inside time.Duration
}

// record is the output of a worker with windows.
type record struct {
	windows []window
	whole   window // the sum of all
	wrong   uint64 // operations that gave a wrong answer
	others  []string
}

// readWindows reads the lines of a run. An output that is not whole is an error.
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
				return r, fmt.Errorf("the worker said %.60q in the wrong place", line.Text)
			}
			if v[0] == uint64(len(r.windows)) {
				r.windows = append(r.windows, window{})
			}
			open, from = len(r.windows)-1, line.At
		case "end":
			v, err := numbers(rest, 3)
			if err != nil || open < 0 || v[0] != uint64(open) || v[1] == 0 {
				return r, fmt.Errorf("the worker said %.60q in the wrong place", line.Text)
			}
			for _, w := range []*window{&r.windows[open], &r.whole} {
				w.operations += v[1]
				w.outside += line.At - from
				w.inside += time.Duration(v[2])
			}
			open = -1
		default:
			r.others = append(r.others, line.Text)
		}
	}
	last := o.Lines[len(o.Lines)-1].Text
	rest, ok := strings.CutPrefix(last, "done ")
	v, err := numbers(rest, 2)
	if !ok || err != nil || open >= 0 {
		return r, fmt.Errorf("the worker ended with %.60q, want its line \"done\"", last)
	}
	if len(r.windows) == 0 || v[0] != r.whole.operations {
		return r, fmt.Errorf("the worker did %d operations, but its windows have %d", v[0], r.whole.operations)
	}
	for i, w := range r.windows {
		if w.operations == 0 || w.outside <= 0 {
			return r, fmt.Errorf("the lines around window %d arrived together: the harness was late (the machine is busy; a longer window helps), or something on the way holds output back", i)
		}
	}
	r.wrong = v[1]
	return r, nil
}

// numbers reads n whole numbers, each of at most 2^53, so that as many as fit
// into an output add up without overflow.
func numbers(s string, n int) ([]uint64, error) {
	fields := strings.Fields(s)
	if len(fields) != n {
		return nil, fmt.Errorf("%.60q: want %d numbers", s, n)
	}
	out := make([]uint64, n)
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil || v > 1<<53 {
			return nil, fmt.Errorf("%.60q: want %d whole numbers", s, n)
		}
		out[i] = v
	}
	return out, nil
}

// check says whether the record holds the work that the parameters ask for.
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
		return fmt.Errorf("%d windows, want %d", len(r.windows), windows)
	}
	for i, w := range r.windows {
		if operations > 0 && w.operations != uint64(operations) {
			return fmt.Errorf("window %d has %d operations, want %d", i, w.operations, operations)
		}
	}
	if r.wrong > 0 {
		return fmt.Errorf("%d of %d operations gave a wrong answer", r.wrong, r.whole.operations)
	}
	return nil
}

// cost is the seconds of one operation on the harness's clock.
func (w window) cost() float64 { return w.outside.Seconds() / float64(w.operations) }

// disagreement is the sample of clockDisagreement.
func (r record) disagreement() metric.Sample {
	return metric.Sample{Desc: clockDisagreement, Trust: metric.Derived,
		Value: math.Abs(r.whole.inside.Seconds()/r.whole.outside.Seconds() - 1)}
}

// windowSeries makes a workload's Series from the value of a window.
func windowSeries(value func(bench.Params, window) float64) func(bench.Outcome) (bench.Series, error) {
	return func(o bench.Outcome) (bench.Series, error) {
		r, err := readWindows(o.Inside)
		if err != nil {
			return bench.Series{}, err
		}
		s := bench.Series{Width: r.whole.outside.Seconds() / float64(len(r.windows))}
		for _, w := range r.windows {
			s.Values = append(s.Values, value(o.Params, w))
		}
		return s, nil
	}
}
