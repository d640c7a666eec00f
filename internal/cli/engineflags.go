package cli

import (
	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/monitor/client"
)

// engineFlags adds the flags that name an engine.
func engineFlags(c *cobra.Command, e *client.Engine, use string) {
	f := c.Flags()
	f.StringVar(&e.URL, "query-url", "", "`URL` of a Prometheus-compatible engine (Prometheus, Thanos, Mimir, VictoriaMetrics) "+use)
	f.StringVar(&e.HTTP, "query-config", "", "`FILE` with basic_auth, authorization, tls_config and other HTTP settings for --query-url, in Prometheus' format")
}
