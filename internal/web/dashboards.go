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

// What all the users' dashboards may take.
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

// DashboardKeeper holds the users' dashboards.
type DashboardKeeper interface {
	Dashboards() Dashboards
	// SetDashboards replaces those of the users, after it checked them.
	SetDashboards([]Dashboard) error
}

// ErrNotKept is wrapped by a change that is right and could not be stored.
var ErrNotKept = errors.New("not kept")

// errChanged refuses a change of dashboards that are no longer those that were read.
var errChanged = errors.New("the dashboards were changed since they were read, and nothing was done; read them again, and send the change with their new ETag in If-Match")

// dashboards adds the routes of the users' dashboards: GET has them all, to show and
// to export; PUT replaces those that are not locked. Both name what is there now in
// ETag; a PUT with If-Match replaces only what it names (RFC 9110, section 13.1.1).
func dashboards(mux *http.ServeMux, o Options) {
	const at = "/api/teescope/v1/dashboards"
	answer := func(w http.ResponseWriter) {
		d := o.Dashboards.Dashboards()
		w.Header().Set("ETag", tagOf(d))
		reply(w, o, http.StatusOK, d)
	}
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	var one sync.Mutex // between the look at what is there and its replacement
	mux.HandleFunc("PUT "+at, func(w http.ResponseWriter, r *http.Request) {
		var d Dashboards
		err := body(w, r, dashboardsBytes, &d)
		one.Lock()
		defer one.Unlock()
		if err == nil && d.Dashboards == nil { // another document would delete all
			err = errors.New("dashboards: want a list; [] for none")
		}
		if err == nil && !ifMatch(r, tagOf(o.Dashboards.Dashboards())) {
			err = errChanged
		}
		if err == nil {
			err = o.Dashboards.SetDashboards(d.Dashboards) // what was exported may be imported, whose locked ones do not matter
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

// tagOf is the entity tag of dashboards: equal tags, equal documents.
func tagOf(d Dashboards) string {
	b, _ := json.Marshal(d) // texts alone: they can always be written
	sum := sha256.Sum256(b)
	return fmt.Sprintf(`"%x"`, sum[:12])
}

// ifMatch says whether a request may change what has a tag. Without If-Match it may.
func ifMatch(r *http.Request, tag string) bool {
	wanted, asked := r.Header["If-Match"]
	tags := strings.Join(wanted, ",")
	if !asked || strings.TrimSpace(tags) == "*" {
		return true
	}
	// A weak tag, W/"...", names no single document and so never this one.
	return slices.ContainsFunc(strings.Split(tags, ","), func(t string) bool { return strings.TrimSpace(t) == tag })
}

// CheckDashboards says what is wrong with a list of dashboards beside others whose
// names are taken; parse says what is wrong with a query. The keys of a problem are
// those of the list's JSON, with indices.
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
			at.Err = fmt.Errorf("%q is taken; choose another", d.Name)
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

// DashboardError is a problem with a dashboard, and where it is.
type DashboardError struct {
	Dashboard, Panel int // indices; Panel is -1 where the problem is no panel's
	Key              string
	Err              error
}

func (e *DashboardError) Error() string {
	if e.Panel < 0 {
		return fmt.Sprintf("dashboards[%d].%s: %v", e.Dashboard, e.Key, e.Err)
	}
	return fmt.Sprintf("dashboards[%d].panels[%d].%s: %v", e.Dashboard, e.Panel, e.Key, e.Err)
}

// Unwrap is the problem without its place.
func (e *DashboardError) Unwrap() error { return e.Err }

// check says which key of a panel is wrong, and why.
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
		return fmt.Errorf("%q: want characters that can be printed", s)
	}
	return nil
}
