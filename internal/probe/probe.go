// Package probe runs metric sources. A Source is a description and touches
// nothing; its Reader is the live object. The engine owns clock, goroutine,
// self accounting and the settings that change at run time, so that a source
// has no ticker, no goroutine and no logger. The members are in probe/sources.
package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// Source describes where a set of metrics comes from.
type Source struct {
	Name, Doc string
	// Metrics is everything the source may emit; emitting anything else fails its test.
	Metrics []*metric.Desc
	// Open attaches or opens what the source reads. An error that wraps
	// errors.ErrUnsupported means the machine has no such thing, which is no
	// fault; any other means it could not be had. Wrap with Problem to say what
	// would help.
	Open func(*host.Host, []tee.Facts) (Reader, error)
}

// Reader is an open source.
type Reader interface {
	// Read emits the current values. It may emit some and still return an error
	// that says what was lost; the source then counts as degraded. Besides the
	// source's own metrics it may emit Coverage, Missed and Folded, without
	// labels: the engine adds the source's name.
	Read(ctx context.Context, emit func(metric.Sample)) error
	Close() error
}

// Problem is an error with advice: what stands in the way and what would
// remove it.
type Problem struct {
	Err    error
	Remedy string
	// Blind: the hardware or hypervisor hides the values; no setting brings them.
	Blind bool
}

func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap makes errors.Is see the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Remedy returns the advice that err carries, or "".
func Remedy(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Remedy
	}
	return ""
}

// Blind reports whether err says that the hardware hides the values.
func Blind(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Blind
}

// NotHere is the error of a source whose subject this machine lacks.
func NotHere(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errors.ErrUnsupported)...)
}

// What teescope says of its sources. Readers emit Coverage, Missed and Folded
// without labels where they have something to say; the engine emits the rest.
var (
	Up = &metric.Desc{Name: "teescope_source_up", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Whether the source delivered in the last round, 1 or 0; absent for what this machine does not have."}
	BlindDesc = &metric.Desc{Name: "teescope_source_blind", Kind: metric.Gauge, Labels: []string{"source", "reason"},
		Help: "1 where hardware or hypervisor hides the source's values, with the reason."}
	Coverage = &metric.Desc{Name: "teescope_source_coverage_ratio", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Share of all events that the source counted since it was opened, as a ratio; 1 is every event."}
	Missed = &metric.Desc{Name: "teescope_source_missed_events_total", Kind: metric.Counter, Labels: []string{"source"},
		Help: "Events that the source saw but could not count, from the kernel's own miss counters."}
	Folded = &metric.Desc{Name: "teescope_series_folded_total", Kind: metric.Counter, Labels: []string{"source"},
		Help: "Events counted under the label value other because a bounded table was full; sums stay exact."}
	ReadSeconds = &metric.Desc{Name: "teescope_source_read_seconds", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Wall time of the source's last read in seconds."}
)

// Metrics lists what the engine itself emits.
var Metrics = []*metric.Desc{Up, BlindDesc, Coverage, Missed, Folded, ReadSeconds}
