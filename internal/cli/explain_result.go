package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
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
// between the arms, and what of the difference in CPU time their price is.
func (x explainer) result(w io.Writer, path string) error {
	e, err := result.Read(path)
	if err != nil {
		return err
	}
	verdict.Conclude(e, verdict.Options{Diff: environment.Diff})
	costs, err := calibrate.Load(host.Local(), x.data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s holds no calibration; `teescope calibrate --data %s` makes one", x.data, x.data)
		fallthrough
	case err != nil:
		costs = &calibrate.Calibration{}
	}
	price(e, costs, err)
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

// cpuTime is the counter that prices are compared with: what an event costs is
// CPU time, and not time on a clock.
const cpuTime = "tee_process_cpu_seconds_total"

// price puts the costs of this machine's calibration on the counters of a result
// whose arms ran on it; none says why there are no costs.
func price(e *result.Experiment, costs *calibrate.Calibration, none error) {
	foreign := map[string]string{}
	for i := range e.Environments {
		foreign[e.Environments[i].ID] = elsewhere(&e.Environments[i], costs.Fingerprint)
	}
	type contest struct{ base, treat, kase string }
	of := func(a *result.Attribution) contest { return contest{a.Baseline, a.Treatment, a.Case} }
	more := map[contest]float64{} // seconds of CPU time per operation
	for i := range e.Attribution {
		if a := &e.Attribution[i]; a.Counter == cpuTime {
			more[of(a)] = a.Delta
		}
	}
	explained := map[contest]float64{}
	last := map[contest]*result.Attribution{}
	for i := range e.Attribution {
		a := &e.Attribution[i]
		unit, ok := costs.Unit(eventOf(a.Counter))
		switch {
		case eventOf(a.Counter) == "":
			a.Reason = "what one costs is not known"
			continue
		case none != nil:
			a.Reason = none.Error()
			continue
		case foreign[a.Baseline] != "" || foreign[a.Treatment] != "":
			a.Reason = strings.TrimPrefix(foreign[a.Baseline]+"; "+foreign[a.Treatment], "; ")
			a.Reason = strings.TrimSuffix(a.Reason, "; ")
			continue
		case !ok:
			a.Reason = eventOf(a.Counter) + " is not calibrated on this machine"
			continue
		}
		a.UnitCost = &unit.Seconds
		if cpu := more[of(a)]; cpu > 0 {
			share := a.Delta * unit.Seconds / cpu
			a.Share, a.Reason = &share, ""
			explained[of(a)] += share
			last[of(a)] = a
		} else {
			a.Reason = "the arms differ by no more CPU time, or it was not counted"
		}
	}
	for c, a := range last {
		rest := 1 - explained[c]
		a.Unexplained = &rest
	}
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

var causeLabel = regexp.MustCompile(`cause="(\w+)"`)

// eventOf is the calibrated event that a counter of a result counts, "" for none.
// Kinds of one event are not priced beside their sum.
func eventOf(counter string) string {
	name, labels, _ := strings.Cut(counter, "{")
	switch cause := causeLabel.FindStringSubmatch(labels); {
	case name == "tee_page_faults_total" && cause != nil:
		return "fault_" + cause[1]
	case labels != "":
		return ""
	}
	return map[string]string{"tee_syscalls_total": "syscall", "tee_context_switches_total": "switch_same_core"}[name]
}

// attributed writes the verdicts of a result and what is behind them.
func attributed(e *result.Experiment) string {
	var t text
	for i := range e.Comparisons {
		if c := &e.Comparisons[i]; c.Primary {
			t.wrap("", c.Headline)
		}
	}
	const row = "%-44s %13s %13s %12s %10s"
	heading, rest := "", ""
	var reasons []string
	for i := range e.Attribution {
		a := &e.Attribution[i]
		if h := fmt.Sprintf("%s against %s, %s: more per operation", a.Treatment, a.Baseline, a.Case); h != heading {
			t.WriteString(rest)
			heading, rest = h, ""
			t.line("")
			t.wrap("", h)
			t.column(row, "", "events", "each", "CPU time", "share")
		}
		events, each, time, share := report.Value(a.Delta, ""), "", "", ""
		if a.Counter == cpuTime {
			events, time = "", report.Value(a.Delta, "seconds")
		}
		if a.UnitCost != nil {
			each, time = report.Value(*a.UnitCost, "seconds"), report.Value(a.Delta**a.UnitCost, "seconds")
		}
		if a.Share != nil {
			share = tenths(*a.Share) + " %"
		}
		t.column(row, fit(a.Counter, 44), events, each, time, share)
		if a.Unexplained != nil {
			var last text
			last.column(row, "not explained", "", "", "", tenths(*a.Unexplained)+" %")
			rest = last.String()
		}
		if eventOf(a.Counter) != "" && a.Reason != "" && !slices.Contains(reasons, a.Reason) {
			reasons = append(reasons, a.Reason)
		}
	}
	t.WriteString(rest)
	if heading == "" {
		t.line("The runs hold no counters per operation: nothing says where a difference comes from.")
	}
	t.line("")
	for _, r := range reasons {
		t.wrap("", "no price: "+r+".")
	}
	return t.String()
}
