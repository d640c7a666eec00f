package sources

import (
	"context"

	"github.com/teescope/teescope/internal/metric"
)

// reading is a Reader that holds nothing open.
type reading func(context.Context, emitter) error

// Read implements probe.Reader.
func (r reading) Read(ctx context.Context, emit func(metric.Sample)) error { return r(ctx, emit) }

// Close implements probe.Reader.
func (reading) Close() error { return nil }

// emitter hands out samples.
type emitter func(metric.Sample)

func (e emitter) send(d *metric.Desc, v float64, labels ...string) {
	e(metric.Sample{Desc: d, Labels: labels, Value: v})
}

func counter(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Counter, Labels: labels}
}

func gauge(name, help string, labels ...string) *metric.Desc {
	return &metric.Desc{Name: name, Help: help, Kind: metric.Gauge, Labels: labels}
}
