package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
)

// Specified is what a GPU can do at most by its vendor's specification, as the cited source prints it, which may be second-hand. It
// is never a measurement, and no verdict reads it.
type Specified struct {
	GPU              string // as nvidia-smi names it
	Workload, Metric string
	CaseParam, Value string // the parameter that our case must have
	Ceiling          float64
	Citation, Note   string
}

// columnsOfSpecified are the columns of experiments/specifications.csv.
var columnsOfSpecified = []string{"gpu", "workload", "metric", "case", "value", "citation", "note"}

// ParseSpecified reads a file of specifications. Errors name the entry.
func ParseSpecified(data []byte) ([]Specified, error) {
	rows, err := readTable(data, columnsOfSpecified)
	if err != nil {
		return nil, fmt.Errorf("specifications: %w", err)
	}
	var out []Specified
	for i, row := range rows {
		s := Specified{GPU: row[0], Workload: row[1], Metric: row[2], Citation: row[5], Note: row[6]}
		var ok bool
		s.CaseParam, s.Value, ok = strings.Cut(row[3], "=")
		s.Ceiling, err = strconv.ParseFloat(row[4], 64)
		switch {
		case slices.Contains(row, ""):
			return nil, fmt.Errorf("specifications: entry %d: no column may be empty", i+1)
		case !ok:
			return nil, fmt.Errorf("specifications: entry %d: case %q: want NAME=VALUE", i+1, row[3])
		case err != nil || !finite(s.Ceiling) || s.Ceiling <= 0:
			return nil, fmt.Errorf("specifications: entry %d: value %q: want a number above 0", i+1, row[4])
		}
		out = append(out, s)
	}
	return out, nil
}

// specified are the specifications that the program carries; a test parses them.
var specified = sync.OnceValue(func() []Specified {
	all, _ := ParseSpecified(experiments.Specifications)
	return all
})

// beside says what a specification is.
const beside = "The limits of the hardware, as the source states them: specifications, not measurements. These limits do not affect the verdicts."

// specificationTable has the medians of arms with a GPU beside what its vendor specifies.
func specificationTable(e *result.Experiment) *Table {
	t := newTable("Beside the vendor's specification", "environment", "case", "metric", "measured, median", "specification", "share of it", "source", "note")
	for _, s := range specified() {
		if s.Workload != e.Workload.Name {
			continue
		}
		for i := range e.Environments {
			v := &e.Environments[i]
			if len(v.Hardware.GPUs) == 0 || v.Hardware.GPUs[0].Model != s.GPU { // the workloads use the first
				continue
			}
			for _, k := range e.Cases {
				if k.Params[s.CaseParam] != s.Value {
					continue
				}
				m, _, why := Median(e, v.ID, k.ID, s.Metric)
				if m == nil && e.Desc(s.Metric) == nil {
					continue
				}
				unit, share := unitOf(e, s.Metric), Missing(why)
				if m != nil {
					share = Cell{Text: metric.Percent(*m / s.Ceiling), Raw: fmt.Sprint(*m / s.Ceiling), Number: true}
				}
				t.add(Text(v.ID, "unnamed"), Text(k.ID, "unnamed"), Text(e.Label(s.Metric), "unnamed"), ValueOrMissing(m, unit, why),
					ValueOrMissing(&s.Ceiling, unit, ""), share, Text(s.Citation, ""), Text(s.Note, ""))
			}
		}
	}
	return t.align()
}
