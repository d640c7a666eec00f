package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/web"
)

func explainCommand(env Env) *cobra.Command {
	var x explainer
	c := &cobra.Command{
		Use:   "explain [RESULT.json]",
		Short: "Show a monitor's findings, and where the time of a process or a benchmark goes",
		Long: `Explain asks a running monitor for its findings: the open ones, and those that
closed recently. Checks that could not run are listed with the reason, so silence
is not taken for health. If no monitor runs and --server is not given, explain
reads the machine itself for 10 s. These 10 s are then the window, and nothing is stored.

With --process it shows where that process spent its time. Each row has a number of events,
the cost of one event, and the events' share of the time in which the process had work. The
last row is the unexplained time. With --before it compares the window with an earlier
window.

With a RESULT.json of bench run it shows where the difference between the environments
comes from: how much more often each event happened, what one event costs, and the
unexplained rest. Explain uses the costs that were calibrated when the benchmark ran. If an
old result has no costs, explain uses the costs of this machine.

With --query-url it explains from the series of a Prometheus-compatible engine, without
a monitor. It then shows no findings, because only a monitor stores findings.

For a monitor behind TLS and basic authentication, use --server
https://USER:PASSWORD@HOST:PORT. If its certificate is self-signed, name it in
the environment variable SSL_CERT_FILE.`,
		Example: "  teescope explain\n  teescope explain --process redis-server --last 1h\n" +
			"  teescope explain --process redis-server --per request --before 2h..1h",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return x.result(env.Stdout, args[0])
			}
			x.named, x.lasting = serverNamed(c), c.Flags().Changed("last")
			return x.run(c.Context(), env)
		},
	}
	f := c.Flags()
	serverFlag(c, &x.server, "address of the monitor")
	engineFlags(c, &x.at, "to explain from, instead of a monitor")
	f.StringVar(&x.process, "process", "", "only subjects that match this regular expression (unanchored); an exact process name selects only that process. The kernel keeps only 15 bytes of a name, so a longer exact name also selects processes with the same first 15 bytes")
	f.StringVar(&x.instance, "instance", "", "machine (instance label), if several machines have a process of that name")
	f.StringVar(&x.per, "per", "second", "show times per second or per request")
	x.last = duration(5 * time.Minute)
	f.Var(&x.last, "last", "window to explain; findings that closed within it are shown too")
	f.Var(&x.before, "before", "earlier window to compare with, like 2h..1h: from two hours until one hour ago")
	f.StringVar(&x.data, "data", dataDir(), "folder of a monitor's store; the calibrated costs in this store are used if RESULT.json has none")
	f.BoolVar(&x.checks, "checks", false, "list the checks that did not run and what each needs")
	f.BoolVar(&x.json, "json", false, "print data instead of text")
	return c
}

// explainer holds the flags of explain.
type explainer struct {
	server, process, instance, per, data string
	named                                bool // the user named the server
	at                                   client.Engine
	last                                 duration
	lasting                              bool // the user gave the window
	before                               ago
	json, checks                         bool
}

// explained is what explain --json prints: the findings as the monitor serves them,
// and where the time of processes went.
type explained struct {
	web.Findings
	Explanations []web.Explanation `json:"explanations"`
	// Before are those of the window of --before.
	Before []web.Explanation `json:"before,omitempty"`
	// Unexplained says why explanations are missing.
	Unexplained []string `json:"unexplained,omitempty"`
}

func (x explainer) run(ctx context.Context, env Env) (err error) {
	subjects, err := metric.CompileNames(x.process)
	if err != nil {
		return fmt.Errorf("--process: %w; for a process name with such characters, write backslashes: %s", err, regexp.QuoteMeta(x.process))
	}
	if x.per != "second" && x.per != "request" {
		return fmt.Errorf("--per %q: want second or request", x.per)
	}
	if x.before.set() && x.process == "" {
		return errors.New("--before compares two windows of a process; name the process with --process")
	}
	out := explained{Explanations: []web.Explanation{}}
	of, end, err := x.backend(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if out.Findings, err = of.Findings(ctx); err != nil {
		return err
	}
	out.Findings.Findings = slices.DeleteFunc(out.Findings.Findings, func(r findings.Record) bool {
		stale := r.State == findings.Closed && r.Until != nil && out.At.Sub(*r.Until) > time.Duration(x.last)
		return stale || !subjects.MatchString(r.Subject) && r.Subject != x.process
	})
	if err := x.trees(ctx, of, &out); err != nil {
		return err
	}
	if x.json {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	_, err = io.WriteString(env.Stdout, explanationText(out, x))
	return err
}

// backend returns who answers, and what to call at the end. Without a monitor that is this process, after it has watched
// for a while.
func (x *explainer) backend(ctx context.Context, env Env) (b client.Backend, end func() error, err error) {
	end = func() error { return nil }
	if err := x.at.Check(); err != nil {
		return b, end, err
	}
	if x.at.URL != "" {
		b, err := x.askEngine(ctx)
		return b, end, err
	}
	base, err := serverURL(x.server)
	if err != nil {
		return b, end, err
	}
	if !x.named {
		if x.named, err = client.MonitorAnswers(ctx, base); err != nil {
			return b, end, err
		}
	}
	if x.named {
		return client.Monitor(base), end, nil
	}
	if x.before.set() {
		return b, end, fmt.Errorf("--before needs a monitor, because only a monitor has an earlier window, and no monitor answers at %s; start one with `teescope monitor`, or name a running monitor's URL with --server", printable.URL(base))
	}
	return x.watchHere(ctx, env, base)
}

// explanationText writes findings and explanations for a reader. A requested
// explanation comes first.
func explanationText(found explained, x explainer) string {
	var t text
	if x.process != "" {
		for i, e := range found.Explanations {
			t.Tree(e.Tree, e.Causes)
			if i < len(found.Before) {
				if err := t.Differences(found.Before[i].Tree, e.Tree); err != nil {
					t.Unexplained([]string{err.Error()})
				}
			}
		}
		t.Unexplained(found.Unexplained)
	}
	if x.process == "" && len(found.Findings.Findings) > 0 {
		t.Wrap("", strings.TrimSuffix(found.Summary.Headline, ".")+".")
		t.Line("")
	}
	t.findings(found.Findings)
	var unknown []findings.RuleStat
	for _, r := range found.Rules {
		if r.Answer == findings.CannotTell {
			unknown = append(unknown, r)
		}
	}
	near, shown := nearFindings(found, x)
	switch {
	case x.at.URL != "":
		t.Line("A query engine stores no findings; `teescope monitor --query-url` evaluates the rules and shows findings.")
	case len(found.Findings.Findings) == 0:
		about := ""
		if x.process != "" {
			about = fmt.Sprintf(" for %q", x.process)
		}
		t.Wrap("", fmt.Sprintf("No findings%s, now or in the last %s. %s", about, metric.Length(time.Duration(x.last).Seconds()), watched(found.Rules, shown)))
	default:
		t.Line("The queries behind the numbers: teescope explain --json")
	}
	for _, l := range near {
		t.Wrap("", l)
	}
	if x.process == "" && len(found.Explanations)+len(found.Unexplained) > 0 {
		t.Line("")
		t.Line("The processes with the most work, and where their time goes:")
		for _, e := range found.Explanations {
			t.Wrap("  ", e.Tree.Summarize(e.Causes, "").Headline)
		}
		t.Unexplained(found.Unexplained)
	}
	switch {
	case len(unknown) > 0 && !x.checks:
		t.Line("")
		t.Line("%s: `teescope explain --checks` says what each check needs.", found.Summary.Checks)
	case len(unknown) > 0:
		t.Line("")
		t.Line("%s:", found.Summary.Checks)
		for _, r := range unknown {
			t.Wrap("  ", r.Title+": "+cmp.Or(r.Reason, "no reason was given"))
		}
	}
	return t.String()
}

// text is what commands write for a terminal.
type text struct{ explain.Text }

// findings writes the problems with their findings, the worst first, and then the other findings.
func (t *text) findings(f web.Findings) {
	rest := slices.Clone(f.Findings)
	remove := func(id string) (r findings.Record, ok bool) {
		i := slices.IndexFunc(rest, func(r findings.Record) bool { return r.ID == id })
		if i < 0 {
			return r, false // the process filter has left it out
		}
		r = rest[i]
		rest = slices.Delete(rest, i, i+1)
		return r, true
	}
	for i, p := range f.Problems {
		var members []findings.Record
		for _, id := range append([]string{p.Lead}, p.Effects...) {
			if r, ok := remove(id); ok {
				members = append(members, r)
			}
		}
		same := len(members) > 0 && p.Title+"." == cmp.Or(members[0].Sentence, members[0].Title)
		if len(members) > 0 && !same {
			t.Wrap("", fmt.Sprintf("Problem %d, %s: %s", i+1, p.Severity, p.Title))
		} else if same {
			t.Line("Problem %d:", i+1)
		}
		for _, r := range members {
			t.record(r, f.At)
		}
	}
	for _, r := range rest {
		t.record(r, f.At)
	}
}

func (t *text) record(r findings.Record, now time.Time) {
	t.Wrap("", strings.ToUpper(string(r.Severity))+": "+cmp.Or(r.Sentence, r.Title))
	if r.State == findings.Closed && r.Until != nil {
		t.Line("  closed: it lasted from %s to %s", explain.Clock(r.Since, now), explain.Clock(*r.Until, now))
	} else {
		t.Line("  since %s, for %s; values of %s, %s ago", explain.Clock(r.Since, now), metric.Length(now.Sub(r.Since).Seconds()), explain.Clock(r.LastSeen, now), metric.Length(now.Sub(r.LastSeen).Seconds()))
	}
	doubt := ""
	if r.Confidence == findings.Medium || r.Confidence == findings.Low {
		doubt = ", confidence " + string(r.Confidence)
	}
	t.Line("  subject: %s (rule %s%s)", r.Subject, r.Rule, doubt)
	if n := len(r.RunsIn); n > 0 {
		where := "runs in: " + strings.Join(r.RunsIn, ", ")
		if n > 1 {
			where += ", added up"
		}
		t.Wrap("  ", where)
	}
	if r.Share != nil {
		t.Line("  share of %s: %s", cmp.Or(r.ShareOf, "its time"), interval(*r.Share))
	}
	t.Line("  evidence:")
	for _, ev := range r.Evidence {
		t.Wrap("    ", ev.Text+": "+ev.Number())
	}
	t.Wrap("  ", "what to do: "+r.Remedy)
	if r.Cost != "" {
		t.Wrap("  ", "if it stays as it is: "+r.Cost)
	}
	t.Wrap("  ", "read more: "+r.Reference)
	t.Line("")
}

// nearFindings says which rules are silent although a selected subject is near their limits, or an explanation shows
// their cause; rules are their names.
func nearFindings(found explained, x explainer) (lines []string, rules map[string]bool) {
	rules = map[string]bool{}
	if x.process != "" {
		for _, e := range found.Explanations {
			for _, s := range e.Silent {
				lines, rules[s.Rule] = append(lines, s.Text), true
			}
		}
	}
	subjects, err := metric.CompileNames(x.process)
	for _, r := range found.Rules {
		told := rules[r.Name]
		for _, n := range r.Near {
			if !told && (err != nil || subjects.MatchString(n.Subject) || n.Subject == x.process) {
				lines, rules[r.Name] = append(lines, fmt.Sprintf("Near a finding of %s: %s", r.Title, n.Text)), true
			}
		}
	}
	return lines, rules
}

// watched says what the rules that ran have looked for, without those of which something else is said.
func watched(rules []findings.RuleStat, without map[string]bool) string {
	var out []string
	for _, r := range rules {
		if r.Answer != findings.CannotTell && !without[r.Name] {
			out = append(out, r.Title)
		}
	}
	if len(out) == 0 {
		return "But no check could run."
	}
	return "Checked: " + strings.Join(out, ", ") + "."
}

// interval prints an interval of ratios.
func interval(s [2]float64) string {
	if s[0] == s[1] {
		return metric.Percent(s[0])
	}
	return metric.Percent(s[0]) + " to " + metric.Percent(s[1])
}

// known is what explanations need to know.
var known = &explain.Catalog{Prices: prices.Catalog(), Causes: causes.All}
