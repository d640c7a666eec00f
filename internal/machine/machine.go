// Package machine reads the facts of a machine: its processors, memory, system,
// control groups and cloud. Each format is parsed here once, for all rooms.
//
// It reads files and CPUID only. No command runs and nothing goes over the
// network. A fact that is unavailable is empty, never a guess; the caller says why.
package machine

import (
	"encoding/binary"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// CPUDir is where sysfs describes processors.
const CPUDir = "/sys/devices/system/cpu/"

// Letters spells registers as CPUID signatures do.
func Letters(regs ...uint32) string {
	var b []byte
	for _, r := range regs {
		b = binary.LittleEndian.AppendUint32(b, r)
	}
	return string(b)
}

// Chosen returns the word in brackets of a file like "always [madvise] never".
func Chosen(v string) (word string, ok bool) {
	_, rest, opened := strings.Cut(v, "[")
	word, _, closed := strings.Cut(rest, "]")
	if !opened || !closed {
		return "", false
	}
	return word, true
}

// text returns a file's text, or "" if it is unavailable.
func text(h *host.Host, name string) string {
	v, _ := h.ReadString(name)
	return v
}
