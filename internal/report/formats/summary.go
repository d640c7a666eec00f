package formats

import (
	"fmt"
	"io"

	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

var summary = &report.Format{
	Name:  "summary",
	Doc:   "The result itself, without raw files, histograms and single rare system calls: small enough to keep in a repository. Every command reads it.",
	Print: writeSummary,
}

func writeSummary(w io.Writer, doc report.Document) error {
	if len(doc.Experiments) != 1 {
		return fmt.Errorf("a summary is of one result, not of %d: write one file for each", len(doc.Experiments))
	}
	b, err := result.Summarize(doc.Experiments[0])
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
