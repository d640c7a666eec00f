// Package web serves the HTTP API and the page. It computes nothing: its data comes from functions that cli fills in,
// so tests need no kernel, store or clock.
package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/anomaly"
	"github.com/teescope/teescope/internal/fleet"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/result"
)

// Options are the parts of a server. A nil part is not served: an agent has no store, no findings and no page.
type Options struct {
	// Metrics appends one fresh round to b, in the text format; Round is one as samples, ordered by name.
	Metrics func(ctx context.Context, b []byte) []byte
	Round   func(ctx context.Context) []metric.Sample
	// Platform, Sources, Findings and Overhead are about a machine. The zero value is the one that the server runs on,
	// and for Findings all machines. For one that is not known the error wraps ErrNotFound.
	Platform func(ctx context.Context, on query.Machine) (Platform, error)
	Sources  func(ctx context.Context, on query.Machine) ([]Source, error)
	// SetSource changes a source at run time; its error wraps ErrNotFound for an unknown
	// name.
	SetSource func(name string, s probe.Setting) error
	Findings  func(ctx context.Context, on query.Machine) (Findings, error)
	// History selects from all stored findings, also for annotations.
	History func(context.Context, findings.Filter) ([]findings.Record, error)
	// Fleet lists the machines whose series are stored.
	Fleet      *fleet.Fleet
	Silences   SilenceKeeper
	Dashboards DashboardKeeper
	Overhead   func(ctx context.Context, on query.Machine) (Overhead, error)
	// Processes returns the running processes of a name, with their open files if files; finding none is no error.
	Processes func(name string, files bool) ([]Process, error)
	// Changes compares all series of two windows; Boxes describes the values of a
	// PromQL expression in windows of equal length.
	Changes func(ctx context.Context, before, after anomaly.Window, o anomaly.Options) (anomaly.Changes, error)
	Boxes   func(ctx context.Context, query string, from, to time.Time, windows int) ([]anomaly.Box, error)
	// Query answers PromQL expressions, each when it is ready, and reports the end.
	Query func(ctx context.Context, list []feed.Query, deliver func(i int, a feed.Answer, err error), waiting func()) error
	// Meter runs an answer to a page or an API call and counts its CPU time; nil only runs it.
	Meter func(func())
	// Explain returns where a process's time went. For an invalid question the error is an explain.Refusal. An absent
	// time is zero.
	Explain func(ctx context.Context, q explain.Question) (Explanation, error)
	// Results lists the benchmark results; Result returns one, or an error that wraps
	// fs.ErrNotExist. Compare joins several into one document.
	Results func() Results
	Result  func(id string) (*result.Experiment, error)
	// ResultTrees explains the comparisons of a result.
	ResultTrees func(*result.Experiment) []explain.Tree
	Compare     func(ids []string) (*result.Experiment, error)
	// Origin says what is proved of where results were made.
	Origin func(ids []string) Origin
	// Prometheus is the handler of /api/v1/.
	Prometheus http.Handler
	// Page holds index.html and its assets, or placeholder.html alone.
	Page fs.FS
	// Ready returns nil once the first round is stored.
	Ready func() error
	// Requests is the memory for the bodies of requests; nil is unlimited.
	Requests *quota.Share
	// Hosts are the names by which the server may be reached.
	Hosts Hosts
	// Authority decides who may change something, nil: nobody. Unlock says how others get the right.
	Authority *authority.Keeper
	Unlock    Unlock
	Logger    *slog.Logger
}

// ErrNotFound makes a request answer 404.
var ErrNotFound = errors.New("not found")

// nonceToken marks the place of the style nonce in index.html.
const nonceToken = "__CSP_NONCE__"

// Handler returns the routes of the parts of o that are set.
func Handler(o Options) http.Handler {
	h := metered(o, register(o))
	return o.Hosts.Guard(http.NewCrossOriginProtection().Handler(ownSite(counted(o, h))))
}

// ownSite refuses calls that a page of another site makes a browser send, also those that only read: such a page cannot see the
// answer, but it could keep the monitor busy. Browsers name the site (Sec-Fetch-Site, W3C Fetch Metadata); programs such as curl,
// Prometheus and Grafana's server do not.
func ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && (strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics") {
			http.Error(w, "a page of another site sent this request; open the monitor's own page, or send the request from a program", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// counted reserves the memory of requests' bodies. Those of whoever may change settings are not counted: others could keep them out
// with bodies that never end.
func counted(o Options, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			if _, trusted := o.Authority.Find(r); !trusted {
				b := o.Requests.Body(r.Body)
				defer b.Close()
				r.Body = b
			}
		}
		next.ServeHTTP(w, r)
	})
}

// register registers the routes of the parts of o that are set.
func register(o Options) *routes {
	mux := &routes{ServeMux: http.NewServeMux(), o: o, one: new(sync.Mutex)}
	unlocking(mux, o)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "teescope is alive") })
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "teescope is ready")
	})
	mux.HandleFunc("GET /metrics", metricsHandler(o.Metrics, o.Round))
	if o.Platform != nil {
		get(mux, o, "platform", o.Platform)
	}
	if o.Sources != nil {
		get(mux, o, "sources", o.Sources)
		mux.HandleFunc("POST /api/teescope/v1/sources/{name}", setSource(o))
	}
	if o.Fleet != nil {
		machines(mux, o)
	}
	if o.Findings != nil {
		mux.HandleFunc("GET /api/teescope/v1/findings", serveFindings(o))
	}
	if o.History != nil {
		annotations(mux, o)
	}
	if o.Silences != nil {
		silences(mux, o)
	}
	if o.Dashboards != nil {
		dashboards(mux, o)
	}
	if o.Explain != nil {
		mux.HandleFunc("GET /api/teescope/v1/explain", serveExplanation(o))
	}
	if o.Changes != nil {
		changes(mux, o)
	}
	if o.Query != nil {
		queries(mux, o)
	}
	if o.Overhead != nil {
		get(mux, o, "overhead", o.Overhead)
	}
	if o.Processes != nil {
		mux.HandleFunc("GET /api/teescope/v1/processes", processes(o))
	}
	if o.Results != nil {
		results(mux, o)
	}
	mux.HandleFunc("/-/", http.NotFound) // no probe may mistake the page for an answer
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, o, http.StatusNotFound, Error{fmt.Sprintf("%s %s: no such API call", r.Method, r.URL.Path)})
	})
	if o.Prometheus != nil {
		mux.Handle("/api/v1/", o.Prometheus)
	}
	if o.Page != nil {
		mux.Handle("/", gzhttp.GzipHandler(page(o)))
	}
	return mux
}

// metered counts the CPU time of all answers except scrapes and readiness probes, which are part of monitoring
// itself.
func metered(o Options, next http.Handler) http.Handler {
	if o.Meter == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" || strings.HasPrefix(r.URL.Path, "/-/") {
			next.ServeHTTP(w, r)
			return
		}
		o.Meter(func() { next.ServeHTTP(w, r) })
	})
}

// get adds GET NAME?job=JOB&instance=INSTANCE; without them the answer is about the server's own machine.
func get[T any](mux *routes, o Options, name string, f func(context.Context, query.Machine) (T, error)) {
	mux.HandleFunc("GET /api/teescope/v1/"+name, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r.Context(), machineOf(r.URL.Query()))
		if err != nil {
			refuse(w, o, err)
			return
		}
		reply(w, o, http.StatusOK, v)
	})
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, o Options, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, ErrNotFound) {
		code = http.StatusNotFound
	}
	reply(w, o, code, Error{err.Error()})
}

// processes answers GET processes?name=NAME. Only who may change settings receives the paths of files.
func processes(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		if name == "" {
			reply(w, o, http.StatusBadRequest, Error{"want the name of a process, as processes?name=redis-server"})
			return
		}
		_, trusted := o.Authority.Find(r)
		list, err := o.Processes(name, trusted)
		if err != nil {
			reply(w, o, http.StatusInternalServerError, Error{err.Error()})
			return
		}
		reply(w, o, http.StatusOK, list)
	}
}

func reply(w http.ResponseWriter, o Options, code int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // JSON has no NaN and no infinity
		code, b = http.StatusInternalServerError, []byte(`{"error":"a number of the answer is not finite, and JSON has only finite numbers: this is a fault of teescope"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write(b); err != nil && o.Logger != nil {
		o.Logger.Debug("write answer", "error", err)
	}
}

func setSource(o Options) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var s struct {
			probe.Setting
			Files *[]string `json:"files"`
		}
		if err := body(w, r, 1<<16, &s); err != nil {
			reply(w, o, statusOf(err, http.StatusBadRequest), Error{err.Error() + `; want some of {"on": true, "level": "name", "process": "regex", "pids": [1], "cgroup": "regex", "container": "regex", "sample": 0.5}`})
			return
		}
		if s.Files != nil {
			refuseFiles(w, r, o, *s.Files)
			return
		}
		switch err := o.SetSource(r.PathValue("name"), s.Setting); {
		case errors.Is(err, ErrNotFound):
			reply(w, o, http.StatusNotFound, Error{err.Error()})
		case err != nil:
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
		default:
			list, err := o.Sources(r.Context(), query.Machine{})
			if err != nil {
				refuse(w, o, err)
				return
			}
			reply(w, o, http.StatusOK, list)
		}
	}
}

// refuseFiles answers a request that names files for a source to open: only the configuration does.
func refuseFiles(w http.ResponseWriter, r *http.Request, o Options, patterns []string) {
	list, err := o.Sources(r.Context(), query.Machine{})
	name := r.PathValue("name")
	i := slices.IndexFunc(list, func(s Source) bool { return s.Name == name })
	switch {
	case err != nil:
		refuse(w, o, err)
	case i < 0:
		refuse(w, o, fmt.Errorf("set source %q: %w", name, ErrNotFound))
	case list[i].Configure == nil:
		reply(w, o, http.StatusBadRequest, Error{"set source " + name + ": files: this source reads no files that a user can choose"})
	case len(patterns) == 0:
		reply(w, o, http.StatusBadRequest, Error{"set source " + name + ": files: " + list[i].Configure.Advice + "\n" + list[i].Configure.Lines})
	default:
		reply(w, o, http.StatusBadRequest, Error{"set source " + name + ": files: " + list[i].Configure.Advice + "\n" + probe.FilesLines(name, patterns...)})
	}
}

// metricsHandler encodes into a pooled buffer, so a scrape allocates little. Whoever asks for protobuf gets that.
func metricsHandler(appendTo func(context.Context, []byte) []byte, round func(context.Context) []metric.Sample) http.HandlerFunc {
	pool := sync.Pool{New: func() any { return new([]byte) }}
	return func(w http.ResponseWriter, r *http.Request) {
		if format, ok := asProtobuf(r.Header); ok && round != nil {
			writeProtobuf(w, format, round(r.Context()))
			return
		}
		buf := pool.Get().(*[]byte)
		*buf = appendTo(r.Context(), (*buf)[:0])
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		if _, err := w.Write(*buf); err != nil {
			return // the scraper went away
		}
		pool.Put(buf)
	}
}

// page serves the built files: the page itself at "/", and a view of it by name ("/findings") as a way there. Every other path is
// that of a file or not found: no probe and no scraper may mistake the page for an answer.
func page(o Options) http.HandlerFunc {
	files := http.FileServerFS(o.Page)
	return func(w http.ResponseWriter, r *http.Request) {
		p := path.Clean(r.URL.Path)
		view := View(strings.TrimPrefix(p, "/"))
		isIndex, isView := p == "/" || p == "/index.html", slices.Contains(views, view)
		switch {
		case !isIndex && !isView && !isFile(o.Page, p) && !isFile(o.Page, p+".gz"):
			http.Error(w, p+" is not here: the page is at /, and the API is below /api/", http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "the page answers only GET and HEAD", http.StatusMethodNotAllowed)
		case isIndex:
			serveIndex(w, o.Page)
		case isView:
			// The state of the page is in the query. The way there is relative, for a proxy that serves the page below a path.
			q := r.URL.Query()
			q.Set("page", string(view))
			up := "./"
			if strings.HasSuffix(r.URL.Path, "/") {
				up = "../"
			}
			w.Header().Set("Location", up+"?"+q.Encode())
			w.WriteHeader(http.StatusFound)
		default:
			keepAsset(w, p)
			if !servePacked(w, r, o.Page, p) {
				files.ServeHTTP(w, r)
			}
		}
	}
}

func serveIndex(w http.ResponseWriter, files fs.FS) {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		if index, err = fs.ReadFile(files, "placeholder.html"); err != nil {
			http.Error(w, "this binary has no page; build it with make build", http.StatusInternalServerError)
			return
		}
	}
	nonce := rand.Text()
	w.Header().Set("Content-Security-Policy", policy(nonce))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store") // the nonce is for one response
	_, _ = w.Write(bytes.ReplaceAll(index, []byte(nonceToken), []byte(nonce)))
}

// isFile reports whether the path p (/icon.svg) is that of a file of the page, and not of a folder.
func isFile(files fs.FS, p string) bool {
	fi, err := fs.Stat(files, strings.TrimPrefix(p, "/"))
	return err == nil && fi.Mode().IsRegular()
}

// keepAsset lets a browser keep an asset: its name holds a hash of its contents.
func keepAsset(w http.ResponseWriter, p string) {
	if strings.HasPrefix(p, "/assets/") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
}

// servePacked serves the file p (/assets/a.js) from its compressed form (assets/a.js.gz), as the page's build leaves it, and
// reports whether there is one. The few clients that do not accept gzip get it unpacked.
func servePacked(w http.ResponseWriter, r *http.Request, files fs.FS, p string) bool {
	packed, err := fs.ReadFile(files, strings.TrimPrefix(p, "/")+".gz")
	if err != nil {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(p)))
	if acceptsGzip(r.Header) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(packed)))
		_, _ = w.Write(packed)
		return true
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		http.Error(w, "the page in this binary is damaged: "+err.Error()+"; build it again with make build", http.StatusInternalServerError)
		return true
	}
	_, _ = io.Copy(w, z)
	return true
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(weight), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}

func policy(nonce string) string {
	p := "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; img-src 'self' data:"
	if nonce != "" {
		p += "; style-src 'self' 'nonce-" + nonce + "'"
	}
	return p
}
