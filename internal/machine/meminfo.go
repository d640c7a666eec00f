package machine

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// ParseMeminfo reads lines "Name: 123 kB", whose value is emitted in bytes, and
// "Name: 123".
func ParseMeminfo(b []byte, emit func(name string, value uint64, bytes bool)) error {
	n := 0
	for line := range bytes.Lines(b) {
		name, rest, ok := strings.Cut(string(line), ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 {
			return fmt.Errorf("parse /proc/meminfo: line %q", line)
		}
		v, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil {
			return fmt.Errorf("parse /proc/meminfo: %s: %w", name, err)
		}
		if len(words) > 1 {
			emit(name, v*1024, true)
		} else {
			emit(name, v, false)
		}
		n++
	}
	if n == 0 {
		return fmt.Errorf("parse /proc/meminfo: %w", fs.ErrInvalid)
	}
	return nil
}

// Meminfo returns the fields of /proc/meminfo in bytes, by name; fields without
// a unit are counts. What was read before an error is returned with it.
func Meminfo(h *host.Host) (map[string]uint64, error) {
	out := map[string]uint64{}
	b, err := h.ReadFile("/proc/meminfo")
	if err == nil {
		err = ParseMeminfo(b, func(name string, v uint64, _ bool) { out[name] = v })
	}
	return out, err
}
