package cli

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/teescope/teescope/internal/web"
)

// serverURL reads the flag --server.
func serverURL(server string) (*url.URL, error) {
	base, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("--server: %w; want a URL like http://127.0.0.1:9780", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("--server %q: want a URL like http://127.0.0.1:9780", server)
	}
	return base, nil
}

// answerLimit, in bytes, is enough for some ten thousand findings.
const answerLimit = 32 << 20

// notAnswered is a monitor's answer with a status other than 200, and its reason.
type notAnswered struct {
	reason string
	error
}

// ask decodes a monitor's answer to a GET into answer. If the monitor itself refused,
// the error is a notAnswered.
func ask(ctx context.Context, u *url.URL, answer any) error {
	shown := u.Redacted() // without the password
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("ask the monitor: GET %s: %w; set SSL_CERT_FILE to the certificate of the authority that you trust", shown, untrusted)
	}
	if err != nil {
		return fmt.Errorf("ask the monitor: %w; start one with `teescope monitor`, or name its URL with --server", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("read the monitor's answer from %s: %w", shown, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if json.Unmarshal(body, &e) != nil || e.Error == "" {
			e.Error = "no teescope monitor answers there; an agent stores nothing and has no findings"
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				e.Error = "it asks for a user name and a password: --server " + u.Scheme + "://USER:PASSWORD@" + u.Host
			case http.StatusBadRequest:
				e.Error = "a monitor with TLS needs https://" // Go's servers answer 400 to plain HTTP
			}
		}
		return &notAnswered{e.Error, fmt.Errorf("ask the monitor: GET %s: %s: %s", shown, resp.Status, e.Error)}
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the monitor's answer from %s: %w; is it a teescope monitor?", shown, err)
	}
	return nil
}
