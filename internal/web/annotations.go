package web

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
)

// annotationsMost bounds the regions of a chart: the open ones and the newest.
const annotationsMost = 500

// annotations adds the routes of the regions that charts mark: GET annotations?from=TIME&to=TIME with rule=, subject=,
// job= and instance= as in GET findings, and POST annotations for Grafana's simple JSON data source
// (https://github.com/grafana/simple-json-datasource#annotation-api). That data source also requests the folder
// itself.
func annotations(mux *routes, o Options) {
	mux.HandleFunc("GET "+base+"{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "teescope") })
	mux.HandleFunc("GET "+base+"annotations", func(w http.ResponseWriter, r *http.Request) {
		f, err := filter(r.URL.Query())
		if err != nil {
			reply(w, o, http.StatusBadRequest, Error{err.Error()})
			return
		}
		regions(w, r, o, f, func(s string) string { return s })
	})
	mux.HandleFunc("POST "+base+"annotations", func(w http.ResponseWriter, r *http.Request) {
		var q grafanaQuery
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&q); err != nil {
			reply(w, o, http.StatusBadRequest, Error{"read body: " + err.Error()})
			return
		}
		f := findings.Filter{From: q.Range.From, To: q.Range.To, Rule: strings.TrimSpace(q.Annotation.Query), Limit: annotationsMost}
		regions(w, r, o, f, html.EscapeString) // Grafana shows titles and texts as HTML
	})
}

// grafanaQuery is the part of Grafana's request that matters here.
type grafanaQuery struct {
	Range struct {
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
	} `json:"range"`
	Annotation struct {
		Query string `json:"query"` // a rule's name, "" for all
	} `json:"annotation"`
}

func regions(w http.ResponseWriter, r *http.Request, o Options, f findings.Filter, text func(string) string) {
	f.Limit = min(f.Limit, annotationsMost)
	list, err := o.History(r.Context(), f)
	if err != nil {
		reply(w, o, http.StatusInternalServerError, Error{err.Error()})
		return
	}
	out := make([]Annotation, len(list))
	for i, r := range list {
		out[i] = region(r, text)
	}
	reply(w, o, http.StatusOK, out)
}

// region returns a finding as a chart marks it, from its start until it was last seen.
func region(r findings.Record, text func(string) string) Annotation {
	end := r.LastSeen
	if r.Until != nil {
		end = *r.Until
	}
	tags := []string{r.Rule, string(r.Severity), string(r.State)}
	if r.Silenced != "" {
		tags = append(tags, "silenced")
	}
	return Annotation{ID: r.ID, Time: r.Since.UnixMilli(), TimeEnd: max(end.UnixMilli(), r.Since.UnixMilli()),
		Title: text(r.Whom() + ": " + r.Rule), Text: text(r.Title), Tags: tags}
}
