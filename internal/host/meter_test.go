package host

import (
	"sync"
	"testing"
	"time"
)

// TestMeter: what runs is counted and what waits is not, on every thread.
func TestMeter(t *testing.T) {
	const each = 30 * time.Millisecond
	var m Meter
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			m.Run(func() {
				for begin := threadCPU(); threadCPU()-begin < each; {
				}
				time.Sleep(200 * time.Millisecond)
			})
		})
	}
	all.Wait()
	// Waiting costs a few microseconds of CPU time.
	if got := m.CPU(); got < 3*each || got > 3*(each+100*time.Millisecond) {
		t.Errorf("%v, want %v", got, 3*each)
	}
	ran := false
	(*Meter)(nil).Run(func() { ran = true })
	if !ran || (*Meter)(nil).CPU() != 0 {
		t.Error("a nil meter did not run it")
	}
}
