package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// dashboards adds the routes of the users' dashboards: GET has them all, to show and
// to export; PUT replaces those that are not locked.
func dashboards(mux *http.ServeMux, o Options) {
	const at = "/api/teescope/v1/dashboards"
	mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, o, http.StatusOK, o.Dashboards.Dashboards())
	})
	mux.HandleFunc("PUT "+at, func(w http.ResponseWriter, r *http.Request) {
		var d Dashboards
		err := body(w, r, dashboardsBytes, &d)
		if err == nil && d.Dashboards == nil { // another document would delete all
			err = errors.New("dashboards: want a list; [] for none")
		}
		if err == nil {
			err = o.Dashboards.SetDashboards(d.Dashboards) // what was exported may be imported, whose locked ones do not matter
		}
		switch {
		case errors.Is(err, ErrNotKept):
			reply(w, o, http.StatusInsufficientStorage, Error{err.Error()})
		case err != nil:
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
		default:
			reply(w, o, http.StatusOK, o.Dashboards.Dashboards())
		}
	})
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
