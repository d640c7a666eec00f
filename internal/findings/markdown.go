package findings

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// escapeMarkdown makes a text what it says: names of processes can hold anything. A mention has no escape, so a space
// without width follows its mark.
var escapeMarkdown = strings.NewReplacer("\\", `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "#", `\#`, "|", `\|`, "\n", " ", "\r", " ", "&", `\&`, "@", "@\u200b")

// webAddress is written as it is: an escape would be part of it.
var webAddress = regexp.MustCompile(`https?://[\w.~:/?#@!$&'()*+,;=%-]*[\w/]`)

// withAddresses escapes a text of a rule, and makes links of its addresses.
func withAddresses(text string) string {
	var b strings.Builder
	end := 0
	for _, at := range webAddress.FindAllStringIndex(text, -1) {
		b.WriteString(escapeMarkdown.Replace(text[end:at[0]]) + "<" + text[at[0]:at[1]] + ">")
		end = at[1]
	}
	return b.String() + escapeMarkdown.Replace(text[end:])
}

// Markdown returns the finding as a text for a ticket, as the sentence is at the moment.
func (r Record) Markdown() string {
	var b strings.Builder
	word := strings.ToUpper(string(r.Severity))
	if r.State == Closed {
		word = "ENDED"
	}
	on := ""
	if r.Instance != "" {
		on = " on " + escapeMarkdown.Replace(r.Instance)
	}
	fmt.Fprintf(&b, "**%s%s: %s**\n\n", word, on, escapeMarkdown.Replace(cmp.Or(r.Sentence, r.Title)))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, escapeMarkdown.Replace(text))
		}
	}
	line("since", r.Since.UTC().Format(time.RFC3339))
	if r.Until != nil {
		line("until", r.Until.UTC().Format(time.RFC3339))
	}
	line("subject", r.Whom())
	line("runs in", strings.Join(r.RunsIn, ", "))
	line("rule", r.Rule)
	if r.Share != nil {
		line("share of "+cmp.Or(r.ShareOf, "its time"), metric.Percent(r.Share[0])+" to "+metric.Percent(r.Share[1]))
	}
	ours := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", name, withAddresses(text))
		}
	}
	ours("what to do", r.Remedy)
	ours("if it stays as it is", r.Cost)
	ours("read more", r.Reference)
	if len(r.Evidence) > 0 {
		fmt.Fprintf(&b, "\nEvidence, values of %s:\n\n", r.LastSeen.UTC().Format(time.RFC3339))
	}
	for _, ev := range r.Evidence {
		fmt.Fprintf(&b, "- %s: %s", escapeMarkdown.Replace(ev.Text), escapeMarkdown.Replace(ev.Number()))
		if ev.Expr != "" {
			fence := "`"
			for strings.Contains(ev.Expr, fence) {
				fence += "`"
			}
			fmt.Fprintf(&b, " (%s%s%s)", fence, strings.ReplaceAll(ev.Expr, "\n", " "), fence)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
