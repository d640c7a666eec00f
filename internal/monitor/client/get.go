package client

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/web"
)

// ServerVariable is the environment variable with the default of --server, which errors name.
const ServerVariable = "TEESCOPE_SERVER"

// answerLimit, in bytes, is enough for some ten thousand findings.
const answerLimit = 32 << 20

// noSuchCall ends the answer of an agent, and of a monitor that is older, to a call that it does not have.
const noSuchCall = ": no such call"

// Refused is a monitor's answer with a status other than 200, and its reason.
type Refused struct {
	Reason string
	Other  bool // it is an agent, or an older monitor
	error
}

// GetJSON decodes a monitor's answer to a GET into answer. If the monitor itself refused,
// the error is a *Refused.
func GetJSON(ctx context.Context, u *url.URL, answer any) error {
	shown := u.Scheme + "://" + u.Host // without a path, and without the password
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("ask the monitor at %s: %w; set SSL_CERT_FILE to the file with the CA certificate that you trust", shown, untrusted)
	}
	if err != nil {
		return fmt.Errorf("ask the monitor at %s: %w; start one with `teescope monitor`, or name the monitor's address with --server or %s", shown, withoutRequest(err), ServerVariable)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("read the answer of the monitor at %s: %w", shown, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if json.Unmarshal(body, &e) != nil || e.Error == "" {
			e.Error = resp.Status + ": no teescope monitor answers at this address; an agent stores nothing and has no findings"
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				e.Error = "the monitor requires a user name and a password: --server " + u.Scheme + "://USER:PASSWORD@" + u.Host
			case http.StatusBadRequest:
				e.Error = "a monitor with TLS needs https://" // Go's servers answer 400 to plain HTTP
			}
		}
		other := strings.HasSuffix(e.Error, noSuchCall)
		if other {
			e.Error = "no monitor answers this call at this address; perhaps an agent answers, which stores nothing and has no findings, or an older monitor"
		}
		return &Refused{e.Error, other, fmt.Errorf("ask the monitor at %s: %s", shown, e.Error)}
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the answer of the monitor at %s: %w; is a teescope monitor at this address?", shown, err)
	}
	return nil
}

// withoutRequest returns an error of the HTTP client without the URL that was asked.
func withoutRequest(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
