package servers

import (
	"context"
	"errors"

	"github.com/teescope/teescope/internal/host"
)

// Pages reads pages of metrics. Its values are comparable, as Targets are.
type Pages interface {
	// Counter returns the sum of a counter's series on a page that came with this Content-Type.
	Counter(page []byte, contentType, name string) (float64, error)
}

// openMetrics reads a page of metrics in the text format that all exporters know.
var openMetrics = App{
	Name:    "openmetrics",
	Doc:     "A counter of any server that has a page of metrics for Prometheus; all series of that name are added, and the number of observations stands for a histogram or a summary",
	Address: "http://127.0.0.1:9100/metrics",
	Check:   CheckURL,
	Counter: true,
	Read: func(ctx context.Context, h *host.Host, t Target) (float64, error) {
		if t.Pages == nil {
			return 0, errors.New("nothing here reads pages of metrics")
		}
		q, err := t.question(h)
		if err != nil {
			return 0, err
		}
		page, header, err := get(ctx, q, "text/plain;version=0.0.4")
		if err != nil {
			return 0, err
		}
		return t.Pages.Counter(page, header.Get("Content-Type"), t.Counter)
	},
}
