//go:build linux

package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	httpconfig "github.com/prometheus/common/config"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// keeper takes the samples of a monitor: a store, the queue of agent mode, or nothing.
type keeper interface {
	Append(at time.Time, samples []metric.Sample) error
	ApplyConfig(c *store.ScrapeConfig) error
	Collect(emit func(metric.Sample))
	Failure(job, instance string) string
	Err() error
	// Refusing returns why samples are not stored now, nil while they are.
	Refusing() error
	Close() error
}

// series answers queries of the rules and explanations: the monitor's store, an engine elsewhere, or the memory of one
// command.
type series interface {
	findings.RangeQuerier
	Err() error
}

// served is a series that pages and the API ask, too.
type served interface {
	series
	Steps(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error)
	Notes(ctx context.Context, expr string, from, to time.Time) []string
	Handler() http.Handler
}

var (
	_ keeper = (*store.Store)(nil)
	_ keeper = (*store.Queue)(nil)
	_ keeper = (*store.Nothing)(nil)
	_ keeper = (*store.Memory)(nil)
	_ served = (*store.Store)(nil)
	_ served = (*store.Remote)(nil)
	_ series = (*store.Memory)(nil)
)

// open returns the engine. One that is down may come back, and is no error; a URL where something else answers is.
func (e engineFlags) open(ctx context.Context, sources map[string]string) (*store.Remote, error) {
	c := &httpconfig.DefaultHTTPClientConfig
	if e.config != "" {
		var err error
		if c, _, err = httpconfig.LoadHTTPConfigFile(e.config); err != nil {
			return nil, fmt.Errorf("--query-config %s: %w", e.config, configfile.Readable(err, nil))
		}
	}
	client, err := httpconfig.NewClientFromConfig(*c, "query-url", httpconfig.WithUserAgent("teescope/"+build.Version()))
	if err != nil {
		return nil, fmt.Errorf("--query-config %s: %w", e.config, err)
	}
	r, err := store.NewRemote(store.RemoteOptions{URL: e.url, Client: client, Sources: sources, Query: store.DefaultEngineOptions()})
	if err != nil {
		return nil, fmt.Errorf("--query-url: %w", err)
	}
	if later, err := r.Check(ctx); err != nil && !later {
		return nil, fmt.Errorf("--query-url: %w", err)
	}
	return r, nil
}
