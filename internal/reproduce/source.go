// Package reproduce lays a published document's tables and figures next to our own numbers.
//
// A source file (experiments/sources/NAME.yaml) is data: the document's tables with their rows, columns, units and published values,
// and for each value the experiment, case and metric that answers it, or the reason why nothing does. Fill looks the answers up in
// results; the package measures nothing.
package reproduce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/metric"
)

// Source is a published document.
type Source struct {
	// ID is the file's name without its extension.
	ID string `yaml:"-"`
	// Names are other names under which users look for it.
	Names    []string `yaml:"names"`
	Title    string   `yaml:"title"`
	Citation string   `yaml:"citation"`
	Tables   []Table  `yaml:"tables"`
}

// Kind says what a table is in the document.
type Kind string

// The kinds.
const (
	Printed Kind = "table"
	Figure  Kind = "figure"
)

// Reason says why a published value has no answer.
type Reason string

// The reasons. There are no others, so a source file cannot explain an answer away.
const (
	// Hardware: only a machine that we do not have can answer.
	Hardware Reason = "hardware"
	// License: a program or data set that may not be passed on.
	License Reason = "not redistributable"
	// NotAsked: the value is a configuration or a price, or no experiment of ours asks it.
	NotAsked Reason = "not asked"
)

// reasonTexts are the reasons in words.
var reasonTexts = map[Reason]string{
	Hardware: "only hardware that was not at hand can answer",
	License:  "it needs a program or data that may not be passed on",
	NotAsked: "no experiment asks it",
}

// Text says the reason in words.
func (r Reason) Text() string { return reasonTexts[r] }

// Table is a table or a figure of the document.
type Table struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	Kind  Kind   `yaml:"kind"`
	// Plotted: the document has no numbers, and ours were read off its plot.
	Plotted bool `yaml:"plotted"`
	// Derived: the document does not print the numbers; they were computed from those that it prints.
	Derived bool `yaml:"derived"`
	// Claims are files of experiments/claims that check the table by its own numbers.
	Claims []string `yaml:"claims"`
	// Concludes quotes what the document concludes from the table.
	Concludes string `yaml:"concludes"`
	// Setting says how the published setting differs from that of our experiment.
	Setting string   `yaml:"setting"`
	Columns []Column `yaml:"columns"`
	Rows    []Row    `yaml:"rows"`
	Answer  `yaml:",inline"`
}

// Column is a column of the table, or a series of the figure.
type Column struct {
	Name   string `yaml:"name"`
	Unit   string `yaml:"unit"`
	Answer `yaml:",inline"`
}

// Row is a row of the table, or a point of the figure.
type Row struct {
	Name string `yaml:"name"`
	Unit string `yaml:"unit"`
	// Published are the values as printed, one for each column. "" is a cell that the document leaves empty.
	Published []string `yaml:"published"`
	// Cells are answers of single cells, by the name of the column.
	Cells  map[string]Answer `yaml:"cells"`
	Answer `yaml:",inline"`
}

// Answer says what answers a value. A table, a column, a row and a cell each say a part of it; what is more particular wins.
type Answer struct {
	Experiment string `yaml:"experiment"`
	// Case names a case by its parameters ("rw=randread bs=4KiB"); "" is its only case, and "*" the geometric mean over all cases.
	Case string `yaml:"case"`
	// Relative is a case whose value the answer is divided by, as in a speed-up; Per names the parameter whose number
	// divides that again, as in an efficiency.
	Relative string `yaml:"relative"`
	Per      string `yaml:"per"`
	// Metric is a metric of the workload, or a counter with its labels: "tee_syscalls_total{syscall=read}" of the workload's threads,
	// "machine:tee_…" of the whole machine. A counter is per 100 operations.
	Metric string `yaml:"metric"`
	// Arm is the arm's role: see the constants.
	Arm Arm `yaml:"arm"`
	// TEE is the kind of TEE whose cost an arm "cost" is. Without it, the cost is that of the environment Env, which is no TEE.
	TEE string `yaml:"tee"`
	// Env is the label of an environment, where several have the same role.
	Env    string `yaml:"env"`
	Reason Reason `yaml:"reason"`
}

// Arm is what a published value was measured in, or made of.
type Arm string

// The arms. Any other word is a kind of TEE, such as sgx or tdx.
const (
	// Plain is without a TEE: the baseline.
	Plain Arm = "plain"
	// Cost is a ratio of the TEE, or of a named environment, to the baseline, or a percentage of that.
	Cost Arm = "cost"
)

// overriddenBy returns the answer with what a more particular one says instead. A reason takes the place of an experiment, and an experiment that
// of a reason.
func (a Answer) overriddenBy(b Answer) Answer {
	switch {
	case b.Reason != "":
		a.Experiment, a.Case, a.Relative, a.Per, a.Metric, a.Reason = "", "", "", "", "", b.Reason
	case b.Experiment != "":
		a.Reason = ""
	}
	for _, f := range []struct{ to, from *string }{{&a.Experiment, &b.Experiment}, {&a.Case, &b.Case}, {&a.Relative, &b.Relative}, {&a.Per, &b.Per}, {&a.Metric, &b.Metric}, {&a.Env, &b.Env}, {&a.TEE, &b.TEE}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if b.Arm != "" {
		a.Arm = b.Arm
	}
	return a
}

// Cell returns what answers the cell of a row and a column, by their places from 0.
func (t *Table) Cell(row, column int) Answer {
	r, c := &t.Rows[row], &t.Columns[column]
	return t.Answer.overriddenBy(c.Answer).overriddenBy(r.Answer).overriddenBy(r.Cells[c.Name])
}

// Unit returns the unit of a cell as printed: the row's, or the column's.
func (t *Table) Unit(row, column int) string {
	if u := t.Rows[row].Unit; u != "" {
		return u
	}
	return t.Columns[column].Unit
}

// Load reads a source file. id is the file's name without its extension, and is in each error.
func Load(id string, data []byte) (*Source, error) {
	s := &Source{ID: id}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	switch err := d.Decode(s); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("source %s: the file is empty", id)
	case err != nil:
		return nil, fmt.Errorf("source %s: %w", id, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("source %s: a second document; want one source a file", id)
	}
	if s.Title == "" || s.Citation == "" || len(s.Tables) == 0 {
		return nil, fmt.Errorf("source %s: want title, citation and tables", id)
	}
	seen := map[string]bool{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if seen[t.ID] {
			return nil, fmt.Errorf("source %s: two tables have the id %q", id, t.ID)
		}
		seen[t.ID] = true
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("source %s, table %q: %w", id, t.ID, err)
		}
	}
	return s, nil
}

// check says what is wrong with a table.
func (t *Table) check() error {
	switch {
	case t.ID == "" || strings.ContainsAny(t.ID, "/ "):
		return fmt.Errorf("want an id without spaces and slashes")
	case t.Title == "":
		return errors.New("title is missing")
	case t.Kind != Printed && t.Kind != Figure:
		return fmt.Errorf("kind %q: want table or figure", t.Kind)
	case len(t.Columns) == 0 || len(t.Rows) == 0:
		return errors.New("want columns and rows")
	}
	columns := map[string]bool{}
	for _, c := range t.Columns {
		if columns[c.Name] {
			return fmt.Errorf("two columns are called %q", c.Name)
		}
		columns[c.Name] = true
	}
	rows := map[string]bool{}
	for i := range t.Rows {
		r := &t.Rows[i]
		if rows[r.Name] {
			return fmt.Errorf("two rows are called %q, so a cell would be answered twice", r.Name)
		}
		rows[r.Name] = true
		if len(r.Published) != len(t.Columns) {
			return fmt.Errorf("row %q has %d values for %d columns", r.Name, len(r.Published), len(t.Columns))
		}
		for name := range r.Cells {
			if !columns[name] {
				return fmt.Errorf("row %q: no column is called %q", r.Name, name)
			}
		}
		for c := range t.Columns {
			if err := t.checkCell(i, c); err != nil {
				return fmt.Errorf("row %q, column %q: %w", r.Name, t.Columns[c].Name, err)
			}
		}
	}
	return nil
}

// checkCell says what is wrong with a cell: a published value without an answer or a reason, or a unit that nobody knows.
func (t *Table) checkCell(row, column int) error {
	if t.Rows[row].Published[column] == "" {
		return nil
	}
	if u := t.Unit(row, column); u != "" && units[u] == 0 {
		return fmt.Errorf("unknown unit %q: want one of %s", u, strings.Join(slices.Sorted(maps.Keys(units)), ", "))
	}
	a := t.Cell(row, column)
	switch {
	case a.Reason != "" && reasonTexts[a.Reason] == "":
		return fmt.Errorf("reason %q: want %s, %s or %s", a.Reason, Hardware, License, NotAsked)
	case a.Reason != "":
		return nil
	case a.Experiment == "" || a.Metric == "":
		return errors.New("want experiment and metric, or a reason")
	case a.Arm == "":
		return errors.New("want an arm: plain, cost, or a kind of TEE")
	case a.Arm == Cost && a.TEE == "" && a.Env == "":
		return errors.New("a cost wants tee: its kind of TEE, or env: the environment whose cost it is")
	case a.Arm == Cost && a.Relative != "":
		return errors.New("relative divides values of one arm, so it has no cost: want another arm")
	}
	return nil
}

// units are those in which documents print values, with the factor that brings a value to base units.
var units = map[string]float64{
	"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "%": 1e-2, "x": 1, "count": 1, "per 100 requests": 1e-2, "$": 1, "CPUs": 1,
	"MB/s": 1e6, "GB/s": 1e9, "MiB/s": 1 << 20, "KiB/s": 1 << 10, "Mbit/s": 1e6, "Gbit/s": 1e9, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9,
	"IOPS": 1, "kIOPS": 1e3, "req/s": 1, "kreq/s": 1e3, "msg/s": 1, "tok/s": 1, "calls/s": 1, "proofs/s": 1, "MIPS": 1e6, "kHz": 1e3, "TFLOPS": 1e12,
}

// value reads a printed value in base units; false if it is a range, a bound or words, which are shown and not drawn.
func value(printed, unit string) (float64, bool) {
	v, err := metric.ParseNumber(strings.NewReplacer(",", "", "%", "", "+", "", "~", "").Replace(printed))
	if err != nil {
		return 0, false
	}
	if scale, ok := units[unit]; ok {
		v *= scale
	}
	return v, true
}

// Experiments are those that answer the table's values, each once, in its order.
func (t *Table) Experiments() (out []string) {
	for row := range t.Rows {
		for column := range t.Columns {
			a := t.Cell(row, column)
			if t.Rows[row].Published[column] != "" && a.Experiment != "" && !slices.Contains(out, a.Experiment) {
				out = append(out, a.Experiment)
			}
		}
	}
	return out
}

// WhyNothing says why no experiment answers any value of the table.
func (t *Table) WhyNothing() string {
	var out []string
	for row := range t.Rows {
		for column := range t.Columns {
			a := t.Cell(row, column)
			if text := a.Reason.Text(); text != "" && t.Rows[row].Published[column] != "" && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return strings.Join(out, "; ")
}

// ExperimentOf returns the experiment that an answer's word names: an experiment itself, or one that the answer's pass follows.
func ExperimentOf(word string, experiments []string) string { return longestPrefix(word, experiments) }
