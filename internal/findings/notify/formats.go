package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/query"
)

// Format is a receiver's protocol.
type Format struct {
	// Name is its name in configurations.
	Name string
	// path is appended to the receiver's URL.
	path string
	// repeats: open findings are sent again from time to time.
	repeats bool
	// labelled: the severity is part of the identity, so another severity is another
	// alert.
	labelled bool
	encode   func(*sender, []findings.Record) ([]byte, error)
}

// Alertmanager takes alerts by its API, version 2
// (https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml). It
// ends an alert that is not repeated.
var Alertmanager = &Format{Name: "alertmanager", path: "/api/v2/alerts", repeats: true, labelled: true, encode: alerts}

// Webhook takes one finding at a time, when it opens, changes its severity or
// closes: the JSON of a Record, with the machine, its page and its open problems, and all of it as a text.
var Webhook = &Format{Name: "webhook", encode: hook}

// Slack takes the text of a finding, as Slack's incoming webhooks do
// (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks).
var Slack = &Format{Name: "slack", encode: func(s *sender, list []findings.Record) ([]byte, error) {
	r := s.tellNow(list[0])
	out := fmt.Sprintf("%s *%s*", slackText.Replace(s.opening(r)), slackBold.Replace(slackText.Replace(oneLine(r.Sentence))))
	if advice := r.Remedy; advice != "" && r.State == findings.Open {
		out += "\n" + slackText.Replace(oneLine(advice))
	}
	if link := s.link(r); link != "" {
		out += "\n<" + slackText.Replace(link) + "|Open in teescope>"
	}
	return json.Marshal(chat{out})
}}

// Text takes {"text": "..."} without markup, as Mattermost, Rocket.Chat, Google Chat and most others do.
var Text = &Format{Name: "text", encode: func(s *sender, list []findings.Record) ([]byte, error) {
	return json.Marshal(chat{s.text(list[0])})
}}

// chat is the message of a chat's webhook.
type chat struct {
	Text string `json:"text"`
}

// slackText escapes what is markup in Slack's texts
// (https://docs.slack.dev/messaging/formatting-message-text/#escaping).
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackBold replaces what would end bold text, and has no escape, by characters that look alike.
var slackBold = strings.NewReplacer("*", "\u2217", "`", "\u02cb")

// unmentioned keeps names from being mentions: @all in Mattermost, <users/all> in Google Chat. These have no escapes,
// so a space without width follows the mark.
var unmentioned = strings.NewReplacer("@", "@\u200b", "<", "<\u200b")

// oneLine returns a text as one line without secrets: a receiver shows it to people, or keeps it.
func oneLine(s string) string {
	return printable.OneLine(printable.Redact(strings.Join(strings.Fields(s), " ")))
}

// text returns a finding as a text of a few lines, without markup.
func (s *sender) text(r findings.Record) string {
	r = s.tellNow(r)
	out := unmentioned.Replace(s.opening(r) + " " + oneLine(r.Sentence))
	if r.Remedy != "" && r.State == findings.Open {
		out += "\n" + unmentioned.Replace(oneLine(r.Remedy))
	}
	if link := s.link(r); link != "" {
		out += "\n" + link
	}
	return out
}

// opening returns the first words of a text: the severity or the end of a finding, and its machine.
func (s *sender) opening(r findings.Record) string {
	word := strings.ToUpper(string(r.Severity))
	if r.State == findings.Closed {
		word = "ENDED"
	}
	return word + " on " + oneLine(s.instance(r)) + ":"
}

// lifetimes is the number of missed repetitions after which an alert ends, as in
// Prometheus.
const lifetimes = 4

// alert is postableAlert of Alertmanager's API.
type alert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func alerts(s *sender, list []findings.Record) ([]byte, error) {
	out := make([]alert, len(list))
	problems := map[string][]findings.Problem{} // by machine
	for i, r := range list {
		on := s.instance(r)
		if problems[on] == nil {
			problems[on] = s.problems(on)
		}
		r = s.tellNow(r)
		a := alert{
			Labels: map[string]string{"alertname": r.Rule, "subject": r.Subject, "severity": string(r.Severity), "instance": on},
			Annotations: map[string]string{"summary": r.Sentence, "advice": r.Remedy, "evidence": evidence(r.Evidence), "cost": r.Cost, "reference": r.Reference,
				"confidence": string(r.Confidence), "problem": titleOf(problems[on], r.ID), "runs_in": strings.Join(r.RunsIn, ", ")},
			StartsAt: r.Since, EndsAt: s.opts.Now().Add(lifetimes * s.opts.Repeat), GeneratorURL: s.link(r),
		}
		if r.Unit != "" {
			a.Labels["unit"] = r.Unit
		}
		for k, v := range a.Annotations {
			if v == "" {
				delete(a.Annotations, k)
			}
		}
		if r.Until != nil {
			a.EndsAt = *r.Until
		}
		if a.EndsAt.Before(a.StartsAt) { // such an alert would be refused
			a.EndsAt = a.StartsAt
		}
		out[i] = a
	}
	return json.Marshal(out)
}

// evidence returns a line for each number.
func evidence(list []query.Evidence) string {
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = e.Text + ": " + e.Number() + " (" + e.Expr + ")"
	}
	return strings.Join(lines, "\n")
}

func hook(s *sender, list []findings.Record) ([]byte, error) {
	problems := s.problems(s.instance(list[0]))
	return json.Marshal(struct {
		findings.Record
		Instance string `json:"instance"`
		Page     string `json:"page,omitempty"`
		Text     string `json:"text"`
		// Problem is the title of the problem that the finding is part of; Problems are all of its machine that are open
		// when the message is sent, as the page shows them, but without early findings.
		Problem  string             `json:"problem,omitempty"`
		Problems []findings.Problem `json:"problems"`
	}{s.tellNow(list[0]), s.instance(list[0]), s.link(list[0]), s.text(list[0]), titleOf(problems, list[0].ID), problems})
}

// tellNow returns a finding as it is told now. The clock may have been set back: a receiver would wait for such an end.
func (s *sender) tellNow(r findings.Record) findings.Record {
	now := s.opts.Now()
	return r.NoLater(now).WithSentence(now, s.opts.Fresh)
}

// instance returns the machine of a finding: the monitor's own for one about no single machine.
func (s *sender) instance(r findings.Record) string { return cmp.Or(r.Instance, s.opts.Instance) }

// link returns the URL at which the page shows a finding.
func (s *sender) link(r findings.Record) string {
	if s.page == "" {
		return ""
	}
	link := strings.TrimSuffix(s.page, "/") + "/?page=findings&subject=" + url.QueryEscape(r.ID)
	if s.instance(r) != s.opts.Instance {
		link += "&machine=" + url.QueryEscape(r.Instance) + "&job=" + url.QueryEscape(r.Job)
	}
	return link
}
