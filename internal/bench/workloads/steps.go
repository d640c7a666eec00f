package workloads

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// steps are those of a program that says when each begins and ends: how long each took by the harness's clock, and how often it was there.
type steps struct {
	took  map[string]time.Duration
	times map[string]int
}

// together is why a step has no time of its own.
const together = "the first and last line of the timed part arrived together"

// harnessSeconds is the time of a step in seconds by the harness's clock; NaN if its lines arrived together or are not there.
func (s *steps) harnessSeconds(step string) float64 { return positive(s.took[step].Seconds()) }

// positive is v, or NaN where it is not above 0, as what is not reported.
func positive(v float64) float64 {
	if !(v > 0) {
		return math.NaN()
	}
	return v
}

// readSteps reads an output: lines "begin STEP" and "end STEP" around each step, and the report in the last line. of names the program in errors.
func readSteps(of string, o host.Output, report any) (steps, error) {
	s := steps{map[string]time.Duration{}, map[string]int{}}
	if len(o.Lines) == 0 || !bytes.HasSuffix(o.Stdout, []byte("\n")) {
		return s, fmt.Errorf("the %s's output is cut off", of)
	}
	last := len(o.Lines) - 1
	if err := readReport(of, []byte(o.Lines[last].Text), report); err != nil {
		return s, err
	}
	for i := 0; i < last; i += 2 {
		begin := o.Lines[i]
		step, begun := strings.CutPrefix(begin.Text, "begin ")
		if !begun || i+1 == last || o.Lines[i+1].Text != "end "+step {
			return s, fmt.Errorf("the %s printed the line %.60q in the wrong place", of, begin.Text)
		}
		s.took[step] += o.Lines[i+1].At - begin.At
		s.times[step]++
	}
	return s, nil
}
