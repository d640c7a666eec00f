package report

import (
	"slices"
	"strings"
)

// Cell is one field of a table.
type Cell struct {
	Text string
	// Raw is the unrounded value, for a tip or a program; "" when Text says all.
	Raw string
	// Reason is set when there is no value; Text is then "missing".
	Reason string
	// Mark is the shape before a verdict's word, and Kind the word itself.
	Mark, Kind string
	Number     bool
}

// Missing is the cell of a value that is unavailable.
func Missing(reason string) Cell {
	if reason == "" {
		reason = "no reason was recorded"
	}
	return Cell{Text: "missing", Reason: reason}
}

// Note is why values of a table are missing, said once below it.
type Note struct{ Mark, Reason string }

// Notes are the reasons for what is missing, in the order in which they come, marked a,
// b, … z, aa, ab, ….
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

// Note is the mark of a cell's reason; "" of a cell that has none.
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

// Text is a cell of words; an empty one is missing.
func Text(s, reason string) Cell {
	if strings.TrimSpace(s) == "" {
		return Missing(reason)
	}
	return Cell{Text: s}
}

// Table has as many cells in each row as there are columns; the first names the row.
type Table struct {
	// Caption says what the table answers.
	Caption string
	Columns []string
	// Numbers are the columns to be aligned to the right.
	Numbers []bool
	Rows    [][]Cell
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

// lift takes the named columns out when all rows say the same in them, and
// returns what they said: it is said once, above the table.
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

// Fact is a name with what is so called.
type Fact struct{ Name, Text string }
