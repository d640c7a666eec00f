package host

import (
	"fmt"
	"time"
)

// PerfEvent is what a counter counts: type and config of perf_event_open(2).
type PerfEvent struct {
	Type   uint32
	Config uint64
}

// PerfTarget is whose events are counted: those of a thread and of the threads
// that it makes, or, where Thread is 0, those of a CPU.
type PerfTarget struct{ Thread, CPU int }

// String names the target in messages.
func (t PerfTarget) String() string {
	if t.Thread > 0 {
		return fmt.Sprintf("thread %d", t.Thread)
	}
	return fmt.Sprintf("CPU %d", t.CPU)
}

// PerfGroup is an open group of counters, of which the hardware has either all
// or none at work, so that their ratios are right.
type PerfGroup interface {
	// Read returns what was counted since the group was opened. An error means
	// that the group counts no more, as after its CPU was taken away.
	Read() (PerfReading, error)
	Close() error
}

// PerfReading is the state of a group. Where it has to share the hardware's
// counters with others, Running is less than Enabled.
type PerfReading struct {
	Enabled, Running time.Duration
	Values           []uint64 // one for each event
}
