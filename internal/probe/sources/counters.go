package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// counters is the Reader of a BPF program: the samples that decode makes of its maps,
// and the events that the program missed and folded.
type counters struct {
	*bpf.Counters
	decode func(*counters, emitter) (folded uint64)
	// labels holds the label values of every series, so reading thousands of them does
	// not allocate.
	labels map[[3]string][]string
	// folded is decode's last result.
	folded uint64
	// late, if set, returns missed events that the kernel's own count lacks.
	late func() uint64
	// full is the remedy for a full table; "" means a restart.
	full string
}

// label returns label values as a slice; up to three of them are kept.
func (c *counters) label(values ...string) []string {
	var key [3]string
	if copy(key[:], values) < len(values) {
		return slices.Clone(values)
	}
	l, ok := c.labels[key]
	if !ok {
		l = slices.Clone(values)
		c.labels[key] = l
	}
	return l
}

// FromZero implements probe.FromZero: programs count from when they are attached.
func (c *counters) FromZero() {}

// openProgram returns the Open function of a source that reads one BPF program.
func openProgram(p *bpf.Program, decode func(*counters, emitter) uint64) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := p.Open(h)
		if err != nil {
			return nil, err
		}
		return &counters{Counters: c, decode: decode, labels: map[[3]string][]string{}}, nil
	}
}

// Read implements probe.Reader. A hook that could not be attached is an error as long
// as the source is open: the others still deliver. So is a full table, in each round
// that counted new names as other.
func (c *counters) Read(_ context.Context, emit func(metric.Sample)) error {
	if err := c.Visit(); err != nil {
		return err
	}
	missed, err := c.Missed()
	if err != nil {
		return err
	}
	if c.late != nil {
		missed += c.late()
	}
	series := 0
	folded := c.decode(c, func(s metric.Sample) { series++; emit(s) })
	if len(c.labels) > 2*series+1000 {
		clear(c.labels) // most belong to series that have ended
	}
	lost := c.Incomplete()
	if events := c.Events(); lost == nil && events+missed > 0 {
		emitter(emit).send(probe.Coverage, float64(events)/float64(events+missed))
	}
	emitter(emit).send(probe.Missed, float64(missed))
	emitter(emit).send(probe.Folded, float64(folded))
	more := folded > c.folded
	if c.folded = folded; more {
		return errors.Join(lost, &probe.Problem{
			Err:    fmt.Errorf("a table in the kernel is full: %d events of newer names are counted as %s; sums stay exact", folded, bpf.Other),
			Remedy: cmp.Or(c.full, "restart teescope to begin with empty tables"),
		})
	}
	return lost
}
