// Package probe runs metric sources. A Source is a description and touches
// nothing; its Reader is the live object. The engine owns clock, goroutine,
// self accounting and the settings that change at run time, so a source has
// no ticker, goroutine or logger. The members are in probe/sources.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/budget"
	"github.com/teescope/teescope/internal/probe/estimate"
	"github.com/teescope/teescope/internal/tee"
)

// Source describes where a set of metrics comes from.
type Source struct {
	Name, Doc string
	// Metrics is everything the source may emit; emitting anything else fails its test.
	Metrics []*metric.Desc
	// Levels are the levels of detail, cheapest first. Users choose one, and the
	// budget steps down. Without any, the source has one level. It opens at the first.
	Levels []Level
	// OptIn sources stay off until a setting switches them on. SwitchOn tells users how where it is not that of the source.
	OptIn    bool
	SwitchOn string
	// Exact, where not nil, names what the kernel counts itself of the source's events.
	Exact *estimate.Exact
	// Files, where not nil, are the files that it reads and that the configuration may name otherwise; its Reader is a Follower.
	Files *Files
	// Waits, where not nil, switches the source on and off; see there.
	Waits *Waits
	// Needs lists what the process must be allowed beyond reading public files.
	Needs []Need
	// Kernels, Cost and Blind are sentences or "" for the documents: the kernel's
	// version and configuration, the cost of an event or a reading and how it was
	// measured, and what the source cannot see.
	Kernels, Cost, Blind string
	// Open attaches or opens what the source reads. An error that wraps
	// errors.ErrUnsupported means that the machine has no such thing, which is no
	// fault; any other, that it is unavailable. Wrap with Problem to add advice.
	Open func(*host.Host, []tee.Facts) (Reader, error)
}

// Files are the patterns of the files that a source reads.
type Files struct {
	// What they are, as the page names them: "Logs of Gramine".
	What string
	// Default is read without a setting; Example is one where that is none.
	Default []string
	Example string
}

// InKernel reports whether the source works in the kernel, on events: while it is open,
// what it counts costs more.
func (s *Source) InKernel() bool {
	return slices.ContainsFunc(s.Needs, func(n Need) bool { return n.Capability == "cap_bpf" })
}

// Level is a level of detail.
type Level struct{ Name, Doc string }

// Need is a capability and its purpose. Without an Optional one the source lacks a
// part; without any other it is unavailable.
type Need struct {
	// Capability is the name of capabilities(7) in lower case, such as "cap_bpf".
	Capability string
	For        string
	Optional   bool
	// Open: only opening needs it; it may be dropped afterwards.
	Open bool
}

// Scope is what a source is narrowed to; the zero value is everything. All filters
// that are set must match.
type Scope struct {
	// Process is matched against process names, unanchored.
	Process *metric.NamePattern
	// PIDs are process ids of the machine; each also gets its own series.
	PIDs []int
	// Cgroup is matched against the path of a process's control group, Container
	// against the name and the id of its container, both unanchored.
	Cgroup, Container *regexp.Regexp
}

// narrow reports whether it leaves out processes before they are counted.
func (s Scope) narrow() bool { return len(s.PIDs) > 0 || s.Cgroup != nil || s.Container != nil }

// Adjustable is implemented by Readers that have levels, or that save work when
// they are narrowed. The engine calls it after opening if a setting requires it,
// and at each change. Counts are kept.
type Adjustable interface {
	Adjust(level string, scope Scope) error
}

// Follower is implemented by Readers of files that users name, such as a runtime's
// logs. Patterns are those of path/filepath.Match. The engine calls it after opening
// if a setting names some, and at each change; none means the source's own.
type Follower interface {
	Follow(patterns []string) error
}

// Governed is implemented by Readers that work in the kernel on every event and
// are cheap to detach and attach. Its methods may be called while Read runs.
type Governed interface{ budget.Governed }

// Steady is implemented by Governed readers whose cost does not grow with the load
// and on which explanations rest. The budget sets their cost aside before it
// divides the rest.
type Steady interface {
	Governed
	Steady()
}

// Unhurried is implemented by Readers that also work between two readings, and can do so less often. The
// engine says how many times less often, 1 for as usual, with every reading.
type Unhurried interface {
	Slow(times int)
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

// FromZero is implemented by Readers whose counters and histograms are all 0 when
// opened. A series that appears in a later round was 0 in the round before, so its
// whole first value was counted in between.
type FromZero interface {
	Reader
	FromZero()
}

// Problem is an error with advice: what failed, and what to do.
type Problem struct {
	Err    error
	Remedy string
	// Blind: the hardware or hypervisor hides the values; no setting brings them.
	Blind bool
}

func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap makes errors.Is see the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Denied adds advice to an error that is a lack of permission; any other stays as it is.
func Denied(err error, remedy string) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Problem{Err: err, Remedy: remedy}
	}
	return err
}

// Remedy returns the advice on a shortage that err has for its cause, else the advice that it carries, or "".
func Remedy(err error) string {
	if r := host.Shortage(err); r != "" {
		return r
	}
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

// Metrics about sources. Readers may emit Coverage, Missed and Folded, without
// labels; the engine emits the rest.
var (
	Up = &metric.Desc{Name: "teescope_source_up", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Whether the source delivered values in the last round, 1 or 0; absent if the machine lacks what the source reads."}
	BlindDesc = &metric.Desc{Name: "teescope_source_blind", Kind: metric.Gauge, Labels: []string{"source", "reason"},
		Help: "1 where hardware, hypervisor or budget hides the source's values, with the reason."}
	Coverage = &metric.Desc{Name: "teescope_source_coverage_ratio", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Share of all events that the source counted in the last round, as a ratio; 1 is every event. Below 1 its counters are scaled to all events."}
	Missed = &metric.Desc{Name: "teescope_source_missed_events_total", Kind: metric.Counter, Labels: []string{"source"},
		Help: "Events that the source saw but could not count, from the kernel's own miss counters."}
	Folded = &metric.Desc{Name: "teescope_series_folded_total", Kind: metric.Counter, Labels: []string{"source"},
		Help: "Events counted under the label value other because a bounded table was full; sums stay exact."}
	StandardError = &metric.Desc{Name: "teescope_source_standard_error_ratio", Kind: metric.Gauge, Most: metric.Unlimited, Labels: []string{"source", "of"},
		Help: "Relative standard error of the source's scaled number of events in the last minute. of=sum: all its events. of=rest: only events without an exact count of the kernel; absent if the kernel counts none of them. The error of rest is the spread between windows, plus the bias of each window: counting slows the load inside a window, and a window closed early by the budget overestimates. The error of sum is that of rest times the share of rest. Absent if every event is counted."}
	ProcessError = &metric.Desc{Name: "teescope_process_standard_error_ratio", Kind: metric.Gauge, Most: metric.Unlimited, Labels: []string{"source", "process"},
		Help: "Relative standard error of a process's scaled number of events of a source in the last minute: the source's error of rest times the share of the process's events without an exact count of the kernel. Only for processes with 1 % or more of the source's events; absent if every event is counted."}
	SourceCPU = &metric.Desc{Name: "teescope_source_cpu_seconds_total", Labels: []string{"source"},
		Help: "CPU time of counting in the kernel in seconds, on all CPUs, including dispatch. Each event is charged the cost measured on this machine, or 150 ns before it was measured."}
	BudgetUsed = &metric.Desc{Name: "teescope_budget_used_ratio", Kind: metric.Gauge, Most: metric.Unlimited,
		Help: "Highest use of one core by teescope in any control period since the last round, as a ratio: its kernel programs on the busiest core, plus its process's CPU time divided by all cores."}
	SlowedDesc = &metric.Desc{Name: "teescope_slowed_ratio", Kind: metric.Gauge, Least: 1, Most: budget.MostSlowed,
		Help: "How many times less often than configured the scan of all threads and the rule anomaly run, because teescope's user space exceeds its part of the budget: 1, 2 or 4. Other rules keep their interval."}
	LevelDesc = &metric.Desc{Name: "teescope_source_level", Kind: metric.Gauge, Labels: []string{"source", "level"},
		Help: "1 for the level of detail at which the source works now."}
	ReadSeconds = &metric.Desc{Name: "teescope_source_read_seconds", Kind: metric.Gauge, Labels: []string{"source"},
		Help: "Wall time of the source's last read in seconds."}
)

// Values of the label "of" of StandardError: the events that the error refers to.
const (
	OfSum  = "sum"  // all events of the source
	OfRest = "rest" // events without an exact count of the kernel
)

// Metrics lists what the engine itself emits.
var Metrics = []*metric.Desc{Up, BlindDesc, Coverage, StandardError, ProcessError, Missed, Folded, LevelDesc, SourceCPU, ReadSeconds, BudgetUsed, SlowedDesc}
