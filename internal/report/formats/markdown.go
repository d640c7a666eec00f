package formats

import (
	"fmt"
	"io"
	"strings"

	"github.com/teescope/teescope/internal/report"
)

var markdown = &report.Format{
	Name:  "md",
	Doc:   "Markdown, for a pull request or a README: the same page as text.",
	Print: writeMarkdown,
}

func writeMarkdown(w io.Writer, doc report.Document) error {
	p := &printer{w: w}
	page := report.Compose(doc)
	p.line("# " + escapeMarkdown(page.Title))
	for _, s := range page.Summary {
		markdownSection(p, s, "##")
	}
	for _, part := range page.Parts {
		if len(page.Parts) > 1 {
			p.line("\n## " + escapeMarkdown(part.Title))
		}
		if part.Arms != nil {
			p.line("\n" + escapeMarkdown(part.Arms.Caption))
			markdownTable(p, part.Arms)
		}
		for _, c := range part.Conclusions {
			markdownConclusion(p, c)
		}
		if len(part.Common) > 0 {
			p.line("\nAll of them:\n")
		}
		for _, f := range part.Common {
			p.line(fmt.Sprintf("- %s: %s", f.Name, escapeMarkdown(f.Text)))
		}
		if part.Nothing != "" {
			p.line("\n" + escapeMarkdown(part.Nothing))
		}
		p.line("")
		for _, f := range part.Facts {
			p.line(fmt.Sprintf("- %s: %s", f.Name, escapeMarkdown(f.Text)))
		}
		for _, s := range part.Sections {
			if !s.Detail {
				markdownSection(p, s, "###")
			}
		}
	}
	if len(page.Parts) == 0 {
		p.line("\nNothing to report: the document holds no experiment.")
	}
	for _, s := range page.Tail {
		markdownSection(p, s, "##")
	}
	return p.err
}

func markdownConclusion(p *printer, c report.Conclusion) {
	p.line(fmt.Sprintf("\n**%s %s: %s**\n", c.Mark, c.Word, escapeMarkdown(c.Headline)))
	cost := c.Big.Text
	if c.Big.Reason != "" {
		cost += ": " + c.Big.Reason
	}
	if len(c.Details) > 0 {
		p.line(escapeMarkdown(strings.Join(c.Details, " ")) + "\n")
	}
	p.line("- " + c.Number + ": " + escapeMarkdown(cost))
	for _, f := range c.Facts {
		p.line(fmt.Sprintf("- %s: %s", f.Name, escapeMarkdown(f.Text)))
	}
	for _, l := range []struct {
		name string
		says []string
	}{{"why", c.Why}, {"doubt", c.Doubts}, {"next", c.Next}} {
		for _, s := range l.says {
			p.line(fmt.Sprintf("- %s: %s", l.name, escapeMarkdown(s)))
		}
	}
}

func markdownSection(p *printer, s report.Section, level string) {
	if len(s.Tables)+len(s.Notes)+len(s.Code) == 0 {
		return
	}
	p.line("\n" + level + " " + escapeMarkdown(s.Title))
	if s.Lead != "" {
		p.line("\n" + escapeMarkdown(s.Lead))
	}
	if len(s.Facts) > 0 {
		p.line("")
	}
	for _, f := range s.Facts {
		p.line(fmt.Sprintf("- %s: %s", f.Name, escapeMarkdown(f.Text)))
	}
	for _, t := range s.Tables {
		if s.Captioned(t) {
			p.line("\n" + escapeMarkdown(t.Caption))
		}
		markdownTable(p, t)
	}
	if len(s.Notes) > 0 {
		p.line("")
	}
	for _, n := range s.Notes {
		text := fmt.Sprintf("- %s **%s** %s: %s", n.Mark, n.Level, escapeMarkdown(n.Name), escapeMarkdown(n.Text))
		if n.Help != "" {
			text += " What helps: " + escapeMarkdown(n.Help)
		}
		p.line(text)
	}
	for _, c := range s.Code {
		p.line("\n```sh\n" + c + "\n```")
	}
}

func markdownTable(p *printer, t *report.Table) {
	rule := make([]string, len(t.Columns))
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i], rule[i] = escapeMarkdown(c), "---"
		if t.Numbers[i] {
			rule[i] = "--:"
		}
	}
	p.line("\n| " + strings.Join(head, " | ") + " |\n| " + strings.Join(rule, " | ") + " |")
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = escapeMarkdown(withMark(c) + footnote(t, c))
		}
		p.line("| " + strings.Join(cells, " | ") + " |")
	}
	for _, n := range t.Notes() {
		p.line("\n" + escapeMarkdown("["+n.Mark+"] missing: "+n.Reason))
	}
}

// escapeMarkdown keeps text of documents from being read as markup.
var escapeMarkdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "<", "&lt;", "[", `\[`, "`", "\\`", "\n", " ").Replace
