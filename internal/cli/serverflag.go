package cli

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/printable"
)

// serverFlag adds the flag --server of a command that asks a monitor.
func serverFlag(c *cobra.Command, server *string, usage string) {
	c.Flags().StringVar(server, "server", "http://127.0.0.1:"+authority.DefaultPort, usage+"; the environment variable "+client.ServerVariable+" sets the default")
	if set := os.Getenv(client.ServerVariable); set != "" {
		*server = set
	}
}

// serverNamed reports whether the user named the monitor, by the flag or by the variable.
func serverNamed(c *cobra.Command) bool {
	return c.Flags().Changed("server") || os.Getenv(client.ServerVariable) != ""
}

// serverURL reads the flag --server. Without a scheme, it is HTTP.
func serverURL(server string) (*url.URL, error) {
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		name := "--server"
		if server == os.Getenv(client.ServerVariable) {
			name = client.ServerVariable
		}
		return nil, fmt.Errorf("%s %q: want an address like 127.0.0.1:9780 or https://monitor.example:9780", name, printable.Redact(text))
	}
	return base, nil
}
