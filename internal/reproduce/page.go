package reproduce

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/claims"
	"github.com/teescope/teescope/internal/contain"
)

// Page is a source with our numbers beside its own.
type Page struct {
	Source *Source
	Tables []PageTable
	// Counts are the published values by state, without empty ones.
	Counts map[State]int
	// Reasons are those without an answer, by reason.
	Reasons map[Reason]int
	Values  int
}

// PageTable is a published table, what its own numbers say, and ours.
type PageTable struct {
	*Table
	Cells [][]Filled
	// Checks are the contradictions that its own numbers show, and Checked the number of claims that were checked.
	Checks  []claims.Finding
	Checked int
	// Labels are our arms by MeasuredArm.Column, in the order of the results; Ours has a row for each metric of a row.
	Labels []string
	Ours   []Measured
	Files  []string
}

// Compose lays a source beside results. claimsFile returns the text of a file of experiments/claims.
func Compose(s *Source, r *Results, claimsFile func(name string) ([]byte, error)) (*Page, error) {
	p := &Page{Source: s, Counts: map[State]int{}, Reasons: map[Reason]int{}}
	for i := range s.Tables {
		t := &s.Tables[i]
		pt := PageTable{Table: t}
		for _, name := range t.Claims {
			b, err := claimsFile(name)
			if err != nil {
				return nil, fmt.Errorf("source %s, table %s: %w", s.ID, t.ID, err)
			}
			c, err := claims.Parse(b)
			if err != nil {
				return nil, fmt.Errorf("source %s, table %s, claims %s: %w", s.ID, t.ID, name, err)
			}
			checked := c.Check()
			pt.Checks = append(pt.Checks, checked.Findings...)
			pt.Checked += checked.Claims
		}
		p.fillTable(&pt, r)
		p.Tables = append(p.Tables, pt)
	}
	return p, nil
}

// asked is what a row of a table asks of our results: one lookup, and the arms of its answers.
type asked struct {
	lookup   Answer // without arms
	arms     []Answer
	columns  []int // with cells that ask it
	row      int
	measured Measured
}

// fillTable answers each cell and collects our rows.
func (p *Page) fillTable(pt *PageTable, r *Results) {
	var all []*asked
	for row := range pt.Rows {
		of := map[Answer]*asked{} // by what is looked up
		var cells []Filled
		for column := range pt.Columns {
			cell := Filled{Published: pt.Rows[row].Published[column], Unit: pt.Unit(row, column), State: Empty}
			if cell.Published != "" {
				a := pt.Cell(row, column)
				key := Answer{Experiment: a.Experiment, Case: a.Case, Relative: a.Relative, Per: a.Per, Metric: a.Metric}
				if of[key] == nil {
					of[key] = &asked{lookup: key, row: row}
					if a.Experiment != "" {
						of[key].measured = r.Lookup(pt.Rows[row].Name, a)
						all = append(all, of[key])
					}
				}
				of[key].arms = append(of[key].arms, Answer{Arm: a.Arm, TEE: a.TEE, Env: a.Env})
				of[key].columns = append(of[key].columns, column)
				cell.State = fill(a, &of[key].measured)
				if cell.State == NoAnswer {
					p.Reasons[a.Reason]++
				}
			}
			cells = append(cells, cell)
		}
		pt.Cells = append(pt.Cells, cells)
	}
	pt.collect(all)
	for _, cells := range pt.Cells {
		for i := range cells {
			if cells[i].Published != "" {
				p.Values++
				p.Counts[cells[i].State]++
			}
		}
	}
}

// collect keeps our rows. Rows that ask the same of different arms are the document's arms, and each has its own arms' numbers.
func (pt *PageTable) collect(all []*asked) {
	for i, q := range all {
		var before, after []Answer // of rows that ask the same
		differ := false
		for k, o := range all {
			if o.lookup != q.lookup {
				continue
			}
			differ = differ || !slices.Equal(o.arms, q.arms)
			switch {
			case k < i:
				before = append(before, o.arms...)
			case k > i:
				after = append(after, o.arms...)
			}
		}
		if differ && q.measured.Missing == "" {
			q.measured.keepOwn(q.arms, before, after)
			for _, column := range q.columns {
				if cell := &pt.Cells[q.row][column]; q.measured.Missing != "" && cell.State == StandIn {
					cell.State = ArmMissing // the stand-in stands for another row
				}
			}
		}
		pt.addOurs(&q.measured)
	}
}

// addOurs keeps a row of our own numbers.
func (pt *PageTable) addOurs(m *Measured) {
	if slices.ContainsFunc(pt.Ours, func(o Measured) bool {
		return o.Row == m.Row && o.Metric == m.Metric && slices.Equal(o.texts(), m.texts())
	}) {
		return // as where two columns have one answer
	}
	pt.Ours = append(pt.Ours, *m)
	for _, x := range m.Arms {
		if c := x.Column(); !slices.Contains(pt.Labels, c) {
			pt.Labels = append(pt.Labels, c)
		}
		if x.File != "" && !slices.Contains(pt.Files, x.File) {
			pt.Files = append(pt.Files, x.File)
		}
	}
}

// AnyTEE reports whether a TEE took part in our numbers.
func (pt *PageTable) AnyTEE() bool {
	return slices.ContainsFunc(pt.Ours, func(m Measured) bool {
		return slices.ContainsFunc(m.Arms, func(x MeasuredArm) bool { return x.TEE != "" })
	})
}

// Measured reports whether we have any number for the table.
func (pt *PageTable) Measured() bool { return len(pt.Labels) > 0 }

// Summary says in one sentence how many published values have an answer.
func (p *Page) Summary() string {
	parts := []string{}
	for _, s := range []struct {
		state State
		words string
	}{{Answered, "answered here"}, {StandIn, "by a stand-in: no TEE took part"}, {Refused, "refused or inconclusive"}, {NoValue, "run without this value"}, {ArmMissing, "run without the arm"}, {NoResult, "not run yet"}} {
		if n := p.Counts[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.words))
		}
	}
	for _, why := range []Reason{Hardware, License, NotAsked} {
		if n := p.Reasons[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	return fmt.Sprintf("%d published values: %s.", p.Values, strings.Join(parts, ", "))
}

// costAboveOne says how to read a cost.
const costAboveOne = "A cost above 1 is worse."

// Markdown writes the page for a repository.
func (p *Page) Markdown() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nThe tables and figures of: %s.\n\n%s "+costAboveOne+"\n", p.Source.Title, p.Source.Citation, p.Summary())
	for i := range p.Tables {
		p.Tables[i].markdown(&b)
	}
	return b.Bytes()
}

// markdown writes one table.
func (pt *PageTable) markdown(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## %s\n\n%s:\n\n|  |", pt.Title, pt.Caption())
	for _, c := range pt.Columns {
		fmt.Fprintf(b, " %s |", escape(c.Name))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(pt.Columns)) + "\n")
	for i, row := range pt.Rows {
		fmt.Fprintf(b, "| %s |", escape(row.Name))
		for _, c := range pt.Cells[i] {
			fmt.Fprintf(b, " %s |", escape(strings.TrimSpace(c.Published+" "+unitAfter(c))))
		}
		b.WriteString("\n")
	}
	pt.markdownClaims(b)
	pt.markdownOurs(b)
	fmt.Fprintf(b, "\n%s\n", pt.Conclusion())
}

// Caption says where the table's values are from.
func (pt *PageTable) Caption() string {
	switch {
	case pt.Plotted:
		return "Published (values read off the plot)"
	case pt.Derived:
		return "Published (computed from the numbers above)"
	case pt.Kind == Figure:
		return "Published (the numbers of the figure)"
	}
	return "Published"
}

// unitAfter is the unit of a printed number that does not carry one; words have none.
func unitAfter(c Filled) string {
	number := strings.TrimLeft(c.Published, "+-~<>")
	digit := func(b byte) bool { return '0' <= b && b <= '9' }
	if number == "" || !digit(number[0]) || !digit(number[len(number)-1]) {
		return ""
	}
	return c.Unit
}

func (pt *PageTable) markdownClaims(b *bytes.Buffer) {
	if len(pt.Checks) == 0 {
		if pt.Checked > 0 {
			fmt.Fprintf(b, "\nIts own numbers contradict none of the %d claims that were checked.\n", pt.Checked)
		}
		return
	}
	b.WriteString("\nIts own numbers say otherwise:\n\n")
	for _, f := range pt.Checks {
		fmt.Fprintf(b, "- %s: %s\n", escape(f.Text), escape(contain.OneLine(fmt.Errorf("%s", strings.Join(f.Follows, "; ")))))
	}
}

func (pt *PageTable) markdownOurs(b *bytes.Buffer) {
	if len(pt.Ours) == 0 {
		return
	}
	b.WriteString("\nHere:\n\n|  | metric |")
	for _, l := range pt.Labels {
		fmt.Fprintf(b, " %s |", escape(l))
	}
	if !pt.Measured() {
		b.WriteString(" |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", max(1, len(pt.Labels))) + "\n")
	for _, m := range pt.Ours {
		name := m.Row
		if m.Shortened != "" {
			name += " (" + m.Shortened + ")"
		}
		fmt.Fprintf(b, "| %s | %s |", escape(name), escape(m.Metric))
		if m.Missing != "" {
			fmt.Fprintf(b, " %s |%s\n", escape(m.Missing), strings.Repeat(" |", max(1, len(pt.Labels))-1))
			continue
		}
		for _, l := range pt.Labels {
			fmt.Fprintf(b, " %s |", escape(m.text(l)))
		}
		b.WriteString("\n")
	}
	if len(pt.Files) > 0 {
		fmt.Fprintf(b, "\nFrom %s.\n", strings.Join(pt.Files, ", "))
	}
}

// texts are the texts of all arms.
func (m *Measured) texts() (out []string) {
	for i := range m.Arms {
		out = append(out, m.Arms[i].Column()+": "+m.Arms[i].text(m.Unit))
	}
	return append(out, m.Missing)
}

// text is our value in an arm, with its cost.
func (m *Measured) text(label string) string {
	i := slices.IndexFunc(m.Arms, func(x MeasuredArm) bool { return x.Column() == label })
	if i < 0 {
		return ""
	}
	return m.Arms[i].text(m.Unit)
}

// Conclusion says whether what the document concludes holds here.
func (pt *PageTable) Conclusion() string {
	var out []string
	if pt.Concludes != "" {
		out = append(out, fmt.Sprintf("The document concludes: %q.", pt.Concludes))
	}
	switch {
	case !pt.Measured() && len(pt.Ours) == 0:
		out = append(out, "Not tested here.")
	case !pt.Measured():
		out = append(out, "Not tested here: no result has it.")
	case !pt.AnyTEE():
		out = append(out, "Not tested here: no TEE took part. The other environments show what they cost themselves.")
	}
	out = append(out, pt.armConclusions()...)
	if pt.Setting != "" {
		out = append(out, pt.Setting)
	}
	return strings.Join(out, " ")
}

// escape keeps text from being read as Markdown's table or HTML.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(s)
}
