package cli

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/notify"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/web"
)

// TestProblemsAreTheSame: of one set of findings, the API (which the page prints), explain, top and a webhook have the
// same problems, in the same order and words.
func TestProblemsAreTheSame(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	record := func(id, rule, subject string, severity findings.Severity, topic string, role findings.Role) findings.Record {
		return findings.Record{ID: id, State: findings.Open, Since: at.Add(-time.Minute), LastSeen: at, Finding: findings.Finding{
			Rule: rule, Machine: query.Machine{Job: "teescope", Instance: "vm1"}, Subject: subject, Title: subject + " shows " + rule + ".", Severity: severity,
			Confidence: findings.High, Remedy: "Do less.", Reference: "a page", Topic: topic, Role: role}}
	}
	records := []findings.Record{
		record("note", "anomaly", "cron", findings.Info, "", ""),
		record("own", "over_budget", "teescope", findings.Warning, "CPU saturated", findings.RoleMonitor),
		record("effect", "cpu_starvation", "web", findings.Warning, "CPU saturated", findings.RoleEffect),
		record("locks", "lock_contention", "db", findings.Critical, "", ""),
		record("cause", "pressure", "machine", findings.Warning, "CPU saturated", findings.RoleCause),
		record("storm", "syscall_storm", "db", findings.Warning, "", ""),
	}
	want := []string{"db shows lock_contention", "CPU saturated: 1 effect, on web"}
	titles := func(list []findings.Problem) (out []string) {
		for _, p := range list {
			out = append(out, p.Title)
		}
		return out
	}
	// within returns the wanted titles in the order in which a text has them.
	within := func(text string) (out []string) {
		text = regexp.MustCompile(`(?m)^(Problem \d+):\n`).ReplaceAllString(text, "$1: ") // its sentence is the leading finding's
		for _, l := range strings.Split(text, "\n") {
			for _, w := range want {
				if (strings.HasPrefix(l, "Problem ") || strings.HasPrefix(l, "WARNING ") || strings.HasPrefix(l, "CRITICAL ")) && strings.Contains(l, w) {
					out = append(out, w)
				}
			}
		}
		return out
	}

	answer := web.Findings{Findings: records, Rules: []findings.RuleStat{{Name: "r", Title: "R", Answer: findings.Fires, Windows: [2]float64{300, 60}}}, At: at}.WithSummary(at.Add(-time.Hour))
	body, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	if got := titles(answer.Problems); !reflect.DeepEqual(got, want) || answer.Summary.Headline != "2 problems, the worst: "+want[0] {
		t.Fatalf("the API has %q, %q; want %q", got, answer.Summary.Headline, want)
	}
	for _, p := range answer.Problems {
		if _, lead := findRecord(records, p.Lead); !lead {
			t.Errorf("the lead %q of %q is not among the findings", p.Lead, p.Title)
		}
	}

	server := monitorSaying(t, map[string]string{"answer": string(body), "platform": "{}", "overhead": "{}"})
	text, err := explainWith(t, "--server", server)
	if got := within(text); err != nil || !reflect.DeepEqual(got, want) || !strings.HasPrefix(text, answer.Summary.Headline+".\n") {
		t.Errorf("explain has %q, want %q, %v:\n%s", got, want, err, text)
	}
	out, errs, code := run(t, "top", "--once", "--server", server)
	if got := within(out); code != exitOK || !reflect.DeepEqual(got, want) {
		t.Errorf("top has %q, want %q, %d, %s:\n%s", got, want, code, errs, out)
	}

	sent := make(chan []findings.Problem, len(records))
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var got struct{ Problems []findings.Problem }
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%v in %s", err, b)
		}
		sent <- got.Problems
	}))
	defer receiver.Close()
	o := notify.DefaultOptions()
	o.Dir, o.Now, o.Log, o.Instance = t.TempDir(), func() time.Time { return at }, slog.New(slog.DiscardHandler), "vm1"
	n := notify.New(o)
	defer n.Close()
	if err := n.ApplySettings(notify.Settings{Receivers: []notify.Receiver{{Name: "hook", Format: notify.Webhook, URL: receiver.URL}}, Least: findings.Info}); err != nil {
		t.Fatal(err)
	}
	n.QueueChanges(records, records)
	for range records {
		if got := <-sent; !reflect.DeepEqual(got, answer.Problems) {
			t.Errorf("a webhook has %+v, the API %+v", got, answer.Problems)
		}
	}
}

func findRecord(records []findings.Record, id string) (findings.Record, bool) {
	for _, r := range records {
		if r.ID == id {
			return r, true
		}
	}
	return findings.Record{}, false
}

// TestSummaryIsTheSame: the sentence above a process's tree is the API's, whoever prints it.
func TestSummaryIsTheSame(t *testing.T) {
	a := explain.Amount{Value: 0.6, Low: 0.6, High: 0.6}
	rest := explain.Amount{Value: 0.3, Low: 0.3, High: 0.3}
	tree := explain.Tree{Subject: "redis", Per: "second", Active: explain.Amount{Value: 1, Low: 1, High: 1}, Unexplained: rest, UnexplainedShare: rest,
		Rows: []explain.Row{{ID: "own", Title: "user code", Share: a, Time: a}}}
	e := web.Explanation{Tree: tree, Summary: tree.Summarize(nil, ""), Causes: []explain.FoundCause{}, Findings: []findings.Record{}}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	server := monitorSaying(t, map[string]string{"answer": `{"findings":[],"rules":[],"at":"2026-01-01T00:00:00Z"}`, "explain": string(body)})
	text, err := explainWith(t, "--server", server, "--process", "redis")
	if flat := strings.Join(strings.Fields(text), " "); err != nil || !strings.Contains(flat, e.Summary.Headline) || !strings.Contains(flat, e.Summary.Whole) {
		t.Errorf("%v: explain does not say %q and %q:\n%s", err, e.Summary.Headline, e.Summary.Whole, text)
	}
	base, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Monitor(base).Tree(context.Background(), client.Subject{Process: "redis"}, "second", time.Time{}, time.Time{})
	if err != nil || got.Summary != e.Summary {
		t.Errorf("the API's summary is %+v, read as %+v, %v", e.Summary, got.Summary, err)
	}
}
