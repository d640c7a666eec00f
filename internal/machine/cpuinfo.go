package machine

import (
	"iter"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// CPUInfo is the text of /proc/cpuinfo. Its fields differ between architectures.
type CPUInfo string

// ReadCPUInfo reads /proc/cpuinfo.
func ReadCPUInfo(h *host.Host) (CPUInfo, error) {
	s, err := h.ReadString("/proc/cpuinfo")
	return CPUInfo(s), err
}

// Fields yields every line "name: value" of all processors, in order.
func (c CPUInfo) Fields() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(string(c)) {
			k, v, ok := strings.Cut(line, ":")
			if ok && !yield(strings.TrimSpace(k), strings.TrimSpace(v)) {
				return
			}
		}
	}
}

// First is the part of the first processor: the first lines that are fields.
func (c CPUInfo) First() CPUInfo {
	at, begun := 0, false
	for line := range strings.Lines(string(c)) {
		field := strings.Contains(line, ":")
		if begun && !field {
			return c[:at]
		}
		at, begun = at+len(line), begun || field
	}
	return c
}

// Map returns the fields by name. Of a name that occurs twice the first value
// that is not empty counts.
func (c CPUInfo) Map() map[string]string {
	out := map[string]string{}
	for k, v := range c.Fields() {
		if out[k] == "" {
			out[k] = v
		}
	}
	return out
}

// Value returns the first field of a name, and whether there is one.
func (c CPUInfo) Value(name string) (string, bool) {
	for k, v := range c.Fields() {
		if k == name {
			return v, true
		}
	}
	return "", false
}

// Processors counts the processors listed.
func (c CPUInfo) Processors() int {
	n := 0
	for k := range c.Fields() {
		if k == "processor" {
			n++
		}
	}
	return n
}

// Hertz yields the "cpu MHz" of each processor that has one, in hertz.
func (c CPUInfo) Hertz() iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		cpu := -1
		for k, v := range c.Fields() {
			switch k {
			case "processor":
				var err error
				if cpu, err = strconv.Atoi(v); err != nil {
					cpu = -1
				}
			case "cpu MHz":
				mhz, err := strconv.ParseFloat(v, 64)
				if err == nil && mhz > 0 && mhz < 1e6 && !yield(cpu, mhz*1e6) {
					return
				}
			}
		}
	}
}
