// Package report turns results into text, tables, pages and plots. A Format is one way to write a document; the
// members are in report/formats. It computes nothing that is not in the document: headlines are made from its fields,
// never retyped.
package report

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// Document is what a format writes.
type Document struct {
	Experiments []*result.Experiment
	// Findings are what the monitor found in the window of the runs.
	Findings []findings.Finding
	// Prices, by environment id, the result's name before it, or instance type, add
	// work per currency unit.
	Prices []Price
	// Catalog has the prices and causes that explain comparisons; nil has none.
	Catalog *explain.Catalog
	// Origins say what is proved of where an experiment was made, and what is not; one that
	// is not there was not looked at.
	Origins map[*result.Experiment]string
	// Made is the time of writing.
	Made time.Time
}

// Price is what an environment costs.
type Price struct {
	Name     string // environment id or instance type
	PerHour  float64
	Currency string
	// Date is when the price was read; a price without a date is refused.
	Date   string
	Source string
}

// Format describes a way to write documents.
type Format struct {
	Name, Doc string
	Print     func(io.Writer, Document) error
}

// Write writes a document as printable text without secrets, or nothing of it. A panic of the format is an error.
func (f *Format) Write(w io.Writer, d Document) error {
	var b bytes.Buffer
	if err := contain.Call("writing the format "+f.Name, func() error { return f.Print(&b, d) }); err != nil {
		return err
	}
	out := printable.NewWriter(w)
	_, err := out.Write(b.Bytes())
	return errors.Join(err, out.Flush())
}
