package workloads

import (
	"errors"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

// TestFirstTouchHere: this machine's kernel counts one fault for each new page, as often as it is mapped anew.
func TestFirstTouchHere(t *testing.T) {
	for page, want := range map[string]float64{"4KiB": 4096, "2MiB": 8} { // the worker may have faults of its own besides
		t.Run(page, func(t *testing.T) {
			p, err := bench.Complete("workload", firstTouch.Params, bench.Params{"page": page, "size": "16MiB"})
			if err != nil {
				t.Fatal(err)
			}
			var o bench.Outcome
			var samples []metric.Sample
			await.Event(t, "the machine is in time for the short parts", func() error {
				o = runHere(t, &firstTouch, p)
				samples, err = firstTouch.Parse(o)
				if err != nil && strings.Contains(err.Error(), "arrived together") {
					return err
				}
				return nil
			})
			if len(samples) == 0 {
				t.Fatal(err)
			}
			if _, err := firstTouch.Check(o); err != nil && strings.Contains(err.Error(), "smaller pages") {
				t.Skipf("the machine has no huge pages left: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, s := range samples {
				got[s.Desc.Name] = s.Value
			}
			for _, d := range []*metric.Desc{firstFaults, secondFaults} {
				if v, ok := got[d.Name]; ok && (v < want || v > want+otherFaults) {
					t.Errorf("%s is %v, want %v to %v", d.Name, v, want, want+otherFaults)
				} else if !ok && !strings.Contains(err.Error(), "counts no page faults") {
					t.Errorf("%s is missing: %v", d.Name, err)
				}
			}
			for _, d := range []*metric.Desc{firstTouchSeconds, secondTouchSeconds, touchAgainSeconds, firstGibibyte, secondGibibyte, firstOverSecond} {
				if !(got[d.Name] > 0) {
					t.Errorf("%s is %v", d.Name, got[d.Name])
				}
			}
			t.Log(got, err)
		})
	}
}

// TestFirstTouchRefuses: memory that is not there, and a size that is no number of pages, end in one line with the reason.
func TestFirstTouchRefuses(t *testing.T) {
	for size, want := range map[string]string{"1125899906842624": "available", "5000": "pages"} {
		t.Run(size, func(t *testing.T) {
			job, err := microJob("first-touch", "4KiB", size)
			if err != nil {
				t.Fatal(err)
			}
			w := bench.Workload{Job: func(bench.Params) (bench.Job, error) { return job, nil }}
			out, err := tryHere(t, &w, nil)
			if err == nil || !strings.Contains(string(out.Inside.Stderr), want) || strings.Count(string(out.Inside.Stderr), "\n") != 1 {
				t.Errorf("%s bytes: %v, %q; want %q in one line", size, err, out.Inside.Stderr, want)
			}
		})
	}
}

// TestAccepted: accepted memory is a difference of two readings, and absent where there is none.
func TestAccepted(t *testing.T) {
	for _, f := range fixtures(t) {
		if f.label() != firstTouch.Name {
			continue
		}
		whole := f.outcome(t, "good")
		for name, c := range map[string]struct {
			before, after string
			want          float64
			reason        string
		}{
			"lazy":   {"2097152", "2031616", 64 << 20, ""},
			"eager":  {"0", "0", 0, ""},
			"none":   {"none", "none", -1, "no line Unaccepted"},
			"grown":  {"10", "20", -1, "gave the guest more"},
			"once":   {"10", "none", -1, "at some steps, but not at all steps"},
			"absurd": {"10", "-3", -1, "want a valid line that begins with unaccepted"},
		} {
			o := whole
			text := strings.NewReplacer("unaccepted 2097152", "unaccepted "+c.before, "unaccepted 2031616", "unaccepted "+c.after).Replace(string(whole.Inside.Stdout))
			o.Inside.Stdout = []byte(text)
			o.Inside.Lines = linesOf(o.Inside.Stdout, 0)
			for i := range o.Inside.Lines {
				o.Inside.Lines[i].At = whole.Inside.Lines[i].At
			}
			samples, err := firstTouch.Parse(o)
			got := -1.0
			for _, s := range samples {
				if s.Desc == firstAccepted {
					got = s.Value
				}
			}
			if got != c.want || (c.reason == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s: %v, %v; want %v, %q", name, got, err, c.want, c.reason)
			}
		}
		return
	}
	t.Error(errors.New("no fixture"))
}
