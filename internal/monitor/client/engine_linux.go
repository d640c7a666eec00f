package client

import (
	"context"
	"fmt"

	httpconfig "github.com/prometheus/common/config"

	"github.com/teescope/teescope/internal/build"
	"github.com/teescope/teescope/internal/configfile"
	"github.com/teescope/teescope/internal/store"
)

// Open returns the engine, which knows the source of each metric by its name. One that is down may come back, and is no error; a URL where something else answers is.
func (e Engine) Open(ctx context.Context, sources map[string]string) (*store.Remote, error) {
	c := &httpconfig.DefaultHTTPClientConfig
	if e.HTTP != "" {
		var err error
		if c, _, err = httpconfig.LoadHTTPConfigFile(e.HTTP); err != nil {
			return nil, fmt.Errorf("--query-config %s: %w", e.HTTP, configfile.Readable(err, nil))
		}
	}
	client, err := httpconfig.NewClientFromConfig(*c, "query-url", httpconfig.WithUserAgent("teescope/"+build.Version()))
	if err != nil {
		return nil, fmt.Errorf("--query-config %s: %w", e.HTTP, err)
	}
	r, err := store.NewRemote(store.RemoteOptions{URL: e.URL, Client: client, Sources: sources, Query: store.DefaultEngineOptions()})
	if err != nil {
		return nil, fmt.Errorf("--query-url: %w", err)
	}
	if later, err := r.Check(ctx); err != nil && !later {
		return nil, fmt.Errorf("--query-url: %w", err)
	}
	return r, nil
}
