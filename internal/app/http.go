package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/teescope/teescope/internal/host"
)

// CheckURL says what is wrong with the address of a server that speaks HTTP.
func CheckURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q: want a URL like http://127.0.0.1:8080/metrics", address)
	}
	if u.User != nil {
		return errors.New("a URL with a password would be shown in messages: want user and password_file")
	}
	return nil
}

// Get returns the body of a page. Redirections are not followed, proxies of the
// environment not used: what is asked is the server that was named.
func Get(ctx context.Context, h *host.Host, t Target, accept string) ([]byte, error) {
	password, err := t.Password()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.Address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "teescope")
	if t.User != "" || password != "" {
		r.SetBasicAuth(t.User, password)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return Dial(ctx, h, address) },
		// An answer that grows when it is unpacked is bounded by nothing.
		DisableCompression: true,
		DisableKeepAlives:  true,
	}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %.80q to %s", answer.Status, r.URL.Path)
	}
	return io.ReadAll(answer.Body)
}
