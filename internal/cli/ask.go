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
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/web"
)

// serverVariable is the environment variable with the default of --server.
const serverVariable = "TEESCOPE_SERVER"

// serverFlag adds the flag --server of a command that asks a monitor.
func serverFlag(c *cobra.Command, server *string, usage string) {
	c.Flags().StringVar(server, "server", "http://127.0.0.1:"+authority.DefaultPort, usage+"; the environment variable "+serverVariable+" sets the default")
	if set := os.Getenv(serverVariable); set != "" {
		*server = set
	}
}

// serverNamed reports whether the user named the monitor, by the flag or by the variable.
func serverNamed(c *cobra.Command) bool {
	return c.Flags().Changed("server") || os.Getenv(serverVariable) != ""
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
		if server == os.Getenv(serverVariable) {
			name = serverVariable
		}
		return nil, fmt.Errorf("%s %q: want an address like 127.0.0.1:9780 or https://monitor.example:9780", name, withoutPassword(server))
	}
	return base, nil
}

// withoutPassword leaves out what stands before the host of an address: it may hold a password, also where the address is wrong.
func withoutPassword(server string) string {
	i := strings.LastIndex(server, "@")
	if i < 0 {
		return server
	}
	scheme, _, found := strings.Cut(server[:i], "://")
	if !found {
		return "..." + server[i:]
	}
	return scheme + "://..." + server[i:]
}

// answerLimit, in bytes, is enough for some ten thousand findings.
const answerLimit = 32 << 20

// noSuchCall ends the answer of an agent, and of a monitor that is older, to a call that it does not have.
const noSuchCall = ": no such call"

// notAnswered is a monitor's answer with a status other than 200, and its reason.
type notAnswered struct {
	reason string
	other  bool // it is an agent, or an older monitor
	error
}

// ask decodes a monitor's answer to a GET into answer. If the monitor itself refused,
// the error is a notAnswered.
func ask(ctx context.Context, u *url.URL, answer any) error {
	shown := u.Scheme + "://" + u.Host // without a path, and without the password
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("--server: %w", err)
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return fmt.Errorf("ask the monitor at %s: %w; set SSL_CERT_FILE to the certificate of the authority that you trust", shown, untrusted)
	}
	if err != nil {
		return fmt.Errorf("ask the monitor at %s: %w; start one with `teescope monitor`, or name its address with --server or %s", shown, withoutRequest(err), serverVariable)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("read the answer of the monitor at %s: %w", shown, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if json.Unmarshal(body, &e) != nil || e.Error == "" {
			e.Error = resp.Status + ": no teescope monitor answers there; an agent stores nothing and has no findings"
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				e.Error = "it asks for a user name and a password: --server " + u.Scheme + "://USER:PASSWORD@" + u.Host
			case http.StatusBadRequest:
				e.Error = "a monitor with TLS needs https://" // Go's servers answer 400 to plain HTTP
			}
		}
		other := strings.HasSuffix(e.Error, noSuchCall)
		if other {
			e.Error = "no monitor with this call answers there: perhaps an agent, which stores nothing and has no findings, or an older monitor"
		}
		return &notAnswered{e.Error, other, fmt.Errorf("ask the monitor at %s: %s", shown, e.Error)}
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the answer of the monitor at %s: %w; is it a teescope monitor?", shown, err)
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
