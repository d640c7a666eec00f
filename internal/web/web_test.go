package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/result"
)

// served returns a server with every part, over values that the tests know.
func served(change func(*Options)) http.Handler {
	o := Options{
		Metrics: func(_ context.Context, b []byte) []byte { return append(b, "up 1\n"...) },
		Platform: func(_ context.Context, on query.Machine) (Platform, error) {
			if on.Job == "nothing" {
				return Platform{}, fmt.Errorf("%w: machine", ErrNotFound)
			}
			return Platform{Hostname: "vm" + on.Instance}, nil
		},
		Sources: func(context.Context, query.Machine) ([]Source, error) {
			return []Source{{Name: "syscalls", State: "available"}}, nil
		},
		SetSource: func(name string, s probe.Setting) error {
			if name != "syscalls" {
				return fmt.Errorf("%w: source %q", ErrNotFound, name)
			}
			if s.Process != nil && *s.Process == "(" {
				return errors.New("process filter: missing closing )")
			}
			return nil
		},
		Results: func() Results { return Results{Results: []ResultSummary{{ID: "a"}}} },
		Result: func(id string) (*result.Experiment, error) {
			if id != "a" {
				return nil, fmt.Errorf("result %s: %w", id, fs.ErrNotExist)
			}
			return &result.Experiment{ID: id}, nil
		},
		Compare: func(ids []string) (*result.Experiment, error) {
			if len(ids) > 2 {
				return nil, errors.New("not the same job: params.size differs")
			}
			return &result.Experiment{ID: strings.Join(ids, "+")}, nil
		},
		Origin:   func(ids []string) Origin { return Origin{Word: "unattested", Line: strings.Join(ids, " ")} },
		Overhead: func(context.Context, query.Machine) (Overhead, error) { return Overhead{Budget: 0.01}, nil },
		Processes: func(name string, files bool) ([]Process, error) {
			if name != "redis server" {
				return nil, errors.New("read /proc: no permission")
			}
			p := Process{PID: 7, Command: "redis"}
			if files {
				p.Files = []OpenFile{{"8:1", "1234", "/var/lib/redis/dump.rdb"}}
			}
			return []Process{p}, nil
		},
		Prometheus: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "prometheus ", r.URL.Path) }),
		Page: fstest.MapFS{
			"index.html":    {Data: []byte(`<meta property="csp-nonce" nonce="__CSP_NONCE__">`)},
			"assets/a-1.js": {Data: []byte("x")},
		},
		Ready: func() error { return nil },
		Hosts: Hosts{Names: []string{"example.com"}}, // what httptest's requests name
	}
	o.Authority = allowed
	if change != nil {
		change(&o)
	}
	return Handler(o)
}

// allowed lets in the browser that do is.
var (
	allowed = authority.New(authority.Options{Group: -1, Now: time.Now})
	let     = func() *http.Cookie {
		c, _, _ := allowed.Enter(allowed.Link(authority.Who{Name: "uid 0 (root)"}), false)
		return c
	}()
)

// do makes a request as a browser that may change settings.
func do(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	return doAs(let, h, method, target, body, header...)
}

// doAs makes a request with a cookie, nil for none.
func doAs(c *http.Cookie, h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	if c != nil {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestPathsOfProcesses: a client that may not change settings receives no path.
func TestPathsOfProcesses(t *testing.T) {
	w := doAs(nil, served(nil), "GET", "/api/teescope/v1/processes?name=redis+server", "")
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `[{"pid":7,"command":"redis"}]` {
		t.Errorf("without authority: %d %s", w.Code, got)
	}
}

func TestRoutes(t *testing.T) {
	h := served(nil)
	for _, c := range []struct {
		method, target, body string
		code                 int
		want                 string
	}{
		{"GET", "/-/healthy", "", 200, "alive"},
		{"GET", "/-/ready", "", 200, "ready"},
		{"GET", "/metrics", "", 200, "up 1"},
		{"GET", "/api/teescope/v1/platform", "", 200, `"hostname":"vm"`},
		{"GET", "/api/teescope/v1/platform?job=agents&instance=-2", "", 200, `"hostname":"vm-2"`},
		{"GET", "/api/teescope/v1/platform?job=nothing&instance=2", "", 404, `not found: machine`},
		{"GET", "/api/teescope/v1/machines", "", 404, `no such API call`},
		{"GET", "/api/teescope/v1/sources", "", 200, `"syscalls"`},
		{"GET", "/api/teescope/v1/overhead", "", 200, `"budget":0.01`},
		{"GET", "/api/teescope/v1/processes?name=redis+server", "", 200, `[{"pid":7,"command":"redis","files":[{"device":"8:1","inode":"1234","path":"/var/lib/redis/dump.rdb"}]}]`},
		{"GET", "/api/teescope/v1/processes", "", 400, `want the name of a process`},
		{"GET", "/api/teescope/v1/processes?name=x", "", 500, `no permission`},
		{"GET", "/api/teescope/v1/results", "", 200, `"id":"a"`},
		{"GET", "/api/teescope/v1/results/a", "", 200, `"experiment_id":"a"`},
		{"GET", "/api/teescope/v1/results/b", "", 404, "result b"},
		{"GET", "/api/teescope/v1/comparisons?id=a&id=b", "", 200, `"experiment_id":"a+b"`},
		{"GET", "/api/teescope/v1/comparisons?id=a&id=b&id=c", "", 422, "not the same job"},
		{"GET", "/api/teescope/v1/comparisons", "", 400, "name the results"},
		{"GET", "/api/teescope/v1/results/a/drawings?case=c&metric=m", "", 200, `{"drawings":[]}`},
		{"GET", "/api/teescope/v1/results/b/drawings", "", 404, "result b"},
		{"GET", "/api/teescope/v1/comparisons/drawings?id=a&id=b&id=c", "", 422, "not the same job"},
		{"GET", "/api/teescope/v1/results/a/tables?case=c&metric=m", "", 200, `{"tables":[]}`},
		{"GET", "/api/teescope/v1/comparisons/tables?id=a&id=b", "", 200, `{"tables":[]}`},
		{"GET", "/api/teescope/v1/comparisons/tables", "", 400, "name the results"},
		{"GET", "/api/teescope/v1/results/a/origin", "", 200, `{"word":"unattested","line":"a"}`},
		{"GET", "/api/teescope/v1/results/none/origin", "", 404, "result none"},
		{"GET", "/api/teescope/v1/comparisons/origin?id=a&id=b", "", 200, `{"word":"unattested","line":"a b"}`},
		{"GET", "/api/teescope/v1/nothing", "", 404, `"error"`},
		{"GET", "/api/v1/query", "", 200, "prometheus /api/v1/query"},
		{"POST", "/api/teescope/v1/sources/syscalls", `{"on":false}`, 200, `"syscalls"`},
		{"POST", "/api/teescope/v1/sources/nothing", `{"on":false}`, 404, "nothing"},
		{"POST", "/api/teescope/v1/sources/syscalls", `{"process":"("}`, 400, "process filter"},
		{"POST", "/api/teescope/v1/sources/syscalls", `{"off":true}`, 400, "off"},
		{"POST", "/api/teescope/v1/sources/syscalls", `{`, 400, "want some of {"},
		{"POST", "/api/teescope/v1/sources/syscalls", `{"on":false} {"on":true}`, 400, "more than one"},
		{"GET", "/-/reload", "", 404, "not found"},
		{"GET", "/", "", 200, "csp-nonce"},
		{"GET", "/index.html", "", 200, "csp-nonce"},
		{"GET", "/assets/a-1.js", "", 200, "x"},
		{"GET", "/assets/none.js", "", 404, "not here"},
		{"GET", "/assets", "", 404, "not here"},
		{"GET", "/assets/", "", 404, "not here"},
		{"POST", "/", "", 405, "only GET and HEAD"},
	} {
		w := do(h, c.method, c.target, c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %q, want %d with %q", c.method, c.target, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
}

// TestViews: a link to each view of the page leads to it, with the state that the link has.
func TestViews(t *testing.T) {
	h := served(nil)
	g := &generator{}
	if words := g.constants(".", "View"); len(words) != len(views) {
		t.Errorf("%d views are served, of the constants %v", len(views), words)
	}
	for _, v := range views {
		for _, end := range []string{"", "/"} {
			link := "https://vm:9780/below/" + string(v) + end + "?range=5m"
			at, err := url.Parse(link)
			if err != nil {
				t.Fatal(err)
			}
			w := do(h, "GET", "/"+string(v)+end+"?range=5m", "")
			to, err := at.Parse(w.Header().Get("Location"))
			if want := "https://vm:9780/below/?page=" + string(v) + "&range=5m"; w.Code != http.StatusFound || err != nil || to.String() != want {
				t.Errorf("%s: %d %v, want %s", link, w.Code, to, want)
			}
		}
	}
}

// TestProbes: the paths that probes, scrapers and senders use without asking are not there, whatever the method.
func TestProbes(t *testing.T) {
	h := served(nil)
	for _, p := range []string{"federate", "healthz", "health", "ready", "readyz", "livez", "ping", "status", "metrics/cadvisor", "metrics.json", "write", "loki/api/v1/push", "graph", "targets",
		"findings/x", "Findings", "page", "placeholder.html", "index.htm", ".git/config"} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT"} {
			w := do(h, method, "/"+p, "")
			if kind := w.Header().Get("Content-Type"); w.Code != http.StatusNotFound || strings.Contains(kind, "html") {
				t.Errorf("%s /%s: %d %s, want 404", method, p, w.Code, kind)
			}
		}
	}
}

// TestAgentRoutes: parts that an agent lacks are absent, not empty.
func TestAgentRoutes(t *testing.T) {
	h := served(func(o *Options) { o.Page, o.Prometheus, o.Findings, o.Overhead = nil, nil, nil, nil })
	for _, target := range []string{"/", "/api/v1/query", "/api/teescope/v1/findings", "/api/teescope/v1/overhead"} {
		if w := do(h, "GET", target, ""); w.Code != 404 {
			t.Errorf("%s: %d, want 404", target, w.Code)
		}
	}
}

func TestNotReady(t *testing.T) {
	h := served(func(o *Options) { o.Ready = func() error { return errors.New("no reading is stored yet") } })
	if w := do(h, "GET", "/-/ready", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "no reading") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPolicy: the nonce in the page equals the one in the header, and is new each time.
func TestPolicy(t *testing.T) {
	h := served(nil)
	seen := map[string]bool{}
	for range 3 {
		w := do(h, "GET", "/", "")
		_, rest, _ := strings.Cut(w.Body.String(), `nonce="`)
		nonce, _, _ := strings.Cut(rest, `"`)
		p := w.Header().Get("Content-Security-Policy")
		if len(nonce) < 20 || !strings.Contains(p, "'nonce-"+nonce+"'") || seen[nonce] {
			t.Errorf("nonce %q, policy %q", nonce, p)
		}
		if strings.Contains(p, "unsafe") || !strings.Contains(p, "default-src 'self'") {
			t.Errorf("policy %q is not strict", p)
		}
		seen[nonce] = true
	}
}

// TestNoPathsByRequest: a request cannot set files. The answer has the lines that do, and nothing is switched.
func TestNoPathsByRequest(t *testing.T) {
	h := served(func(o *Options) {
		o.SetSource = func(name string, _ probe.Setting) error { t.Errorf("%s was set", name); return nil }
		o.Sources = func(context.Context, query.Machine) ([]Source, error) {
			return []Source{{Name: "syscalls"}, {Name: "gramine", Configure: &Configuration{What: "Logs", Advice: probe.FilesAdvice, Lines: "the default lines"}}}, nil
		}
	})
	for _, c := range []struct {
		source, body string
		code         int
		want         []string
	}{
		{"gramine", `{"on":true,"files":["/root/.x/*", "/b \"\u001b"]}`, 400, []string{"--config", "SIGHUP", "sources:\n  gramine:\n    files:\n      - \"/root/.x/*\"\n      - \"/b \\\"\\x1b\"\n"}},
		{"gramine", `{"files":[]}`, 400, []string{"--config", "the default lines"}},
		{"gramine", `{"files":"/root"}`, 400, []string{"want some of"}},
		{"syscalls", `{"files":["/root"]}`, 400, []string{"reads no files"}},
		{"other", `{"files":["/root"]}`, 404, []string{"not found"}},
		{"gramine", `{"command":["sh"]}`, 400, []string{"unknown field"}},
	} {
		w := do(h, http.MethodPost, "/api/teescope/v1/sources/"+c.source, c.body)
		var e Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != c.code {
			t.Errorf("%s %s: %d %s (%v)", c.source, c.body, w.Code, w.Body, err)
		}
		for _, part := range c.want {
			if !strings.Contains(e.Error, part) {
				t.Errorf("%s %s: %q has no %q", c.source, c.body, e.Error, part)
			}
		}
	}
}

// TestSettingsByRequest: what a request sets of a source are switches, numbers, and filters of names, which open nothing. A new
// field of a setting is listed here once it is one of these.
func TestSettingsByRequest(t *testing.T) {
	var got []string
	for f := range reflect.TypeFor[probe.Setting]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			got = append(got, name)
		}
	}
	if want := []string{"on", "auto", "level", "process", "pids", "cgroup", "container", "sample"}; !slices.Equal(got, want) {
		t.Errorf("requests set %q, want %q", got, want)
	}
}

// TestGzip: the page's files are sent compressed to clients that accept it, whether the build compressed them or not.
func TestGzip(t *testing.T) {
	script := strings.Repeat("console.log(1);\n", 1000)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(script))
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]fstest.MapFS{
		"plain":   {"assets/a-1.js": {Data: []byte(script)}},
		"packed":  {"assets/a-1.js.gz": {Data: packed.Bytes()}},
		"damaged": {"assets/a-1.js.gz": {Data: packed.Bytes()[:8]}},
	} {
		t.Run(name, func(t *testing.T) {
			h := served(func(o *Options) { o.Page = files })
			for accept, zipped := range map[string]bool{"": false, "br": false, "gzip;q=0, br": false, "gzip": true, "deflate, GZip;q=0.5": true, "br, gzip": true} {
				w := do(h, "GET", "/assets/a-1.js", "", "Accept-Encoding", accept)
				if name == "damaged" && !zipped {
					if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "damaged") {
						t.Errorf("%q: %d %s", accept, w.Code, w.Body)
					}
					continue
				}
				if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
					t.Errorf("%q: %v", accept, w.Header())
				}
				if name == "damaged" {
					continue
				}
				var r io.Reader = w.Body
				if zipped {
					if w.Body.Len() > 1000 {
						t.Errorf("%q: %d bytes", accept, w.Body.Len())
					}
					if r, err = gzip.NewReader(w.Body); err != nil {
						t.Fatal(err)
					}
				}
				if b, err := io.ReadAll(r); err != nil || string(b) != script {
					t.Errorf("%q: %d bytes, %v", accept, len(b), err)
				}
			}
		})
	}
}

func TestPlaceholder(t *testing.T) {
	h := served(func(o *Options) { o.Page = fstest.MapFS{"placeholder.html": {Data: []byte("built without the page")}} })
	if w := do(h, "GET", "/", ""); w.Code != 200 || !strings.Contains(w.Body.String(), "without the page") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestNotFinite: a value that JSON cannot hold is an error, not a truncated answer.
func TestNotFinite(t *testing.T) {
	h := served(func(o *Options) {
		o.Overhead = func(context.Context, query.Machine) (Overhead, error) { return Overhead{RSSBytes: math.NaN()}, nil }
	})
	if w := do(h, "GET", "/api/teescope/v1/overhead", ""); w.Code != 500 || !strings.Contains(w.Body.String(), "not finite") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
