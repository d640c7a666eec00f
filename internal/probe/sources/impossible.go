package sources

import (
	"errors"
	"slices"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/tee"
)

// Impossible returns the counters of events that cannot happen on this machine, because it lacks
// what they would happen to: their counts are 0, although no source counts them.
func Impossible(h *host.Host, found []tee.Detection) (out []*metric.Desc) {
	if err := findSwiotlb(h, tee.Found(found)); errors.Is(err, errNoPool) {
		out = append(out, swiotlbBounces.Metrics...)
	}
	if unprotected(found) {
		out = append(out, conversions.Metrics...)
		out = append(out, guestExits.Metrics...)
	}
	return slices.DeleteFunc(out, func(d *metric.Desc) bool { return d.Kind != metric.Counter })
}

// unprotected reports whether this kernel is known to run in no confidential guest.
func unprotected(found []tee.Detection) bool {
	asked := 0
	for _, d := range found {
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
