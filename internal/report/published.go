package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// costRatio is the unit of published figures that are comparable with measured cost ratios.
const costRatio = "cost_ratio"

// Published is a cost ratio that others published, with the comparisons of ours that it can stand behind. It is
// drawn and listed, and no verdict reads it.
type Published struct {
	result.Reference
	TEEs, Workloads, Metrics []string
	// Case are the parameters that our case must have.
	Case map[string]string
}

// columnsOfPublished are the columns of experiments/published.csv.
var columnsOfPublished = []string{"id", "tee", "cpu", "workloads", "metrics", "case", "compared", "low", "high", "citation", "caveat"}

// ParsePublished reads a file of published cost ratios. Errors name the line.
func ParsePublished(data []byte) ([]Published, error) {
	rows, err := readTable(data, columnsOfPublished)
	if err != nil {
		return nil, fmt.Errorf("published figures: %w", err)
	}
	var out []Published
	for i, row := range rows {
		p := Published{TEEs: strings.Fields(row[1]), Workloads: strings.Fields(row[3]), Metrics: strings.Fields(row[4]), Case: map[string]string{}}
		low, err1 := strconv.ParseFloat(row[7], 64)
		high, err2 := strconv.ParseFloat(row[8], 64)
		for _, pair := range strings.Fields(row[5]) {
			k, v, ok := strings.Cut(pair, "=")
			if !ok {
				return nil, fmt.Errorf("published figures: entry %d: case %q: want NAME=VALUE", i+1, pair)
			}
			p.Case[k] = v
		}
		switch {
		case err1 != nil || err2 != nil || !finite(low, high) || low <= 0 || high < low:
			return nil, fmt.Errorf("published figures: entry %d: %q to %q: want two numbers above 0, the smaller first", i+1, row[7], row[8])
		case row[0] == "" || row[2] == "" || row[6] == "" || row[9] == "" || row[10] == "" || len(p.TEEs)*len(p.Workloads)*len(p.Metrics) == 0:
			return nil, fmt.Errorf("published figures: entry %d: only the column case may be empty, but another column is", i+1)
		case slices.ContainsFunc(out, func(o Published) bool { return o.ID == row[0] }):
			return nil, fmt.Errorf("published figures: entry %d: the id %s appears twice", i+1, row[0])
		}
		p.Reference = result.Reference{ID: row[0], Citation: row[9], Workload: row[6], TEE: fmt.Sprintf("%s (%s)", strings.Join(p.TEEs, ", "), row[2]),
			Low: low, High: high, Unit: costRatio, Caveat: row[10], Source: result.Literature}
		out = append(out, p)
	}
	return out, nil
}

// published are the figures that the program carries; a test parses them.
var published = sync.OnceValue(func() []Published {
	all, _ := ParsePublished(experiments.Published)
	return all
})

// matches reports whether a published figure is of the same kind as a comparison: workload, metric and case, between
// an arm without the TEE and one in it.
func (p *Published) matches(e *result.Experiment, c *result.Comparison) bool {
	base, treat := e.Environment(c.Baseline), e.Environment(c.Treatment)
	if base == nil || treat == nil || !slices.Contains(p.Workloads, e.Workload.Name) || !slices.Contains(p.Metrics, c.Metric) {
		return false
	}
	for k, v := range p.Case {
		if i := slices.IndexFunc(e.Cases, func(x result.Case) bool { return x.ID == c.Case }); i < 0 || e.Cases[i].Params[k] != v {
			return false
		}
	}
	return slices.ContainsFunc(p.TEEs, func(kind string) bool { return !protectedBy(&base.TEE, kind) && protectedBy(&treat.TEE, kind) })
}

// protectedBy reports whether an arm ran in a TEE of a kind, which is not always the outermost: a guest may have a
// protected GPU.
func protectedBy(t *result.TEE, kind string) bool {
	return t.Active && t.Type == kind || slices.ContainsFunc(t.Facts, func(f tee.Facts) bool { return f.Kind == kind && f.Active && f.Role != tee.Host })
}

// publishedFor returns the published figures that stand behind some comparison of an experiment.
func publishedFor(e *result.Experiment) []result.Reference {
	var out []result.Reference
	for _, p := range published() {
		if slices.ContainsFunc(forestRows(e), func(c *result.Comparison) bool { return p.matches(e, c) }) {
			out = append(out, p.Reference)
		}
	}
	return out
}

// bandsBehind returns the cost ratios to draw behind a comparison: those that the experiment itself names for its TEE,
// and the published ones of its kind.
func bandsBehind(e *result.Experiment, c *result.Comparison) []result.Reference {
	var out []result.Reference
	v := e.Environment(c.Treatment)
	for _, r := range e.References {
		named := v != nil && (r.TEE == "" || strings.HasPrefix(strings.ToLower(r.TEE), strings.ToLower(orDefault(v.TEE.Type, "-"))))
		if c.Primary && named && r.Unit == costRatio && r.Low > 0 && r.High >= r.Low {
			out = append(out, r)
		}
	}
	for _, p := range published() {
		if p.matches(e, c) {
			out = append(out, p.Reference)
		}
	}
	return out
}
