// Package authority decides who may change a monitor's settings: root and operators over the Unix socket, users whom the web
// configuration authenticates and the configuration names as operators, and browsers that a one-time link let in. It knows no
// route and changes nothing.
package authority

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
)

// DefaultPort is the monitor's; its socket is named after it.
const DefaultPort = "9780"

// Options say who may change settings.
type Options struct {
	// Self is the user that the monitor runs as, who can change it in any case; Group is the operators' group, -1 for none.
	Self, Group int
	// Operators returns the operators that the configuration names; nil for none.
	Operators func() []string
	// Authentic reports whether the web configuration has this user with this password now; nil for nobody.
	Authentic func(user, password string) bool
	Now       func() time.Time
}

// Keeper decides, and holds the one-time links and the browser sessions. A nil one lets nobody change anything.
type Keeper struct {
	o      Options
	cookie string // its name
	grants locked.Value[grants]
}

// New returns a Keeper without links and sessions.
func New(o Options) *Keeper { return &Keeper{o: o, cookie: "teescope-" + secret()[:8]} }

// Who may change settings.
type Who struct {
	// Name says who it is, as audit lines and silences show it.
	Name string
	// Socket: the request came over the Unix socket.
	Socket bool
	// Until is when a browser's right ends; zero for others.
	Until time.Time
}

// Find returns who sent a request, and reports whether that one may change settings.
func (k *Keeper) Find(r *http.Request) (Who, bool) {
	if k == nil {
		return Who{}, false
	}
	if p, ok := r.Context().Value(peerKey{}).(host.Peer); ok {
		role := k.role(p)
		return Who{Name: fmt.Sprintf("uid %d (%s)", p.UID, role), Socket: true}, role != ""
	}
	if w, ok := k.session(r); ok {
		return w, true
	}
	if k.o.Operators == nil {
		return Who{}, false
	}
	operators := k.o.Operators()
	// The web configuration lets requests pass without a password where it names no users, so the header alone proves nothing.
	if user, password, ok := r.BasicAuth(); ok && slices.Contains(operators, user) && k.o.Authentic != nil && k.o.Authentic(user, password) {
		return Who{Name: user + " (password)"}, true
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		for _, name := range names(r.TLS.VerifiedChains[0][0]) {
			if slices.Contains(operators, name) {
				return Who{Name: name + " (client certificate)"}, true
			}
		}
	}
	return Who{}, false
}

// role returns why a peer may change settings, "" if it may not.
func (k *Keeper) role(p host.Peer) string {
	switch {
	case p.UID == 0:
		return "root"
	case p.UID == k.o.Self:
		return "the monitor's user"
	case k.o.Group >= 0 && slices.Contains(p.Groups, k.o.Group):
		return "operator"
	}
	return ""
}

// names returns the names of a certificate's subject: the common name, and DNS, e-mail and URI names.
func names(c *x509.Certificate) []string {
	out := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, u := range c.URIs {
		out = append(out, u.String())
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// peerKey is the context key of a host.Peer.
type peerKey struct{}

// OverSocket adds the peer of a Unix connection to the context of its requests; it is http.Server's ConnContext.
func OverSocket(ctx context.Context, c net.Conn) context.Context {
	p, err := host.PeerOf(c)
	if err != nil {
		p = host.Peer{UID: -1} // nobody
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// Socket returns the handler for requests over the Unix socket: it answers only those who may change settings. Such a request
// cannot come from a page under another name, so its Host is not checked.
func (k *Keeper) Socket(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := k.Find(r); !ok {
			http.Error(w, who.Name+" may not use this socket", http.StatusForbidden)
			return
		}
		r.Host = "localhost"
		next.ServeHTTP(w, r)
	})
}
