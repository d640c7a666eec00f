package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Hosts are the names by which a server may be reached. They end DNS rebinding: a page whose own name an attacker
// points at this machine has the browser's leave to read the answers, but its requests still carry that name.
//
// A request may name no host at all (HTTP/1.0, which no browser sends), "localhost", or an address: a browser that
// sends an address has connected to it, so no name was rebound. For the same reason Vite's and webpack's servers let
// addresses pass.
type Hosts struct {
	// Names are further names without a port, as CleanHostName returns them. "*.example" is each name with one label
	// more, as in certificates (RFC 6125, section 6.4.3).
	Names []string
	// Loopback says that the server listens on loopback only. Another machine's address can then only come from
	// something that forwards, and is refused unless Names has it.
	Loopback bool
}

// CleanHostName returns a name or an address as Hosts compares it: in lower case, without brackets and without the
// last dot. It fails for what no browser sends as a host: a port, a scheme, a path, letters outside of ASCII.
func CleanHostName(name string) (string, error) {
	inside, bracketed := strings.CutPrefix(name, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	if a, err := netip.ParseAddr(inside); err == nil && bracketed == closed {
		return a.Unmap().WithZone("").String(), nil
	}
	clean := strings.ToLower(strings.TrimSuffix(name, "."))
	if strings.Contains(clean, "://") || strings.ContainsAny(clean, ":/") {
		return "", fmt.Errorf("%q: want only the name, without scheme, port and path", name)
	}
	plain := strings.TrimPrefix(clean, "*.")
	if plain == "" || len(clean) > 253 || strings.Contains(plain, "..") || strings.HasPrefix(plain, ".") {
		return "", fmt.Errorf("%q: want a name like monitor.example, or *.example for all names with one more label", name)
	}
	for _, r := range plain {
		if r > 'z' || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r) {
			return "", fmt.Errorf("%q: %q cannot be in a host's name; write an international name as browsers send it (xn--...)", name, r)
		}
	}
	return clean, nil
}

// refusal returns why a request with this Host header is refused; "" allows it.
func (h Hosts) refusal(header string) string {
	if header == "" {
		return ""
	}
	name := header
	if n, _, err := net.SplitHostPort(header); err == nil {
		name = n
	}
	clean, err := CleanHostName(name)
	if err != nil || strings.HasPrefix(clean, "*") {
		return fmt.Sprintf("%.300q is not the name of a host", header)
	}
	if clean == "localhost" || slices.Contains(h.Names, clean) {
		return ""
	}
	if a, err := netip.ParseAddr(clean); err == nil {
		// A browser connects to 0.0.0.0 as to loopback, from any page.
		if !a.IsUnspecified() && !a.IsMulticast() && (a.IsLoopback() || !h.Loopback) {
			return ""
		}
	} else if _, domain, ok := strings.Cut(clean, "."); ok && slices.Contains(h.Names, "*."+domain) {
		return ""
	}
	return fmt.Sprintf("%s is not a name of this server; to use this name for the server, start teescope with --host-name=%s", clean, clean)
}

// Guard lets h answer only requests for one of the hosts, and sets the headers that tell browsers to be careful.
func (h Hosts) Guard(next http.Handler) http.Handler {
	return headers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := h.refusal(r.Host); reason != "" {
			reply(w, Options{}, http.StatusForbidden, Error{reason})
			return
		}
		next.ServeHTTP(w, r)
	}))
}

// strictTransport has browsers use only TLS for this name, for a year. http_server_config of --web-config can say
// otherwise: it holds for all ports of the name (RFC 6797, section 8.3).
const strictTransport = "max-age=31536000"

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy(""))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		if r.TLS != nil && h.Get("Strict-Transport-Security") == "" {
			h.Set("Strict-Transport-Security", strictTransport)
		}
		next.ServeHTTP(w, r)
	})
}
