package report

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// Cell is one field of a table.
type Cell struct {
	Text string `json:"text"`
	// Raw is the unrounded value, for a tip or a program; "" when Text says all.
	Raw string `json:"raw,omitempty"`
	// Reason is why there is no value, or only one of two; Text then says "missing".
	Reason string `json:"reason,omitempty"`
	// Mark is the shape before a verdict's word.
	Mark string `json:"mark,omitempty"`
	// Kind is the verdict's word, for a style sheet.
	Kind string `json:"kind,omitempty"`
	// Number: the text is a number with its unit.
	Number bool `json:"number,omitempty"`
}

// Missing is the cell of a value that is unavailable.
func Missing(reason string) Cell {
	if reason == "" {
		reason = "no reason was recorded"
	}
	return Cell{Text: "missing", Reason: reason}
}

// Note is why values of a table are missing, said once below it.
type Note struct {
	Mark   string `json:"mark"`
	Reason string `json:"reason"`
}

// Notes returns the reasons for missing values, in order, marked a, b, … z, aa, ab, ….
func (t *Table) Notes() []Note {
	var notes []Note
	for _, r := range t.Rows {
		for _, c := range r {
			if c.Reason != "" && !slices.ContainsFunc(notes, func(n Note) bool { return n.Reason == c.Reason }) {
				notes = append(notes, Note{letters(len(notes)), c.Reason})
			}
		}
	}
	return notes
}

// Note returns the mark of a cell's reason; "" without a reason.
func (t *Table) Note(c Cell) string {
	for _, n := range t.Notes() {
		if n.Reason == c.Reason {
			return n.Mark
		}
	}
	return ""
}

func letters(n int) string {
	s := string(rune('a' + n%26))
	if n >= 26 {
		return letters(n/26-1) + s
	}
	return s
}

// Text returns a cell of words; an empty one is missing.
func Text(s, reason string) Cell {
	if strings.TrimSpace(s) == "" {
		return Missing(reason)
	}
	return Cell{Text: s}
}

// Table has as many cells in each row as there are columns; the first names the row.
type Table struct {
	// Caption says what the table shows.
	Caption string   `json:"caption"`
	Columns []string `json:"columns"`
	// Numbers are the columns to be aligned to the right.
	Numbers []bool   `json:"numbers"`
	Rows    [][]Cell `json:"rows"`
	// Long: the rows that say most come first, and a small screen may show only these.
	Long bool `json:"long,omitempty"`
	// Alike: the columns after the first are of many things of one kind. Text puts what does not fit below, with the first
	// column again.
	Alike bool `json:"-"`
}

// SectionTable is a table of a result for its page.
type SectionTable struct {
	// Section of the result that it belongs to: costs, scaling, runs, why, harness, published or specification.
	Section string `json:"section"`
	Table
	// Footnotes are the reasons for what is missing, each with its mark.
	Footnotes []Note `json:"footnotes,omitempty"`
}

// Tables returns the tables of a result that hold more than the document's own fields: medians, spread, sweeps and
// counters. The page shows them as reports do.
func Tables(e *result.Experiment, v View) []SectionTable {
	out := []SectionTable{}
	add := func(section string, tables ...*Table) {
		for _, t := range tables {
			if len(t.Rows) > 0 {
				out = append(out, SectionTable{Section: section, Table: *t, Footnotes: t.Notes()})
			}
		}
	}
	kase := orDefault(v.Case, tellingCase(e))
	if len(e.Comparisons) == 0 {
		add("costs", medians(e))
	}
	add("costs", averageTable(e))
	add("scaling", sweepTables(e)...)
	add("runs", spreadTable(e, []string{kase}, orDefault(v.Metric, primary(e))))
	add("why", counterTable(e, kase), hostTable(e, kase))
	add("harness", harnessTable(e))
	add("published", publishedTable(e))
	add("specification", specificationTable(e))
	return out
}

func newTable(caption string, columns ...string) *Table {
	return &Table{Caption: caption, Columns: columns, Numbers: make([]bool, len(columns))}
}

func (t *Table) add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// align finds the columns of numbers.
func (t *Table) align() *Table {
	for c := range t.Columns {
		t.Numbers[c] = slices.ContainsFunc(t.Rows, func(r []Cell) bool { return r[c].Number }) &&
			!slices.ContainsFunc(t.Rows, func(r []Cell) bool { return !r[c].Number && r[c].Reason == "" })
	}
	return t
}

// lift removes the named columns if all rows have the same value, and returns these values, to be shown once above
// the table.
func (t *Table) lift(columns ...string) []Fact {
	var facts []Fact
	for _, name := range columns {
		c := slices.Index(t.Columns, name)
		if c < 0 || len(t.Rows) == 0 {
			continue
		}
		same := !slices.ContainsFunc(t.Rows, func(r []Cell) bool { return r[c] != t.Rows[0][c] })
		if !same || t.Rows[0][c].Reason != "" {
			continue
		}
		facts = append(facts, Fact{name, t.Rows[0][c].Text})
		t.drop(c)
	}
	return facts
}

func (t *Table) drop(c int) {
	t.Columns = slices.Delete(t.Columns, c, c+1)
	t.Numbers = slices.Delete(t.Numbers, c, c+1)
	for i := range t.Rows {
		t.Rows[i] = slices.Delete(t.Rows[i], c, c+1)
	}
}

// Fact is a name with its value.
type Fact struct{ Name, Text string }
