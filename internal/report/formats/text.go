package formats

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	prettytext "github.com/jedib0t/go-pretty/v6/text"

	"github.com/teescope/teescope/internal/report"
)

var text = &report.Format{
	Name:  "text",
	Doc:   "For the terminal, 100 columns wide: verdicts first, then the tables.",
	Print: writeText,
}

// columns is the largest width of the text.
const columns = 100

// writeText prints the page without the parts that need paper or a screen.
func writeText(w io.Writer, doc report.Document) error {
	p := &printer{w: w}
	page := report.Compose(doc)
	for _, s := range page.Summary {
		p.section(s)
	}
	for i, part := range page.Parts {
		if i > 0 || len(page.Summary) > 0 {
			p.line("")
		}
		p.line(strings.ToUpper(part.Title))
		if part.Arms != nil {
			p.line("")
			p.wrapped("", part.Arms.Caption)
			p.table(part.Arms, columns)
			p.line("")
		}
		for _, f := range part.Facts {
			p.wrapped("  ", f.Name+": "+f.Text)
		}
		for _, c := range part.Conclusions {
			p.conclusion(c)
		}
		if len(part.Common) > 0 {
			p.line("")
			p.wrapped("    ", "all of them: "+factLine(part.Common))
		}
		if part.Nothing != "" {
			p.line("")
			p.wrapped("", part.Nothing)
		}
		for _, s := range part.Sections {
			if !s.Detail {
				p.section(s)
			}
		}
	}
	if len(page.Parts) == 0 {
		p.line("Nothing to report: the document holds no experiment.")
	}
	for _, s := range page.Tail {
		p.section(s)
	}
	return p.err
}

// A printer keeps the first error, so its callers need not check.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, strings.TrimRight(s, " ")+"\n")
	}
}

// wrapped prints a paragraph; following lines are indented two more.
func (p *printer) wrapped(indent, s string) {
	line := indent
	for word := range strings.FieldsSeq(s) {
		switch {
		case strings.TrimSpace(line) == "":
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns:
			p.line(line)
			line = indent + "  " + word
		default:
			line += " " + word
		}
	}
	if strings.TrimSpace(line) != "" {
		p.line(line)
	}
}

func (p *printer) conclusion(c report.Conclusion) {
	p.line("")
	p.wrapped("", fmt.Sprintf("%s %s  %s", c.Mark, strings.ToUpper(c.Word), c.Headline))
	var facts []string
	for _, f := range c.Facts {
		facts = append(facts, f.Name+" "+f.Text)
	}
	if c.Big.Reason != "" {
		facts = append([]string{c.Number + " missing: " + c.Big.Reason}, facts...)
	} else {
		facts = append([]string{c.Number + " " + c.Big.Text}, facts...)
	}
	p.wrapped("    ", strings.Join(c.Details, " "))
	p.wrapped("    ", strings.Join(facts, " · "))
	for _, l := range []struct {
		name string
		says []string
	}{{"why", c.Why}, {"doubt", c.Doubts}, {"next", c.Next}} {
		for _, s := range l.says {
			p.wrapped("    ", l.name+": "+s)
		}
	}
}

func (p *printer) section(s report.Section) {
	s, notes := essential(s)
	if len(s.Tables)+len(s.Notes)+len(s.Code) == 0 && notes == "" {
		return
	}
	p.line("")
	p.line(s.Title)
	p.line(strings.Repeat("─", utf8.RuneCountInString(s.Title)))
	p.wrapped("", s.Lead)
	p.wrapped("", factLine(s.Facts))
	for _, t := range s.Tables {
		if s.Captioned(t) {
			p.line("")
			p.wrapped("", t.Caption)
		}
		if all := blocks(t); len(all) > 1 {
			for i, block := range all {
				if i > 0 {
					p.line("")
				}
				p.table(block, narrow)
			}
		} else {
			p.table(t, columns)
		}
	}
	for _, n := range s.Notes {
		p.wrapped("", fmt.Sprintf("%s %s %s: %s", n.Mark, n.Level, n.Name, n.Text))
		if n.Help != "" {
			p.wrapped("    ", "what helps: "+n.Help)
		}
	}
	for _, c := range s.Code {
		p.line("  " + c) // never broken, so it can be copied
	}
	p.wrapped("", notes)
}

// rows is the number of rows of a long table on a terminal; the other formats have all of them.
const rows = 12

// essential drops what does not fit on a terminal and returns a note about it.
func essential(s report.Section) (report.Section, string) {
	var left []string
	notes := slices.DeleteFunc(slices.Clone(s.Notes), func(n report.Remark) bool { return n.Level == report.NoteLevel })
	if n := len(s.Notes) - len(notes); n > 0 {
		left = append(left, fmt.Sprintf("%d notes that change no verdict", n))
	}
	s.Notes = notes
	tables := slices.Clone(s.Tables)
	for i, t := range tables {
		if t.Long && len(t.Rows) > rows {
			left = append(left, fmt.Sprintf("%d counters that changed less", len(t.Rows)-rows))
			short := *t
			short.Rows = t.Rows[:rows]
			tables[i] = &short
		}
	}
	s.Tables = tables
	if left == nil {
		return s, ""
	}
	return s, "Not shown here: " + strings.Join(left, ", ") + "; `--format md` and the report have them."
}

func factLine(facts []report.Fact) string {
	out := make([]string, len(facts))
	for i, f := range facts {
		out[i] = f.Name + ": " + f.Text
	}
	return strings.Join(out, " · ")
}

// narrow is the width of the narrowest terminal.
const narrow = 80

// readable is the width of a cell with a ratio and its interval on one line.
const readable = 20

// blocks cuts a table of many things of one kind whose names would be broken; each block has the first column.
func blocks(t *report.Table) []*report.Table {
	width, longest, broken := columnWidths(t, columns), 0, false
	sum := 0
	for i, c := range t.Columns {
		n := utf8.RuneCountInString(c)
		if sum += width[i] + 2; i > 0 {
			broken, longest = broken || n > width[i], max(longest, n)
		}
	}
	if !t.Alike || !broken && sum <= columns {
		return []*report.Table{t}
	}
	label := min(width[0]+2, narrow/3)
	most := max(1, (narrow-label)/(max(longest, readable)+2))
	var out []*report.Table
	for from := 1; from < len(t.Columns); from += most {
		to := min(from+most, len(t.Columns))
		b := *t
		pick := func(s []string) []string { return append([]string{s[0]}, s[from:to]...) }
		b.Columns, b.Rows = pick(t.Columns), nil
		b.Numbers = append([]bool{t.Numbers[0]}, t.Numbers[from:to]...)
		for _, r := range t.Rows {
			b.Rows = append(b.Rows, append([]report.Cell{r[0]}, r[from:to]...))
		}
		out = append(out, &b)
	}
	return out
}

// table prints reasons below the table, marked by letters: inside, they would break the columns.
func (p *printer) table(t *report.Table, width int) {
	w := table.NewWriter()
	w.SetStyle(table.StyleLight)
	w.Style().Options = table.Options{SeparateHeader: true}
	w.Style().Format.Header = prettytext.FormatDefault
	w.Style().Box.PaddingLeft, w.Style().Box.PaddingRight = "", "  "
	head := table.Row{}
	configs := []table.ColumnConfig{}
	room := columnWidths(t, width)
	for i, c := range t.Columns {
		head = append(head, c)
		cfg := table.ColumnConfig{Number: i + 1, WidthMax: room[i], WidthMaxEnforcer: prettytext.WrapSoft}
		if t.Numbers[i] {
			cfg.Align, cfg.AlignHeader = prettytext.AlignRight, prettytext.AlignRight
		}
		configs = append(configs, cfg)
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(head)
	for _, r := range t.Rows {
		row := table.Row{}
		for _, c := range r {
			row = append(row, withMark(c)+footnote(t, c))
		}
		w.AppendRow(row)
	}
	for l := range strings.SplitSeq(w.Render(), "\n") {
		p.line(l)
	}
	for _, n := range t.Notes() {
		p.wrapped("  ", fmt.Sprintf("[%s] missing: %s", n.Mark, n.Reason))
	}
}

// withMark puts the shape of a verdict before its word.
func withMark(c report.Cell) string {
	if c.Mark != "" {
		return c.Mark + " " + c.Text
	}
	return c.Text
}

// footnote returns the mark after a cell whose value is missing.
func footnote(t *report.Table, c report.Cell) string {
	if mark := t.Note(c); mark != "" {
		return " [" + mark + "]"
	}
	return ""
}

// columnWidths divides the width: columns keep what they need, and the excess is taken from the widest.
func columnWidths(t *report.Table, room int) []int {
	need := make([]int, len(t.Columns))
	sum := 0
	for i, c := range t.Columns {
		need[i] = utf8.RuneCountInString(c)
		for _, r := range t.Rows {
			n := utf8.RuneCountInString(withMark(r[i]))
			if r[i].Reason != "" {
				n += 5
			}
			need[i] = max(need[i], n)
		}
		sum += need[i] + 2
	}
	for sum > room {
		widest := 0
		for i := range need {
			if need[i] > need[widest] {
				widest = i
			}
		}
		if need[widest] <= 8 {
			break
		}
		need[widest]--
		sum--
	}
	return need
}
