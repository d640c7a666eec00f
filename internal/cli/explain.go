package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
		Use:   "explain",
		Short: "Say in words what a running monitor has found, with evidence and advice",
		Long: `Explain asks a running monitor for its findings: the open ones, and those that
closed lately. Rules that could not tell are listed with the reason, so that
silence is not taken for health.

A monitor behind TLS and basic authentication is asked with --server
https://USER:PASSWORD@HOST:PORT; the environment variable SSL_CERT_FILE names a
certificate of its own that is to be trusted.`,
		Example: "  teescope explain\n  teescope explain --process redis --last 1h",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return x.run(c.Context(), env.Stdout)
		},
	}
	f := c.Flags()
	f.StringVar(&x.server, "server", "http://127.0.0.1:9780", "URL of the monitor")
	f.StringVar(&x.process, "process", "", "only subjects that match this regular expression (unanchored)")
	x.last = duration(5 * time.Minute)
	f.Var(&x.last, "last", "how long ago a closed finding may have closed")
	f.BoolVar(&x.json, "json", false, "print data instead of text")
	return c
}

// explainer holds the flags of explain.
type explainer struct {
	server, process string
	last            duration
	json            bool
}

func (x explainer) run(ctx context.Context, w io.Writer) error {
	subjects, err := regexp.Compile(x.process)
	if err != nil {
		return fmt.Errorf("--process: %w", err)
	}
	base, err := url.Parse(x.server)
	if err != nil {
		return fmt.Errorf("--server: %w; want a URL like http://127.0.0.1:9780", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return fmt.Errorf("--server %q: want a URL like http://127.0.0.1:9780", x.server)
	}
	found, err := fetchFindings(ctx, base.JoinPath("api/teescope/v1/findings"))
	if err != nil {
		return err
	}
	found.Findings = slices.DeleteFunc(found.Findings, func(r analysis.Record) bool {
		stale := r.State == analysis.Closed && r.Until != nil && found.At.Sub(*r.Until) > time.Duration(x.last)
		return stale || !subjects.MatchString(r.Subject)
	})
	if x.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	_, err = io.WriteString(w, explain(found, x))
	return err
}

// answerLimit bounds what is read of an answer: some ten thousand findings.
const answerLimit = 32 << 20

// fetchFindings asks a monitor; an error says what was tried and what to do.
func fetchFindings(ctx context.Context, u *url.URL) (web.Findings, error) {
	var found web.Findings
	shown := u.Redacted() // a password is for the monitor only
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return found, fmt.Errorf("--server: %w", err)
	}
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return found, fmt.Errorf("ask the monitor: GET %s: %w; name a certificate that you trust with the environment variable SSL_CERT_FILE", shown, untrusted)
	}
	if err != nil {
		return found, fmt.Errorf("ask the monitor: %w; start one with `teescope monitor`, or name its URL with --server", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return found, fmt.Errorf("read the monitor's answer from %s: %w", shown, err)
	}
	if resp.StatusCode != http.StatusOK {
		var e web.Error
		if json.Unmarshal(body, &e) != nil || e.Error == "" {
			e.Error = "no teescope monitor answers there; an agent has no findings"
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				e.Error = "it wants a name and a password: --server " + u.Scheme + "://USER:PASSWORD@" + u.Host
			case http.StatusBadRequest:
				e.Error = "a monitor behind TLS is asked with https://" // what Go's servers answer to plain HTTP
			}
		}
		return found, fmt.Errorf("ask the monitor: GET %s: %s: %s", shown, resp.Status, e.Error)
	}
	if err := json.Unmarshal(body, &found); err != nil {
		return found, fmt.Errorf("read the monitor's answer from %s: %w; is it a teescope monitor?", shown, err)
	}
	return found, nil
}

// explain writes findings for a reader.
func explain(found web.Findings, x explainer) string {
	var t text
	for _, r := range found.Findings {
		t.record(r, found.At)
	}
	var unknown []analysis.RuleStat
	for _, r := range found.Rules {
		if r.Answer == analysis.CannotTell {
			unknown = append(unknown, r)
		}
	}
	if len(found.Findings) == 0 {
		about := ""
		if x.process != "" {
			about = fmt.Sprintf(" about %q", x.process)
		}
		t.wrap("", fmt.Sprintf("Nothing found%s, now or in the last %s. %s", about, span(time.Duration(x.last)), watched(found.Rules)))
	} else {
		t.line("The queries behind the numbers: teescope explain --json")
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
	t.WriteString(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, fmt.Sprintf(format, args...)) + "\n")
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
	t.line("  subject: %s (rule %s)", r.Subject, r.Rule)
	if r.Share != nil {
		t.line("  share of CPU time: %s", interval(*r.Share))
	}
	t.line("  evidence:")
	for _, ev := range r.Evidence {
		t.wrap("    ", ev.Text+": "+quantity(ev.Value, ev.Unit))
	}
	t.wrap("  ", "what to do: "+r.Remedy)
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
