package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/machine"
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

// elsewhere says why a machine's costs do not apply to an arm; "" if they do.
func elsewhere(env *result.Environment, f machine.Fingerprint) string {
	switch {
	case env.Hardware.CPUModel == "" || env.Software.Kernel == "":
		return env.ID + " did not say what machine it is"
	case !strings.Contains(f.CPU, env.Hardware.CPUModel) || !strings.HasPrefix(f.Kernel, env.Software.Kernel+" "):
		return fmt.Sprintf("%s ran on kernel %s of another machine or guest", env.ID, env.Software.Kernel)
	}
	// Hypervisors may hide it from either.
	if was, now := env.Hardware.Microcode, f.Microcode(); was != "" && now != "" && was != now {
		return fmt.Sprintf("%s ran with microcode %s, and the costs of this machine were measured with %s; microcode can change them several times", env.ID, was, now)
	}
	return ""
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
