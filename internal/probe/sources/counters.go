package sources

import (
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

// counters is the Reader of a BPF program: what decode makes of its maps, and
// what the program missed and folded.
type counters struct {
	*bpf.Counters
	decode func(*counters, emitter) (folded uint64)
	// labels holds the label values of every series, so that a read of thousands
	// of them does not allocate them anew.
	labels map[[3]string][]string
}

// label returns one to three label values as a slice that lives as long as c.
func (c *counters) label(values ...string) []string {
	var key [3]string
	copy(key[:], values)
	l, ok := c.labels[key]
	if !ok {
		l = slices.Clone(values)
		c.labels[key] = l
	}
	return l
}

// openProgram returns the Open function of a source that reads one BPF program.
func openProgram(p *bpf.Program, decode func(*counters, emitter) uint64) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		c, err := p.Open(h)
		if err != nil {
			return nil, err
		}
		return &counters{c, decode, map[[3]string][]string{}}, nil
	}
}

// Read implements probe.Reader. A hook that could not be attached is an error
// for as long as the source is open: the others still deliver. So is a full
// table, because names that are new since then cannot be told apart.
func (c *counters) Read(_ context.Context, emit func(metric.Sample)) error {
	missed, err := c.Missed()
	if err != nil {
		return err
	}
	folded := c.decode(c, emit)
	if events := c.Events(); c.Lost == nil && events+missed > 0 {
		emitter(emit).send(probe.Coverage, float64(events)/float64(events+missed))
	}
	emitter(emit).send(probe.Missed, float64(missed))
	emitter(emit).send(probe.Folded, float64(folded))
	if folded > 0 {
		return errors.Join(c.Lost, &probe.Problem{
			Err:    fmt.Errorf("a table in the kernel is full: %d events of newer names are counted as %s; sums stay exact", folded, bpf.Other),
			Remedy: "restart teescope to begin with empty tables",
		})
	}
	return c.Lost
}
