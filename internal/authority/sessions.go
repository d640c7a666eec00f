package authority

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"time"
)

// How long links and sessions last, and how many there are at most; the oldest gives way.
const (
	LinkLife     = 2 * time.Minute
	SessionLife  = 8 * time.Hour
	mostLinks    = 16
	mostSessions = 64
)

// grants are the one-time links and the browser sessions of this process; none outlives it.
type grants struct{ links, sessions []grant }

// grant is a secret that was handed out. Only its hash is kept.
type grant struct {
	sum   [sha256.Size]byte
	by    string // who asked for the link
	until time.Time
}

// secret returns 256 random bits in 43 characters that an address and a cookie may have.
func secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// grantNew adds a grant to a list without expired ones, and returns its secret.
func grantNew(list []grant, most int, by string, now time.Time, life time.Duration) ([]grant, string, grant) {
	list = current(list, now)
	if len(list) >= most {
		list = slices.Delete(list, 0, len(list)-most+1)
	}
	s := secret()
	g := grant{sha256.Sum256([]byte(s)), by, now.Add(life)}
	return append(list, g), s, g
}

// current drops the expired ones.
func current(list []grant, now time.Time) []grant {
	return slices.DeleteFunc(list, func(g grant) bool { return !now.Before(g.until) })
}

// find returns the index of a secret's grant, -1 without one. The time does not depend on the secrets.
func find(list []grant, s string) int {
	sum, at := sha256.Sum256([]byte(s)), -1
	for i, g := range list {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], g.sum[:]), i, at)
	}
	return at
}

// Link returns the secret of a new one-time link.
func (k *Keeper) Link(by Who) string {
	g := k.grants.Lock()
	defer k.grants.Unlock()
	var s string
	g.links, s, _ = grantNew(g.links, mostLinks, by.Name, k.o.Now(), LinkLife)
	return s
}

// Enter takes the secret of a link, which is then used up, and returns the cookie of a new session. It reports false for a
// secret that is unknown, used or expired. secure: the browser came over TLS.
func (k *Keeper) Enter(link string, secure bool) (*http.Cookie, Who, bool) {
	if k == nil {
		return nil, Who{}, false
	}
	g := k.grants.Lock()
	defer k.grants.Unlock()
	now := k.o.Now()
	g.links = current(g.links, now)
	i := find(g.links, link)
	if i < 0 {
		return nil, Who{}, false
	}
	by := g.links[i].by
	g.links = slices.Delete(g.links, i, i+1)
	var s string
	var session grant
	g.sessions, s, session = grantNew(g.sessions, mostSessions, by, now, SessionLife)
	// Browsers send cookies to every port of a host, so each monitor has its own name. Without a path the cookie is for the folder
	// that the browser sees, also below a path of a proxy.
	c := &http.Cookie{Name: k.cookie, Value: s, MaxAge: int(SessionLife.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure}
	return c, session.identity(), true
}

// session returns who a request's cookie stands for.
func (k *Keeper) session(r *http.Request) (Who, bool) {
	c, err := r.Cookie(k.cookie)
	if err != nil {
		return Who{}, false
	}
	g := k.grants.Lock()
	defer k.grants.Unlock()
	g.sessions = current(g.sessions, k.o.Now())
	i := find(g.sessions, c.Value)
	if i < 0 {
		return Who{}, false
	}
	return g.sessions[i].identity(), true
}

func (g grant) identity() Who { return Who{Name: "browser let in by " + g.by, Until: g.until} }
