package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// StartTime is the metric whose values are starts of processes, in seconds since 1970. Every process that a reading
// sees has a series of it, by the label process.
const StartTime = "tee_process_start_time_seconds"

// Machine names a machine by the labels that all its series have.
type Machine struct {
	Job      string `json:"job,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// MachineOf returns the machine of a series; its names are "" where the labels have none.
func MachineOf(labels map[string]string) Machine {
	return Machine{Job: labels["job"], Instance: labels["instance"]}
}

// Matchers selects the machine's series, as they stand between the braces of a selector.
func (m Machine) Matchers() string { return fmt.Sprintf("job=%q,instance=%q", m.Job, m.Instance) }

// Selector writes metric{name="value",...} as PromQL does, ordered by name.
func Selector(metric string, labels map[string]string) string {
	return metric + "{" + MatchersOf(labels, slices.Collect(maps.Keys(labels))...) + "}"
}

// MatchersOf returns the matchers of the labels with these names that are there, ordered by name.
func MatchersOf(labels map[string]string, names ...string) string {
	var out []string
	for _, name := range slices.Sorted(slices.Values(names)) {
		if value, ok := labels[name]; ok {
			out = append(out, fmt.Sprintf("%s=%q", name, value))
		}
	}
	return strings.Join(out, ",")
}

// MatchersFor returns the matchers of pairs of a label's name and value, in their order.
func MatchersFor(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("%s=%q", pairs[i], pairs[i+1]))
	}
	return strings.Join(out, ",")
}

// PromDuration writes a duration as PromQL does ("5m", "90s", "1500ms").
func PromDuration(d time.Duration) string {
	for _, u := range []struct {
		size time.Duration
		name string
	}{{time.Minute, "m"}, {time.Second, "s"}} {
		if d%u.size == 0 {
			return fmt.Sprintf("%d%s", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%dms", max(1, d.Milliseconds()))
}
