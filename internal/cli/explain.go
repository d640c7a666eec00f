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
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/web"
)

func explainCommand(env Env) *cobra.Command {
	var x explainer
	c := &cobra.Command{
		Use:   "explain [RESULT.json]",
		Short: "Say in words what a running monitor has found, and where the time of processes goes",
		Long: `Explain asks a running monitor for its findings: the open ones, and those that
closed lately. Rules that could not tell are listed with the reason, so that
silence is not taken for health.

With --process it shows where the time of that process went: how often something
happened, what one costs, the share of the time in which the process had work, and
the rest that nothing explains. With --before the window is laid beside an earlier
one, from so long until so long ago.

With a RESULT.json of bench run it says by how much events of each kind differ
between the arms, at the price that was calibrated when they ran, or now where a
result of before holds none.

A monitor behind TLS and basic authentication is asked with --server
https://USER:PASSWORD@HOST:PORT; the environment variable SSL_CERT_FILE names a
certificate of its own that is to be trusted.`,
		Example: "  teescope explain\n  teescope explain --process redis-server --last 1h\n" +
			"  teescope explain --process redis-server --per request --before 2h..1h",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return x.result(env.Stdout, args[0])
			}
			return x.run(c.Context(), env.Stdout)
		},
	}
	f := c.Flags()
	f.StringVar(&x.server, "server", "http://127.0.0.1:9780", "URL of the monitor")
	f.StringVar(&x.process, "process", "", "only subjects that match this regular expression (unanchored); the name of a process means that one")
	f.StringVar(&x.instance, "instance", "", "machine, where the monitor knows several with such a process")
	f.StringVar(&x.per, "per", "second", "show times per second or per request")
	x.last = duration(5 * time.Minute)
	f.Var(&x.last, "last", "window to explain, and how long ago a closed finding may have closed")
	f.Var(&x.before, "before", "earlier window to compare with, like 2h..1h: from two hours until one hour ago")
	f.StringVar(&x.data, "data", dataDir(), "folder of a monitor's store, whose calibration prices a RESULT.json that holds none")
	f.BoolVar(&x.json, "json", false, "print data instead of text")
	return c
}

// explainer holds the flags of explain.
type explainer struct {
	server, process, instance, per, data string
	last                                 duration
	before                               ago
	json                                 bool
}

// explained is what explain --json prints: the findings as the monitor serves them,
// and where the time of processes went.
type explained struct {
	web.Findings
	Explanations []web.Explanation `json:"explanations"`
	// Before are those of the window of --before.
	Before []web.Explanation `json:"before,omitempty"`
	// Problems say why there are no more explanations.
	Problems []string `json:"problems,omitempty"`
}

func (x explainer) run(ctx context.Context, w io.Writer) error {
	subjects, err := regexp.Compile(x.process)
	if err != nil {
		return fmt.Errorf("--process: %w; a name with such characters is written with backslashes: %s", err, regexp.QuoteMeta(x.process))
	}
	if x.per != "second" && x.per != "request" {
		return fmt.Errorf("--per %q: want second or request", x.per)
	}
	if x.before.set() && x.process == "" {
		return errors.New("--before compares two windows of a process: name it with --process")
	}
	base, err := serverURL(x.server)
	if err != nil {
		return err
	}
	out := explained{Explanations: []web.Explanation{}}
	if err := ask(ctx, base.JoinPath("api/teescope/v1/findings"), &out.Findings); err != nil {
		return err
	}
	out.Findings.Findings = slices.DeleteFunc(out.Findings.Findings, func(r analysis.Record) bool {
		stale := r.State == analysis.Closed && r.Until != nil && out.At.Sub(*r.Until) > time.Duration(x.last)
		return stale || !subjects.MatchString(r.Subject) && r.Subject != x.process
	})
	if err := x.trees(ctx, base, &out); err != nil {
		return err
	}
	if x.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(out)
	}
	_, err = io.WriteString(w, explain(out, x))
	return err
}

// explain writes findings and explanations for a reader. Who asks about a process
// is told about that first.
func explain(found explained, x explainer) string {
	var t text
	if x.process != "" {
		for i, e := range found.Explanations {
			t.explanation(e)
			if i < len(found.Before) {
				t.differences(found.Before[i].Tree, e.Tree)
			}
		}
		t.problems(found.Problems)
	}
	for _, r := range found.Findings.Findings {
		t.record(r, found.At)
	}
	var unknown []analysis.RuleStat
	for _, r := range found.Rules {
		if r.Answer == analysis.CannotTell {
			unknown = append(unknown, r)
		}
	}
	if len(found.Findings.Findings) == 0 {
		about := ""
		if x.process != "" {
			about = fmt.Sprintf(" about %q", x.process)
		}
		t.wrap("", fmt.Sprintf("Nothing found%s, now or in the last %s. %s", about, span(time.Duration(x.last)), watched(found.Rules)))
	} else {
		t.line("The queries behind the numbers: teescope explain --json")
	}
	if x.process == "" && len(found.Explanations)+len(found.Problems) > 0 {
		t.line("")
		t.line("The processes with the most work, and where their time goes:")
		for _, e := range found.Explanations {
			t.wrap("  ", summaryOf(e))
		}
		t.problems(found.Problems)
	}
	if len(unknown) > 0 {
		t.line("")
		t.line("Could not tell:")
		for _, r := range unknown {
			t.wrap("  ", r.Title+": "+cmp.Or(r.Reason, "no reason was given"))
		}
	}
	return t.String()
}

// text is written line by line. What comes from processes, such as their names,
// must not steer the reader's terminal, so nothing but printable characters gets out.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) {
	t.WriteString(printable(fmt.Sprintf(format, args...)) + "\n")
}

// printable replaces each character that is not printable.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// wrap writes words in lines of at most 100 columns, the first one after
// indent, the others two columns further in.
func (t *text) wrap(indent, words string) {
	line := indent
	for i, w := range strings.Fields(words) {
		switch {
		case i == 0:
		case utf8.RuneCountInString(line+" "+w) > 100:
			t.line("%s", line)
			line = indent + "  "
		default:
			line += " "
		}
		line += w
	}
	t.line("%s", line)
}

func (t *text) record(r analysis.Record, now time.Time) {
	t.wrap("", strings.ToUpper(string(r.Severity))+": "+r.Title)
	if r.State == analysis.Closed && r.Until != nil {
		t.line("  closed: it lasted from %s to %s", clockTime(r.Since, now), clockTime(*r.Until, now))
	} else {
		t.line("  since %s, for %s", clockTime(r.Since, now), span(now.Sub(r.Since)))
	}
	doubt := ""
	if r.Confidence == analysis.Medium || r.Confidence == analysis.Low {
		doubt = ", confidence " + string(r.Confidence)
	}
	t.line("  subject: %s (rule %s%s)", r.Subject, r.Rule, doubt)
	if r.Share != nil {
		t.line("  share of its time: %s", interval(*r.Share))
	}
	t.line("  evidence:")
	for _, ev := range r.Evidence {
		t.wrap("    ", ev.Text+": "+quantity(ev.Value, ev.Unit))
	}
	t.wrap("  ", "what to do: "+r.Remedy)
	if r.Cost != "" {
		t.wrap("  ", "if it stays as it is: "+r.Cost)
	}
	t.wrap("  ", "read more: "+r.Reference)
	t.line("")
}

// watched says what the rules that could tell have looked for.
func watched(rules []analysis.RuleStat) string {
	var out []string
	for _, r := range rules {
		if r.Answer != analysis.CannotTell {
			out = append(out, r.Title)
		}
	}
	if len(out) == 0 {
		return "But no rule could tell."
	}
	return "Watched for: " + strings.Join(out, ", ") + "."
}

// interval prints an interval of ratios.
func interval(s [2]float64) string {
	low, high := quantity(s[0], "ratio"), quantity(s[1], "ratio")
	if low == high {
		return low
	}
	return low + " to " + high
}

// quantity prints a value in its base unit with four digits. A ratio of up to
// one is printed in percent; above it is a factor.
func quantity(v float64, unit string) string {
	if unit == "ratio" {
		if v > 1 {
			return digits(v) + " times"
		}
		return digits(v*100) + " %"
	}
	if unit == "1/s" {
		return digits(v) + "/s"
	}
	return strings.TrimSpace(digits(v) + " " + unit)
}

// digits prints a number with four significant digits and its thousands apart.
func digits(v float64) string {
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 3, 64), 64)
	s := strconv.FormatFloat(v, 'f', -1, 64)
	whole, frac, _ := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	if err != nil || len(whole) > 15 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if v < 0 {
		whole = "-" + whole
	}
	if frac != "" {
		whole += "." + frac
	}
	return whole
}

// span prints a time that has passed, to the second.
func span(d time.Duration) string {
	s := d.Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// clockTime prints a point in time in the zone of now, which is the monitor's,
// with the date when it is of another day.
func clockTime(t, now time.Time) string {
	t = t.In(now.Location())
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05 MST")
	}
	return t.Format("2006-01-02 15:04:05 MST")
}
