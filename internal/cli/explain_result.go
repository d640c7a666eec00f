package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/calibrate"
	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// result explains a benchmark's result: by how much events of each kind differ
// between the arms, and what of the difference in time their price is.
func (x explainer) result(w io.Writer, path string) error {
	e, err := result.Read(path)
	if err != nil {
		return err
	}
	if e.UnitCosts == nil {
		e.UnitCosts = costsNow(e, x.data)
	}
	verdict.Conclude(e, verdict.Options{Diff: environment.Diff})
	if x.json {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Comparisons []result.Comparison  `json:"comparisons"`
			Attribution []result.Attribution `json:"attribution"`
		}{e.Comparisons, e.Attribution})
	}
	_, err = io.WriteString(w, attributed(e))
	return err
}

// costsNow are those of a data folder, for a result that holds none and whose
// baseline ran on this machine.
func costsNow(e *result.Experiment, data string) *result.UnitCosts {
	costs, err := calibrate.Load(host.Local(), data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the result holds no unit costs, and %s no calibration; `teescope calibrate --data %s` makes one", data, data)
	case err == nil && len(e.Environments) > 0:
		if why := elsewhere(&e.Environments[0], costs.Fingerprint); why != "" {
			err = errors.New(why)
		}
	}
	if err != nil {
		return unitCosts{err: err}.forResult()
	}
	return unitCosts{Calibration: costs}.forResult()
}

// elsewhere says why costs of a machine are not those of an arm; "" where they are.
func elsewhere(env *result.Environment, f calibrate.Fingerprint) string {
	switch {
	case env.Hardware.CPUModel == "" || env.Software.Kernel == "":
		return env.ID + " did not say what machine it is"
	case !strings.Contains(f.CPU, env.Hardware.CPUModel) || !strings.HasPrefix(f.Kernel, env.Software.Kernel+" "):
		return fmt.Sprintf("%s ran on kernel %s of another machine or guest", env.ID, env.Software.Kernel)
	}
	return ""
}

// mostRows is how many counters of a comparison are printed.
const mostRows = 16

// attributed writes the verdicts of a result and what is behind them, the dearest
// first.
func attributed(e *result.Experiment) string {
	var t text
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Primary {
			t.wrap("", c.Headline)
			if c.Cause != "" {
				t.wrap("", "cause: "+c.Cause)
			}
		}
	}
	var reasons []string
	for rows := e.Attribution; len(rows) > 0; {
		n := slices.IndexFunc(rows, func(a result.Attribution) bool { return contestOf(&a) != contestOf(&rows[0]) })
		if n < 0 {
			n = len(rows)
		}
		t.contest(rows[:n])
		for i := range rows[:n] {
			if a := &rows[i]; verdict.Priced(a.Counter) && a.Share == nil && !slices.Contains(reasons, a.Reason) {
				reasons = append(reasons, a.Reason)
			}
		}
		rows = rows[n:]
	}
	if len(e.Attribution) == 0 {
		t.line("The runs hold no counters per operation: nothing says where a difference comes from.")
	}
	t.line("")
	for _, r := range reasons {
		t.wrap("", "no price: "+r+".")
	}
	return t.String()
}

// contestOf says in words which arms a row compares.
func contestOf(a *result.Attribution) string {
	return fmt.Sprintf("%s against %s, %s: more per operation", a.Treatment, a.Baseline, a.Case)
}

// contest writes the rows of one comparison.
func (t *text) contest(rows []result.Attribution) {
	const row = "%-44s %13s %13s %12s %10s"
	t.line("")
	t.wrap("", contestOf(&rows[0]))
	t.column(row, "", "events", "each", "time", "share")
	rest := ""
	for i := range rows {
		a := &rows[i]
		if a.Unexplained != nil {
			rest = tenths(*a.Unexplained) + " %"
		}
		if i >= mostRows {
			continue
		}
		events, each, took, share := report.Value(a.Delta, ""), "", "", ""
		switch {
		case a.UnitCost != nil:
			each, took = report.Value(*a.UnitCost, "seconds"), report.Value(*a.Seconds, "seconds")
		case a.Seconds != nil || strings.HasSuffix(a.Counter, "_seconds_total"):
			events, took = "", report.Value(a.Delta, "seconds")
		}
		if a.Share != nil {
			share = tenths(*a.Share) + " %"
		}
		t.column(row, fit(a.Counter, 44), events, each, took, share)
	}
	if n := len(rows) - mostRows; n > 0 {
		t.line("and %d counters more, which the result has", n)
	}
	if rest != "" {
		t.column(row, "not explained", "", "", "", rest)
	}
}
