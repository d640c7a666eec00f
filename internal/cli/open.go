//go:build linux

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/web"
)

func openCommand(env Env) *cobra.Command {
	var x opener
	c := &cobra.Command{
		Use:   "open",
		Short: "Print a link that lets a browser change a monitor's settings",
		Long: `Open asks a monitor on this machine, over its Unix socket, for a link. The browser
that opens it may change sources, silences and dashboards for eight hours. The link
works once, within two minutes.

The socket lets in root, the monitor's user, and members of the group that
monitor --operators names. A browser elsewhere reaches a monitor on loopback through
ssh -L 9780:127.0.0.1:9780 MACHINE; --server then names the page's address there, if
it is another.`,
		Example: "  teescope open\n  teescope open --socket /run/teescope/9780.sock --server https://monitor.example/",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			x.named = serverNamed(c)
			return x.run(c.Context(), env)
		},
	}
	serverFlag(c, &x.server, "URL at which the browser reaches the monitor; its port names the socket, unless --socket does")
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
	link, err := askLink(ctx, sockets)
	if err != nil {
		return err
	}
	at := link.URL
	if x.named {
		at = strings.TrimSuffix(base.String(), "/") + "/"
	}
	_, err = fmt.Fprintln(env.Stdout, at+link.Path)
	if err == nil {
		_, err = fmt.Fprintf(env.Stderr, "Open it in a browser within %s. It works once; that browser may then change settings for %s.\n",
			brief(time.Duration(link.Seconds)*time.Second), brief(time.Duration(link.Session)*time.Second))
	}
	return err
}

// askLink asks the first of the sockets that is there for a link.
func askLink(ctx context.Context, sockets []string) (link web.Link, err error) {
	name := ""
	for _, s := range sockets {
		c, err := host.Local().Dial(ctx, s)
		if err == nil {
			_ = c.Close()
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) && s != sockets[len(sockets)-1] {
			continue // that of a monitor that was killed hides no other
		}
		name = s
		break
	}
	if name == "" {
		return link, fmt.Errorf("no monitor's socket at %s; start one with `teescope monitor`, or name its socket with --socket: its page shows it", strings.Join(sockets, " or "))
	}
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return host.Local().Dial(ctx, name)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/teescope/v1/links", http.NoBody)
	if err != nil {
		return link, err
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return link, fmt.Errorf("ask the monitor for a link: %s lets in root, the monitor's user and the group of its --operators; run this with sudo", name)
	case err != nil:
		return link, fmt.Errorf("ask the monitor for a link over %s: %w; is it running?", name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return link, fmt.Errorf("ask the monitor for a link over %s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if resp.StatusCode == http.StatusNotFound {
			e.Error = "no monitor with a page answers there; an agent has none"
		} else if json.Unmarshal(body, &e) != nil {
			e.Error = strings.TrimSpace(string(body))
		}
		return link, fmt.Errorf("ask the monitor for a link over %s: %s: %s", name, resp.Status, e.Error)
	}
	if err := json.Unmarshal(body, &link); err != nil || !strings.HasPrefix(link.Path, "open?link=") {
		return link, fmt.Errorf("ask the monitor for a link over %s: the answer has none; is it a teescope monitor?", name)
	}
	return link, nil
}
