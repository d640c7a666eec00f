package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/web"
)

// RequestLink asks the first of the sockets that is there for a link that lets a browser change the monitor's settings.
func RequestLink(ctx context.Context, sockets []string) (link web.Link, err error) {
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
		return link, fmt.Errorf("no monitor's socket at %s; start one with `teescope monitor`, or name the monitor's socket with --socket; the monitor's page shows the path", strings.Join(sockets, " or "))
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
		return link, fmt.Errorf("ask the monitor for a link: only root, the monitor's user and the group of --operators may use %s; run this command with sudo", name)
	case err != nil:
		return link, fmt.Errorf("ask the monitor for a link over %s: %w; is the monitor running?", name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return link, fmt.Errorf("ask the monitor for a link over %s: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if resp.StatusCode == http.StatusNotFound {
			e.Error = "no monitor with a page answers at this socket; an agent has no page"
		} else if json.Unmarshal(body, &e) != nil {
			e.Error = strings.TrimSpace(string(body))
		}
		return link, fmt.Errorf("ask the monitor for a link over %s: %s: %s", name, resp.Status, e.Error)
	}
	if err := json.Unmarshal(body, &link); err != nil || !strings.HasPrefix(link.Path, "open?link=") {
		return link, fmt.Errorf("ask the monitor for a link over %s: the answer has no link; does a teescope monitor use this socket?", name)
	}
	return link, nil
}
