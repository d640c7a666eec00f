package notify

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/analysis"
)

// Format is how a receiver wants to be told.
type Format struct {
	// Name is what configurations call it.
	Name string
	// path is appended to the receiver's URL.
	path string
	// repeats: what is open is told again from time to time.
	repeats bool
	// labelled: what is told has its severity among what names it, so that another
	// severity is another one.
	labelled bool
	encode   func(*sender, []analysis.Record) ([]byte, error)
}

// Alertmanager takes alerts by its API, version 2
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml). It
// forgets an alert that is not told again.
var Alertmanager = &Format{Name: "alertmanager", path: "/api/v2/alerts", repeats: true, labelled: true, encode: alerts}

// Webhook takes one finding at a time, when it opens, changes its severity or
// closes: the JSON of a Record, with the machine and its page.
var Webhook = &Format{Name: "webhook", encode: hook}

// lifetimes is for how many repetitions an alert holds that is not told again, as
// Prometheus does it.
const lifetimes = 4

// alert is postableAlert of Alertmanager's API.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func alerts(s *sender, list []analysis.Record) ([]byte, error) {
	out := make([]alert, len(list))
	for i, r := range list {
		a := alert{
			Labels: map[string]string{"alertname": r.Rule, "subject": r.Subject, "severity": string(r.Severity), "instance": s.opts.Instance},
			Annotations: map[string]string{"summary": r.Title, "advice": r.Remedy, "evidence": evidence(r.Evidence),
				"cost": r.Cost, "reference": r.Reference, "confidence": string(r.Confidence)},
			StartsAt: r.Since, EndsAt: s.opts.Now().Add(lifetimes * s.opts.Repeat), GeneratorURL: s.link(r),
		}
		for k, v := range a.Annotations {
			if v == "" {
				delete(a.Annotations, k)
			}
		}
		if r.Until != nil {
			a.EndsAt = *r.Until
		}
		if a.EndsAt.Before(a.StartsAt) { // the clock was set back; such an alert would be refused
			a.EndsAt = a.StartsAt
		}
		out[i] = a
	}
	return json.Marshal(out)
}

// evidence is a line for each number.
func evidence(list []analysis.Evidence) string {
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = strings.TrimSpace(e.Text+": "+strconv.FormatFloat(e.Value, 'g', 4, 64)+" "+e.Unit) + " (" + e.Expr + ")"
	}
	return strings.Join(lines, "\n")
}

func hook(s *sender, list []analysis.Record) ([]byte, error) {
	return json.Marshal(struct {
		analysis.Record
		Instance string `json:"instance"`
		Page     string `json:"page,omitempty"`
	}{list[0], s.opts.Instance, s.link(list[0])})
}

// link is where the page shows a finding.
func (s *sender) link(r analysis.Record) string {
	if s.page == "" {
		return ""
	}
	return strings.TrimSuffix(s.page, "/") + "/?page=findings&subject=" + url.QueryEscape(r.ID)
}
