package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
)

// whole are the options of a server with every part, whose changes are counted.
func whole(o *Options, changes *int) {
	count := func() error { *changes++; return nil }
	k := counting{count}
	o.SetSource = func(string, probe.Setting) error { return count() }
	o.Silences, o.Dashboards, o.Fleet = k, k, new(fleet.Fleet)
	o.History = func(context.Context, findings.Filter) ([]findings.Record, error) { return nil, nil }
	o.Query = func(context.Context, []feed.Query, func(int, feed.Answer, error), func()) error { return nil }
	o.Explain = func(context.Context, explain.Question) (Explanation, error) { return Explanation{}, nil }
	o.Findings = func(context.Context, query.Machine) (Findings, error) { return Findings{}, nil }
	o.Changes = func(context.Context, anomaly.Window, anomaly.Window, anomaly.Options) (anomaly.Changes, error) {
		return anomaly.Changes{}, nil
	}
	o.Boxes = func(context.Context, string, time.Time, time.Time, int) ([]anomaly.Box, error) { return nil, nil }
	o.Unlock = Unlock{Command: "sudo teescope open", Where: "on vm", Socket: "/run/teescope/9780.sock", URL: "http://127.0.0.1:9780/"}
}

// counting counts changes.
type counting struct{ change func() error }

func (counting) List() []findings.Silence { return nil }
func (k counting) Add(s findings.Silence) (findings.Silence, error) {
	return s, k.change()
}
func (k counting) Remove(string) error             { return k.change() }
func (counting) Dashboards() Dashboards            { return Dashboards{} }
func (k counting) SetDashboards([]Dashboard) error { return k.change() }

// TestEveryChangeIsGuarded walks all routes: without authority no request with any method changes anything, each route that is
// not GET refuses unless it is listed as reading, and each one that refuses is listed as changing.
func TestEveryChangeIsGuarded(t *testing.T) {
	changed := 0
	var all Options
	served(func(o *Options) { whole(o, &changed); all = *o })
	v := reflect.ValueOf(all)
	for i := range v.NumField() {
		if f := v.Type().Field(i); slices.Contains([]reflect.Kind{reflect.Func, reflect.Pointer, reflect.Interface}, f.Type.Kind()) && v.Field(i).IsZero() &&
			!slices.Contains([]string{"Round", "Meter", "ResultTrees", "Requests", "Logger"}, f.Name) {
			t.Errorf("the part %s is missing here, so its routes are not walked", f.Name)
		}
	}
	mux := register(all)
	guarded := 0
	for _, pattern := range mux.all {
		method, path, found := strings.Cut(pattern, " ")
		methods := []string{method}
		if !found {
			path, methods = method, []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
		}
		path = strings.NewReplacer("{name}", "syscalls", "{id}", "a", "{$}", "").Replace(path)
		for _, m := range methods {
			if m == http.MethodGet {
				continue // TestRoutes; Go's mux answers no other method there
			}
			for _, body := range []string{"{}", `{"on":false}`, `{"dashboards":[]}`} {
				r := httptest.NewRequest(m, path, strings.NewReader(body))
				w := httptest.NewRecorder()
				mux.ServeHTTP(w, r)
				if slices.Contains(reading, pattern) {
					continue
				}
				if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "sudo teescope open") || !strings.Contains(w.Body.String(), "curl --unix-socket /run/teescope/9780.sock -X "+m) {
					t.Errorf("%s: %d %s, want 403 with what to type", pattern, w.Code, w.Body)
				}
				if _, listed := changing[pattern]; !listed {
					t.Errorf("%s is neither among the changing nor among the reading routes", pattern)
				}
				guarded++
			}
		}
	}
	if changed != 0 {
		t.Errorf("%d changes without authority", changed)
	}
	for pattern := range changing {
		if !slices.Contains(mux.all, pattern) {
			t.Errorf("%s is listed as changing, and not a route", pattern)
		}
	}
	if want := 3 * len(changing); guarded != want || want == 0 {
		t.Errorf("%d requests were refused, want %d", guarded, want)
	}
}

// TestUnknownRouteIsGuarded: a route that nobody listed is guarded, so forgetting one is safe.
func TestUnknownRouteIsGuarded(t *testing.T) {
	m := &routes{ServeMux: http.NewServeMux(), o: Options{}, one: new(sync.Mutex)}
	m.HandleFunc("POST /new", func(http.ResponseWriter, *http.Request) { t.Error("it ran") })
	if w := doAs(nil, m, "POST", "/new", ""); w.Code != http.StatusForbidden {
		t.Errorf("%d", w.Code)
	}
}

// TestLink: a link works once and for two minutes, the session that it opens ends after eight hours, and the page is told both.
func TestLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := authority.New(authority.Options{Group: -1, Now: time.Now})
		var log bytes.Buffer
		h := served(func(o *Options) {
			whole(o, new(int))
			o.Authority, o.Logger, o.Page = k, slog.New(slog.NewTextHandler(&log, nil)), fstest.MapFS{}
		})
		root := authority.Who{Name: "uid 0 (root)", Socket: true}
		visit := func(link string) (*http.Cookie, *httptest.ResponseRecorder) {
			w := doAs(nil, h, "GET", "/open?link="+link, "")
			for _, c := range w.Result().Cookies() {
				return c, w
			}
			return nil, w
		}
		late := k.Link(root)
		time.Sleep(authority.LinkLife) // clock: virtual
		if c, w := visit(late); c != nil || w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "sudo teescope open") {
			t.Errorf("an expired link: %d %s %v", w.Code, w.Body, c)
		}
		link := k.Link(root)
		if w := doAs(nil, h, "HEAD", "/open?link="+link, ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("HEAD: %d", w.Code)
		}
		c, w := visit(link)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./" || c == nil || !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 8*3600 || c.Path != "" {
			t.Fatalf("%d %v", w.Code, w.Header())
		}
		if again, w := visit(link); again != nil || w.Code != http.StatusForbidden {
			t.Errorf("the link again: %d %v", w.Code, again)
		}
		for _, text := range []string{link, c.Value} {
			if strings.Contains(log.String(), text) {
				t.Errorf("a secret is in the log: %s", log.String())
			}
		}
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], `who="browser let in by uid 0 (root)"`) {
			t.Errorf("log %q", lines)
		}
		may := func(want string, code int) {
			t.Helper()
			if w := doAs(c, h, "GET", "/api/teescope/v1/authority", ""); !strings.Contains(w.Body.String(), want) {
				t.Errorf("authority: %s, want %s", w.Body, want)
			}
			if w := doAs(c, h, "POST", "/api/teescope/v1/silences", `{}`); w.Code != code {
				t.Errorf("silence: %d %s, want %d", w.Code, w.Body, code)
			}
		}
		may(`"may":true,"who":"browser let in by uid 0 (root)","until":"2000-01-01T08:0`, 200)
		// A session gets no further link.
		if w := doAs(c, h, "POST", "/api/teescope/v1/links", ""); w.Code != http.StatusForbidden {
			t.Errorf("a link for a session: %d %s", w.Code, w.Body)
		}
		time.Sleep(authority.SessionLife - time.Nanosecond) // clock: virtual
		may(`"may":true`, 200)
		time.Sleep(time.Nanosecond) // clock: virtual
		may("{\"may\":false,\"locked\":\"Locked. To unlock, run `sudo teescope open` on vm and open", 403)
	})
}

// TestAudit: a change is one line with who, what, before and after; what changes nothing is none, and a refused one neither.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	k := &keeper{}
	h := served(func(o *Options) {
		o.Silences, o.Dashboards, o.Logger = k, k, slog.New(slog.NewTextHandler(&log, nil))
	})
	for _, c := range []struct {
		method, path, body string
		want               string // of the line, "" for none
	}{
		{"POST", "silences", `{"rule":"heat","author":"nobody","comment":"a\nlevel=WARN"}`, `who="browser let in by uid 0 (root)" what="POST silences" before={} after="{\"new\":{\"id\":\"new\",\"rule\":\"heat\",\"subject\":\"\",\"until\":\"0001-01-01T00:00:00Z\",\"comment\":\"a\\nlevel=WARN\",\"author\":\"browser let in by uid 0 (root)\"}}"`},
		{"POST", "silences", `{`, ""},
		{"DELETE", "silences/new", "", `what="DELETE silences/new" before="{\"new\":`},
		{"PUT", "dashboards", `{"dashboards":[{"name":"mine","panels":[]}]}`, `what="PUT dashboards" before={} after="{\"mine\":{\"name\":\"mine\",\"panels\":[]}}"`},
		{"PUT", "dashboards", `{"dashboards":[{"name":"mine","panels":[]}]}`, ""},
		{"PUT", "dashboards", `{"dashboards":[{"name":"mine","panels":[]},{"name":"` + strings.Repeat("x", 9000) + `","panels":[]}]}`, `... (`},
		{"POST", "sources/syscalls", `{}`, ""},
	} {
		log.Reset()
		do(h, c.method, "/api/teescope/v1/"+c.path, c.body)
		lines := strings.Count(log.String(), "\n")
		if c.want == "" && lines != 0 || c.want != "" && (lines != 1 || !strings.Contains(log.String(), c.want)) || log.Len() > 3*auditMost {
			t.Errorf("%s %s %.60s: %s, want one line with %s", c.method, c.path, c.body, log.String(), c.want)
		}
		log.Reset()
		doAs(nil, h, c.method, "/api/teescope/v1/"+c.path, c.body)
		if log.Len() > 0 {
			t.Errorf("%s %s without authority: %s", c.method, c.path, log.String())
		}
	}
}
