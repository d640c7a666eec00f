// clock: the tests of this file run in bubbles of testing/synctest.
package probe

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestSampleRises: a source that the user samples and whose load rises is seen
// in every period as long as it fits into the budget.
func TestSampleRises(t *testing.T) {
	l := newLoad(88e-9, 1000, 1000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		tenth := 0.1
		if err := e.Set("x", Setting{Sample: &tenth}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		l.set(func(time.Time) []float64 { return []float64{30e3, 30e3} })
		for i := range 20 {
			time.Sleep(time.Second)
			if _, samples := e.Collect(t.Context()); i > 0 {
				if c := value(t, samples, Coverage, "x"); !(c > 0.08 && c < 0.12) {
					t.Errorf("second %d: coverage %g", i, c)
				}
			}
		}
	})
}

// TestSampleLimit: a user's sampling rate holds without any pressure.
func TestSampleLimit(t *testing.T) {
	l := newLoad(88e-9, 1000, 1000)
	govern(t, 0.01, []*load{l}, func(e *Engine) {
		tenth := 0.1
		if err := e.Set("x", Setting{Sample: &tenth}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		e.Collect(t.Context())
		before, _ := l.sofar()
		_, samples := e.Collect(t.Context())
		was := value(t, samples, calls, "a")
		time.Sleep(50 * time.Second)
		_, samples = e.Collect(t.Context())
		if c := value(t, samples, Coverage, "x"); c < 0.08 || c > 0.12 {
			t.Errorf("coverage %g", c)
		}
		after, _ := l.sofar()
		if got, want := value(t, samples, calls, "a")-was, after-before; math.Abs(got/want-1) > 0.02 {
			t.Errorf("estimates %g of %g steady events", got, want)
		}
		for _, bad := range []float64{0, -1, 1.1, math.NaN()} {
			if err := e.Set("x", Setting{Sample: &bad}); err == nil {
				t.Errorf("a sample of %g is taken", bad)
			}
		}
	})
}

func TestBadSettings(t *testing.T) {
	f := &fake{}
	e := Open(clock(), nil, []*Source{f.source("x")}, nil)
	half, bad, none, long := 0.5, "(", "no-such", strings.Repeat("a", mostFilter+1)
	many := make([]int, MaxPIDs+1)
	for name, s := range map[string]Setting{
		"sampling of files": {Sample: &half}, "bad cgroup": {Cgroup: &bad}, "bad container": {Container: &bad},
		"unknown level": {Level: &none}, "too many processes": {PIDs: &many}, "process 0": {PIDs: &[]int{0}},
		"files of a source that reads none": {Files: &[]string{"/x"}}, "long filter": {Cgroup: &long}, "long filter of names": {Process: &long},
	} {
		t.Run(name, func(t *testing.T) {
			if err := e.Set("x", s); err == nil {
				t.Errorf("%s is taken", name)
			}
		})
	}
}
