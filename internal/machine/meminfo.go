package machine

import (
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// ParseMeminfo reads lines "Name: 123 kB", whose value is emitted in bytes, and
// "Name: 123". The error lists the lines that are neither; the others are emitted.
func ParseMeminfo(b []byte, emit func(name string, value uint64, bytes bool)) error {
	t := Text{File: "/proc/meminfo"}
	for line := range t.Lines(b) {
		name, rest, ok := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if !ok || len(words) == 0 || len(words) > 2 || len(words) == 2 && words[1] != "kB" {
			t.Bad("%.40q is not NAME: NUMBER or NAME: NUMBER kB", line)
			continue
		}
		n, ok := t.Count(name, words[0])
		switch bytes := len(words) == 2; {
		case !ok:
		case !bytes && !strings.HasPrefix(name, "HugePages_"): // all others have a unit
			t.Bad("%.40s has no unit", name)
		case !bytes:
			emit(name, n, false)
		case n >= 1<<53:
			t.Bad("%.40s: %d kB is more than any machine has", name, n)
		default:
			emit(name, n<<10, true)
		}
	}
	return t.Err()
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
