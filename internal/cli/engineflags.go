package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

// engineFlags are the flags that name an engine.
type engineFlags struct{ url, config string }

func (e *engineFlags) flags(c *cobra.Command, use string) {
	f := c.Flags()
	f.StringVar(&e.url, "query-url", "", "`URL` of a Prometheus-compatible engine (Prometheus, Thanos, Mimir, VictoriaMetrics) "+use)
	f.StringVar(&e.config, "query-config", "", "`FILE` with basic_auth, authorization, tls_config and other HTTP settings for --query-url, in Prometheus' format")
}

// check refuses a file of HTTP settings without an engine to use them for.
func (e engineFlags) check() error {
	if e.url == "" && e.config != "" {
		return errors.New("--query-config has the HTTP settings for --query-url: name that too")
	}
	return nil
}
