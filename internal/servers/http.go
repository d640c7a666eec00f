package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// get returns the body and the header of the page at the question's address. It
// follows no redirection and uses no proxy: it asks the server that was named.
func get(ctx context.Context, q Question, accept string) ([]byte, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.Address, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "teescope")
	if q.User != "" || q.Password != "" {
		r.SetBasicAuth(q.User, q.Password)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return q.Dial(ctx) },
		// Most bounds the bytes received, not what they unpack to.
		DisableCompression: true,
		DisableKeepAlives:  true,
	}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("it answers %.80q to %s", answer.Status, r.URL.Path)
	}
	page, err := io.ReadAll(answer.Body)
	return page, answer.Header, err
}

// socket is the HOST:PORT of a URL; any other address is one already.
func socket(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return address
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}
