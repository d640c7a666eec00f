package authority

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/host"
)

func TestFind(t *testing.T) {
	chain := func(name string) func(*http.Request) {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"ops.example"}}
		return func(r *http.Request) {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
		}
	}
	peer := func(p host.Peer) func(*http.Request) {
		return func(r *http.Request) { *r = *r.WithContext(context.WithValue(r.Context(), peerKey{}, p)) }
	}
	login := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	k := New(Options{Self: 998, Group: 50, Now: time.Now, Operators: func() []string { return []string{"alice", "carol", "ops.example"} },
		Authentic: func(user, password string) bool { return password == user+"!" }})
	for name, c := range map[string]struct {
		of   func(*http.Request)
		want string // "" where it may not
	}{
		"nobody":                    {func(*http.Request) {}, ""},
		"root":                      {peer(host.Peer{UID: 0, Groups: []int{0}}), "uid 0 (root)"},
		"the monitor's user":        {peer(host.Peer{UID: 998, Groups: []int{1}}), "uid 998 (the monitor's user)"},
		"an operator":               {peer(host.Peer{UID: 7, Groups: []int{7, 50}}), "uid 7 (operator)"},
		"another user":              {peer(host.Peer{UID: 7, Groups: []int{7}}), ""},
		"an unknown peer":           {peer(host.Peer{UID: -1}), ""},
		"another, with a password":  {func(r *http.Request) { peer(host.Peer{UID: 7})(r); login("alice", "alice!")(r) }, ""},
		"a named user":              {login("alice", "alice!"), "alice (password)"},
		"a wrong password":          {login("alice", "bob!"), ""},
		"an unnamed user":           {login("bob", "bob!"), ""},
		"a certificate":             {chain("carol"), "carol (client certificate)"},
		"a certificate's DNS name":  {chain("dave"), "ops.example (client certificate)"},
		"a cookie of another":       {func(r *http.Request) { r.AddCookie(&http.Cookie{Name: k2name, Value: "x"}) }, ""},
		"an unverified certificate": {func(r *http.Request) { chain("carol")(r); r.TLS.VerifiedChains = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", nil)
			c.of(r)
			who, ok := k.Find(r)
			if ok != (c.want != "") || ok && who.Name != c.want {
				t.Errorf("%s: %+v %v, want %q", name, who, ok, c.want)
			}
		})
	}
	if _, ok := New(Options{Group: -1, Self: 5, Now: time.Now}).Find(httptest.NewRequest("POST", "/", nil)); ok {
		t.Error("without any option somebody may")
	}
	if _, ok := (*Keeper)(nil).Find(httptest.NewRequest("POST", "/", nil)); ok {
		t.Error("without a keeper somebody may")
	}
	r := httptest.NewRequest("POST", "/", nil)
	peer(host.Peer{UID: 3, Groups: []int{0}})(r)
	if _, ok := New(Options{Group: -1, Self: 5, Now: time.Now}).Find(r); ok {
		t.Error("without a group its members may")
	}
}

const k2name = "teescope-x"

// TestBounds: links and sessions are bounded in number, and the oldest gives way.
func TestBounds(t *testing.T) {
	k := New(Options{Group: -1, Now: time.Now})
	var links []string
	for range mostLinks + 1 {
		links = append(links, k.Link(Who{Name: "a"}))
	}
	if _, _, ok := k.Enter(links[0], false); ok {
		t.Error("the oldest link works")
	}
	if c, _, ok := k.Enter(links[1], true); !ok || !c.Secure || len(c.Value) != 43 {
		t.Errorf("%+v %v, want a cookie for TLS", c, ok)
	}
	may := func(c *http.Cookie) bool {
		r := httptest.NewRequest("POST", "/", nil)
		r.AddCookie(c)
		_, ok := k.Find(r)
		return ok
	}
	var cookies []*http.Cookie
	for range mostSessions + 1 {
		c, _, _ := k.Enter(k.Link(Who{Name: "a"}), false)
		cookies = append(cookies, c)
	}
	if may(cookies[0]) || !may(cookies[1]) || !may(cookies[mostSessions]) {
		t.Error("want the newest sessions")
	}
	if n := len(k.grants.Lock().sessions); n != mostSessions {
		t.Errorf("%d sessions", n)
	}
	k.grants.Unlock()
	if New(Options{Now: time.Now}).cookie == k.cookie {
		t.Error("two monitors have one name of a cookie")
	}
}
