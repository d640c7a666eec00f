package cli

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// result explains a benchmark's result: where the difference between its arms comes
// from.
func (x explainer) result(w io.Writer, path string) error {
	e, err := result.Read(path)
	if err != nil {
		return err
	}
	if e.UnitCosts == nil {
		e.UnitCosts = costsNow(e, x.data)
	}
	verdict.Conclude(e, judged())
	if x.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Comparisons []result.Comparison  `json:"comparisons"`
			Attribution []result.Attribution `json:"attribution"`
			Trees       []explain.Tree       `json:"trees"`
		}{e.Comparisons, e.Attribution, known.Trees(e)})
	}
	_, err = io.WriteString(w, compared(e))
	return err
}

// compared writes the verdicts of a result, each with the origin of the difference.
func compared(e *result.Experiment) string {
	var t text
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if !c.Primary {
			continue
		}
		t.Wrap("", c.Headline)
		for _, more := range append(slices.Clone(c.Details), c.Open) {
			if more != "" {
				t.Wrap("  ", more)
			}
		}
		if c.Cause != "" {
			t.Wrap("", "cause: "+c.Cause)
		}
		if tree := known.Compared(e, c); len(tree.Rows)+len(tree.Uncosted) > 0 {
			t.Tree(tree, nil)
		} else {
			t.Line("")
		}
	}
	if len(e.Attribution) == 0 {
		t.Line("The runs hold no counters per operation: nothing says where a difference comes from.")
	}
	return t.String()
}
