package sources

import (
	"errors"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// Impossible returns the counters of events that cannot happen on this machine, because it lacks
// what they would happen to: their counts are 0, although no source counts them.
func Impossible(h *host.Host, found []tee.Detection) (out []*metric.Desc) {
	if err := findSwiotlb(h, tee.Found(found)); errors.Is(err, errNoPool) {
		out = append(out, swiotlbBounces.Metrics...)
	}
	if unprotected(h, found) {
		out = append(out, conversions.Metrics...)
		out = append(out, guestExits.Metrics...)
	}
	return slices.DeleteFunc(out, func(d *metric.Desc) bool { return d.Kind != metric.Counter })
}

// unprotected reports whether this kernel is known to run in no confidential guest, and not to encrypt its memory
// itself: AMD's SME makes the same conversions.
func unprotected(h *host.Host, found []tee.Detection) bool {
	if encrypts(h) {
		return false
	}
	asked := 0
	for _, d := range found {
		if strings.HasPrefix(d.Kind.Name, "ibm-") && d.State != tee.NotHere {
			return false
		}
		if !slices.Contains(guestKinds, d.Kind.Name) {
			continue
		}
		if d.State == tee.Unknown || d.State == tee.Here && d.Facts.Role == tee.Guest {
			return false
		}
		asked++
	}
	return asked == len(guestKinds)
}

// encrypts reports whether the CPU can encrypt the host's own memory (SME). The kernel does not say whether it does.
func encrypts(h *host.Host) bool {
	if h.CPUID == nil {
		return true // not known
	}
	last, _, _, _ := h.CPUID(0x80000000, 0)
	if last < 0x8000001f {
		return false
	}
	_, b, c, d := h.CPUID(0, 0)
	if vendor := machine.Letters(b, d, c); vendor != "AuthenticAMD" && vendor != "HygonGenuine" {
		return false
	}
	eax, _, _, _ := h.CPUID(0x8000001f, 0)
	return eax&1 != 0
}
