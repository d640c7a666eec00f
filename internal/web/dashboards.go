package web

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The limits of dashboards made on the page.
const (
	dashboardsMost  = 100
	panelsMost      = 50
	nameMost        = 100    // characters of a name or title
	queryMost       = 10_000 // bytes
	dashboardsBytes = 1 << 20
)

var (
	panelKinds = []PanelKind{Graph, Area, Histogram, Gauge, Value, Table, HeatMap, BoxPlot}
	panelUnits = []string{"", "1/s", "ratio", "cores", "bytes", "bytes/s", "seconds"}
)

// DashboardKeeper holds the dashboards made on the page.
type DashboardKeeper interface {
	Dashboards() Dashboards
	// SetDashboards checks the list and replaces them with it.
	SetDashboards([]Dashboard) error
}

// ErrNotKept is wrapped by the error of a valid change that could not be stored.
var ErrNotKept = errors.New("not kept")

// errChanged refuses to overwrite dashboards that changed since they were read.
var errChanged = errors.New("the dashboards have changed since you read them, so this change was not made; read the dashboards again and send the new ETag in If-Match")

// dashboards adds the routes of the dashboards: GET returns all, to show and to export; PUT replaces those that are
// not locked. Both answer with an ETag; a PUT with If-Match replaces the dashboards only if they have that tag (RFC
// 9110, section 13.1.1).
func dashboards(mux *routes, o Options) {
	const at = "/api/teescope/v1/dashboards"
	answer := func(w http.ResponseWriter) {
		d := o.Dashboards.Dashboards()
		w.Header().Set("ETag", tagOf(d))
		reply(w, o, http.StatusOK, d)
	}
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	var one sync.Mutex // from the check of If-Match to the replacement
	mux.HandleFunc("PUT "+at, func(w http.ResponseWriter, r *http.Request) {
		var d Dashboards
		err := body(w, r, dashboardsBytes, &d)
		one.Lock()
		defer one.Unlock()
		if err == nil && d.Dashboards == nil { // any other document would delete all
			err = errors.New("dashboards: want a list; [] for none")
		}
		if err == nil && !ifMatch(r, tagOf(o.Dashboards.Dashboards())) {
			err = errChanged
		}
		if err == nil {
			err = o.Dashboards.SetDashboards(d.Dashboards) // an export may be imported; its locked ones are ignored
		}
		switch {
		case errors.Is(err, errChanged):
			reply(w, o, http.StatusPreconditionFailed, Error{err.Error()})
		case errors.Is(err, ErrNotKept):
			reply(w, o, http.StatusInsufficientStorage, Error{err.Error()})
		case err != nil:
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
		default:
			answer(w)
		}
	})
}

// tagOf returns the entity tag of dashboards: equal tags, equal documents.
func tagOf(d Dashboards) string {
	b, _ := json.Marshal(d) // strings only: always valid JSON
	sum := sha256.Sum256(b)
	return fmt.Sprintf(`"%x"`, sum[:12])
}

// ifMatch reports whether a request may change a document with this tag. Without
// If-Match it may.
func ifMatch(r *http.Request, tag string) bool {
	wanted, asked := r.Header["If-Match"]
	tags := strings.Join(wanted, ",")
	if !asked || strings.TrimSpace(tags) == "*" {
		return true
	}
	// A weak tag, W/"...", never matches.
	return slices.ContainsFunc(strings.Split(tags, ","), func(t string) bool { return strings.TrimSpace(t) == tag })
}

// CheckDashboards returns the first problem of a list of dashboards, nil without one. taken are the names of other
// dashboards; parse checks a query. A problem names keys of the list's JSON, with indices.
func CheckDashboards(list []Dashboard, taken []string, parse func(expr string) error) error {
	if len(list) > dashboardsMost {
		return fmt.Errorf("%d dashboards; want at most %d", len(list), dashboardsMost)
	}
	for i, d := range list {
		at := &DashboardError{Dashboard: i, Panel: -1, Key: "name"}
		if at.Err = checkName(d.Name); at.Err != nil {
			return at
		}
		if slices.Contains(taken, d.Name) {
			at.Err = fmt.Errorf("another dashboard is called %q; choose another name", d.Name)
			return at
		}
		taken = append(slices.Clip(taken), d.Name)
		if n := len(d.Panels); n < 1 || n > panelsMost {
			at.Key, at.Err = "panels", fmt.Errorf("%d panels; want 1 to %d", n, panelsMost)
			return at
		}
		for j, p := range d.Panels {
			if key, err := p.check(parse); err != nil {
				return &DashboardError{i, j, key, err}
			}
		}
	}
	return nil
}

// DashboardError is a problem with a dashboard, and its place.
type DashboardError struct {
	Dashboard, Panel int // indices; Panel is -1 for a problem outside the panels
	Key              string
	Err              error
}

func (e *DashboardError) Error() string {
	if e.Panel < 0 {
		return fmt.Sprintf("dashboards[%d].%s: %v", e.Dashboard, e.Key, e.Err)
	}
	return fmt.Sprintf("dashboards[%d].panels[%d].%s: %v", e.Dashboard, e.Panel, e.Key, e.Err)
}

// Unwrap returns the problem without its place.
func (e *DashboardError) Unwrap() error { return e.Err }

// check returns the first invalid key of a panel, and why.
func (p Panel) check(parse func(expr string) error) (key string, err error) {
	if err := checkName(p.Title); err != nil {
		return "title", err
	}
	if !slices.Contains(panelKinds, p.Kind) {
		return "kind", fmt.Errorf("%q; want one of %v", p.Kind, panelKinds)
	}
	if !slices.Contains(panelUnits, p.Unit) {
		return "unit", fmt.Errorf("%q; want one of %q", p.Unit, panelUnits)
	}
	if strings.TrimSpace(p.Query) == "" || len(p.Query) > queryMost {
		return "query", fmt.Errorf("%d bytes; want 1 to %d", len(p.Query), queryMost)
	}
	return "query", parse(p.Query)
}

func checkName(s string) error {
	if n := utf8.RuneCountInString(strings.TrimSpace(s)); n < 1 || n > nameMost {
		return fmt.Errorf("%d characters; want 1 to %d", n, nameMost)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q: want printable characters", s)
	}
	return nil
}
