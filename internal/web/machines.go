package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/fleet"
)

// The default and the largest limit= of GET machines.
const (
	machinesDefault = 100
	machinesMost    = 1000
)

// machines adds the routes about all machines: GET machines?text=&tee=&health=&rule=&sort=&offset=&limit= returns a part of
// their list, GET causes the open findings grouped by their rule.
func machines(mux *routes, o Options) {
	mux.HandleFunc("GET /api/teescope/v1/machines", func(w http.ResponseWriter, r *http.Request) {
		a, err := askOf(r.URL.Query())
		if err != nil {
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
			return
		}
		p, err := o.Fleet.Page(r.Context(), a)
		if err != nil {
			refuse(w, o, err)
			return
		}
		reply(w, o, http.StatusOK, p)
	})
	mux.HandleFunc("GET /api/teescope/v1/causes", func(w http.ResponseWriter, r *http.Request) {
		list, err := o.Fleet.Causes(r.Context())
		if err != nil {
			refuse(w, o, err)
			return
		}
		reply(w, o, http.StatusOK, Causes{Causes: list})
	})
}

// askOf reads the parameters of GET machines.
func askOf(q url.Values) (a fleet.Ask, err error) {
	for name := range q {
		if !slices.Contains([]string{"text", "tee", "health", "rule", "sort", "offset", "limit"}, name) {
			return a, fmt.Errorf("%s: no such parameter; want text, tee, health, rule, sort, offset or limit", name)
		}
	}
	a = fleet.Ask{Text: q.Get("text"), TEE: q.Get("tee"), Health: fleet.Health(q.Get("health")), Rule: q.Get("rule"), Sort: q.Get("sort")}
	if a.Sort != "" && !slices.Contains(fleet.Sorts, a.Sort) {
		return a, badParameter{"sort", fmt.Errorf("%q: want one of %s", a.Sort, strings.Join(fleet.Sorts, ", "))}
	}
	if a.Health != "" && !slices.Contains(fleet.Healths, a.Health) {
		return a, badParameter{"health", fmt.Errorf("%q: want one of %v", a.Health, fleet.Healths)}
	}
	if a.Offset, err = number(q, "offset", 0, 1<<30); err != nil {
		return a, err
	}
	if a.Limit, err = number(q, "limit", 1, machinesMost); err != nil {
		return a, err
	}
	if q.Get("limit") == "" {
		a.Limit = machinesDefault
	}
	return a, nil
}
