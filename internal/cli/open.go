//go:build linux

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/observe"
)

func openCommand(env Env) *cobra.Command {
	var x opener
	c := &cobra.Command{
		Use:   "open",
		Short: "Print a link that lets a browser change a monitor's settings",
		Long: `Open asks a monitor on this machine for a link, through its Unix socket. The browser
that opens the link may change sources, silences and dashboards for eight hours. The link
works once, within two minutes.

The socket lets in root, the monitor's user, and members of the group that
monitor --operators names. A browser on another machine reaches a monitor on loopback
through ssh -L 9780:127.0.0.1:9780 MACHINE. If the page's address is different in that
browser, give it with --server.`,
		Example: "  teescope open\n  teescope open --socket /run/teescope/9780.sock --server https://monitor.example/",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			x.named = serverNamed(c)
			return x.run(c.Context(), env)
		},
	}
	serverFlag(c, &x.server, "URL at which the browser reaches the monitor; the port of this URL selects the socket, unless --socket is given")
	c.Flags().StringVar(&x.socket, "socket", "", "the monitor's Unix socket (default /run/teescope/PORT.sock, or this user's own)")
	return c
}

// opener holds the flags of open.
type opener struct {
	server, socket string
	named          bool // --server is given
}

func (x opener) run(ctx context.Context, env Env) error {
	base, err := serverURL(x.server)
	if err != nil {
		return err
	}
	sockets := []string{x.socket}
	if x.socket == "" {
		port := base.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
		}
		sockets = []string{observe.SocketPath(host.SystemSockets, port)}
		// What another user has put into /tmp would name a link of its own.
		if own := host.SocketFolder(); own != host.SystemSockets && host.CheckSocketFolder(own) == nil {
			sockets = slices.Insert(sockets, 0, observe.SocketPath(own, port))
		}
	}
	link, err := client.RequestLink(ctx, sockets)
	if err != nil {
		return err
	}
	at := link.URL
	if x.named {
		at = strings.TrimSuffix(base.String(), "/") + "/"
	}
	_, err = fmt.Fprintln(env.Stdout, at+link.Path)
	if err == nil {
		_, err = fmt.Fprintf(env.Stderr, "Open this link in a browser within %s. The link works once; that browser may then change settings for %s.\n",
			metric.ShortDuration(time.Duration(link.Seconds)*time.Second), metric.ShortDuration(time.Duration(link.Session)*time.Second))
	}
	return err
}
