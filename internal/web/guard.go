package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
)

// changing are the routes that change something, one line each: what its audit line shows before and after.
var changing = map[string]func(Options, *http.Request) map[string]any{
	"POST " + base + "sources/{name}":  sourceState,
	"POST " + base + "silences":        silenceState,
	"DELETE " + base + "silences/{id}": silenceState,
	"PUT " + base + "dashboards":       dashboardState,
	"POST " + base + "links":           nil, // using the link has an audit line
}

// reading are the other routes that take more than GET: they answer questions that are too long for an address, or refuse.
var reading = []string{"POST " + base + "queries", "POST " + base + "annotations", "/api/v1/", "/api/", "/-/", "/"}

// base is where the API is.
const base = "/api/teescope/v1/"

// Unlock says how a client gets the right to change settings.
type Unlock struct {
	// Command gives a browser the right, when typed Where ("on vm-1").
	Command, Where string
	// Socket is the path of the Unix socket, "" for none; then NoSocket says why.
	Socket, NoSocket string
	// URL is where browsers reach the page, with a slash at its end; "" without a page.
	URL string
}

// sentence says what to do to change settings on the page.
func (u Unlock) sentence() string {
	switch {
	case u.Socket == "":
		return "Locked: unlocking needs a Unix socket, and there is none: " + u.NoSocket + "."
	case u.Command == "":
		return "Locked: this needs the Unix socket `" + u.Socket + "`."
	}
	return "Locked. To unlock, run `" + u.Command + "` " + u.Where + " and open the link that it prints."
}

// refusal says to a client that may not make a request what to type.
func (u Unlock) refusal(r *http.Request) string {
	s := u.sentence()
	if u.Socket != "" {
		s += fmt.Sprintf(" Programs can use the socket: `curl --unix-socket %s -X %s http://localhost%s`.", u.Socket, r.Method, r.URL.EscapedPath())
	}
	return s + " Operators listed in --config can use their password or client certificate of --web-config instead."
}

// routes registers handlers. Everything that is not GET needs authority, unless it is listed as reading.
type routes struct {
	*http.ServeMux
	o   Options
	one *sync.Mutex // held during a change, so its before and after are its own
	all []string    // the patterns
}

// HandleFunc registers a handler, guarded unless it only reads.
func (m *routes) HandleFunc(pattern string, h http.HandlerFunc) { m.Handle(pattern, h) }

// Handle is HandleFunc for a Handler.
func (m *routes) Handle(pattern string, h http.Handler) {
	m.all = append(m.all, pattern)
	if !strings.HasPrefix(pattern, "GET ") && !slices.Contains(reading, pattern) {
		h = m.guard(h, changing[pattern])
	}
	m.ServeMux.Handle(pattern, h)
}

// guard lets only those change something who may, one at a time, and writes a line of what changed to the log.
func (m *routes) guard(next http.Handler, state func(Options, *http.Request) map[string]any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := m.o.Authority.Find(r)
		if !ok {
			reply(w, m.o, http.StatusForbidden, Error{m.o.Unlock.refusal(r)})
			return
		}
		if state == nil {
			next.ServeHTTP(w, r)
			return
		}
		// A slow client must not hold up the changes of others.
		b, err := io.ReadAll(io.LimitReader(r.Body, dashboardsBytes+1))
		if err != nil {
			reply(w, m.o, statusOf(err, http.StatusBadRequest), Error{"read body: " + err.Error()})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		answer := &heldAnswer{header: w.Header(), code: http.StatusOK}
		m.change(next, state, who, answer, r)
		w.WriteHeader(answer.code)
		_, _ = w.Write(answer.body.Bytes())
	})
}

// change makes one change after the other, and logs it.
func (m *routes) change(next http.Handler, state func(Options, *http.Request) map[string]any, who authority.Who, w http.ResponseWriter, r *http.Request) {
	m.one.Lock()
	defer m.one.Unlock()
	before := state(m.o, r)
	next.ServeHTTP(w, r)
	m.o.audit(who, r, before, state(m.o, r))
}

// heldAnswer is an answer that is sent after the change: a client that does not read it holds up nobody.
type heldAnswer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *heldAnswer) Header() http.Header         { return a.header }
func (a *heldAnswer) WriteHeader(code int)        { a.code = code }
func (a *heldAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

// auditMost bounds what an audit line shows of the state, in bytes.
const auditMost = 4 << 10

// audit logs one line of a change: who, what, and what it was before and after. Without a change there is none.
func (o Options) audit(who authority.Who, r *http.Request, before, after map[string]any) {
	was, is := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for name := range maps.Keys(before) {
		was[name], _ = json.Marshal(before[name])
	}
	for name := range maps.Keys(after) {
		is[name], _ = json.Marshal(after[name])
	}
	for name, b := range was {
		if bytes.Equal(b, is[name]) {
			delete(was, name)
			delete(is, name)
		}
	}
	if len(was)+len(is) == 0 || o.Logger == nil {
		return
	}
	o.Logger.Warn("changed", "who", who.Name, "what", r.Method+" "+strings.TrimPrefix(r.URL.Path, base), "before", auditText(was), "after", auditText(is))
}

// auditText returns the changed parts of a state as JSON, cut where it is long.
func auditText(parts map[string]json.RawMessage) string {
	b, _ := json.Marshal(parts) // always valid
	if len(b) > auditMost {
		return fmt.Sprintf("%s... (%d bytes)", b[:auditMost], len(b))
	}
	return string(b)
}

// sourceSetting is what can be set of a source.
type sourceSetting struct {
	State     string   `json:"state"` // on or off
	Auto      bool     `json:"auto,omitempty"`
	Level     string   `json:"level,omitempty"`
	Process   string   `json:"process,omitempty"`
	PIDs      []int    `json:"pids,omitempty"`
	Cgroup    string   `json:"cgroup,omitempty"`
	Container string   `json:"container,omitempty"`
	Sample    float64  `json:"sample,omitempty"`
	Files     []string `json:"files,omitempty"`
}

// sourceState returns the settings of the source in a request.
func sourceState(o Options, r *http.Request) map[string]any {
	list, err := o.Sources(r.Context(), query.Machine{})
	if err != nil {
		return nil
	}
	for _, s := range list {
		if s.Name == r.PathValue("name") {
			on := "on"
			if s.State == string(probe.Off) {
				on = "off"
			}
			return map[string]any{s.Name: sourceSetting{on, s.Auto, s.Wanted, s.Process, s.PIDs, s.Cgroup, s.Container, s.Sample, s.Files}}
		}
	}
	return nil
}

// silenceState returns the silences by their id.
func silenceState(o Options, _ *http.Request) map[string]any {
	out := map[string]any{}
	for _, s := range o.Silences.List() {
		out[s.ID] = s
	}
	return out
}

// dashboardState returns the dashboards made on the page by their name.
func dashboardState(o Options, _ *http.Request) map[string]any {
	out := map[string]any{}
	for _, d := range o.Dashboards.Dashboards().Dashboards {
		out[d.Name] = d
	}
	return out
}

// unlocking adds GET authority, and where there is a page the routes of one-time links.
func unlocking(mux *routes, o Options) {
	mux.HandleFunc("GET "+base+"authority", func(w http.ResponseWriter, r *http.Request) {
		who, ok := o.Authority.Find(r)
		a := Authority{May: ok, Who: who.Name, Until: who.Until}
		if !ok {
			a = Authority{Locked: o.Unlock.sentence()}
		}
		reply(w, o, http.StatusOK, a)
	})
	if o.Page == nil {
		return
	}
	mux.HandleFunc("POST "+base+"links", func(w http.ResponseWriter, r *http.Request) {
		who, _ := o.Authority.Find(r)
		if !who.Socket { // a session must not prolong itself
			reply(w, o, http.StatusForbidden, Error{o.Unlock.sentence()})
			return
		}
		reply(w, o, http.StatusOK, Link{URL: o.Unlock.URL, Path: "open?link=" + o.Authority.Link(who), Seconds: authority.LinkLife.Seconds(), Session: authority.SessionLife.Seconds()})
	})
	mux.HandleFunc("GET /open", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet { // HEAD would use up the link
			http.Error(w, "the link answers only GET", http.StatusMethodNotAllowed)
			return
		}
		cookie, who, ok := o.Authority.Enter(r.URL.Query().Get("link"), r.TLS != nil)
		if !ok {
			http.Error(w, fmt.Sprintf("This link was already used, or is older than %.0f minutes. Run `%s` %s for a new link.", authority.LinkLife.Minutes(), o.Unlock.Command, o.Unlock.Where), http.StatusForbidden)
			return
		}
		http.SetCookie(w, cookie)
		if o.Logger != nil {
			o.Logger.Warn("changed", "who", who.Name, "what", "a browser may change settings", "before", "no", "after", "until "+who.Until.UTC().Format(time.RFC3339), "from", r.RemoteAddr)
		}
		w.Header().Set("Location", "./") // relative, for a proxy that serves the page below a path
		w.WriteHeader(http.StatusSeeOther)
	})
}
