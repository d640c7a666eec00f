package formats

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

// The two tables of the document are two formats, because one stream of two tables is not CSV. Their columns do not
// depend on the document; new columns are added at the end. A missing value is the word "missing", and the last
// column gives the reason.
var csvSamples = &report.Format{
	Name:  "csv",
	Doc:   "CSV of all runs: one row per run and metric, in base units, with fixed columns.",
	Print: func(w io.Writer, doc report.Document) error { return writeCSV(w, doc, sampleColumns, sampleRows) },
}

var csvComparisons = &report.Format{
	Name: "csv-comparisons",
	Doc:  "CSV of all comparisons: one row per arm, case and metric, with fixed columns.",
	Print: func(w io.Writer, doc report.Document) error {
		return writeCSV(w, doc, comparisonColumns, comparisonRows)
	},
}

const (
	sampleColumns     = "experiment_id experiment workload workload_version case identity env_id launcher tee_type grade run_id pair position started_at status metric unit better value n source missing_reason"
	comparisonColumns = "experiment_id experiment workload workload_version case identity baseline treatment metric unit better primary ratio ci_low ci_high confidence cost_ratio cost_ci_low cost_ci_high boot_ci_low boot_ci_high baseline_median treatment_median n_pairs sd_log mde pairs_needed margin noise_floor bound grade verdict material ladder_step estimator changed_dimensions headline missing_reason"
)

func writeCSV(w io.Writer, doc report.Document, columns string, rows func(*result.Experiment) [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(strings.Fields(columns)); err != nil {
		return err
	}
	for _, e := range doc.Experiments {
		for _, row := range rows(e) {
			for i := range row {
				row[i] = printable.Cell(row[i])
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func sampleRows(e *result.Experiment) [][]string {
	var rows [][]string
	for i := range e.Runs {
		r := &e.Runs[i]
		launcher, tee := missingWord, missingWord
		if v := e.Environment(r.Env); v != nil {
			launcher, tee = word(v.Launcher), word(v.TEE.Type)
		}
		declared := map[string]bool{}
		row := func(d result.MetricDesc, m *result.Metric) {
			reasons := []string{}
			value, n, source := missingWord, missingWord, missingWord
			why := r.Missing[d.Name]
			if m != nil {
				value, source = floatWord(m.Value), word(string(m.Source))
				if m.N > 0 {
					n = strconv.FormatInt(m.N, 10)
				}
				if m.Reason != "" {
					why = m.Reason
				}
			}
			if value == missingWord {
				if why == "" {
					why = r.Reason
				}
				reasons = append(reasons, "value: "+orNone(why))
			}
			if n == missingWord {
				reasons = append(reasons, "n: not counted")
			}
			rows = append(rows, append(append(experimentFields(e, r.Case), word(r.Env), launcher, tee, word(string(e.Design.Grade)), word(r.ID),
				strconv.Itoa(r.Pair), strconv.Itoa(r.Position), timeWord(r.StartedAt), word(string(r.Status)),
				word(d.Name), word(d.Unit), word(d.Better), value, n, source), reasonWord(reasons)))
		}
		for _, d := range e.Workload.Metrics {
			declared[d.Name] = true
			row(d, r.Metric(d.Name))
		}
		for j := range r.Metrics {
			if !declared[r.Metrics[j].Name] {
				row(result.MetricDesc{Name: r.Metrics[j].Name}, &r.Metrics[j])
			}
		}
	}
	return rows
}

func comparisonRows(e *result.Experiment) [][]string {
	var rows [][]string
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		d := e.Desc(c.Metric)
		if d == nil {
			d = &result.MetricDesc{}
		}
		var changed []string
		for _, x := range c.Changed {
			changed = append(changed, x.Field)
		}
		values := []string{
			floatWord(c.Ratio), floatWord(c.Low), floatWord(c.High), positive(c.Confidence), floatWord(c.Cost), floatWord(c.CostLow), floatWord(c.CostHigh),
			floatWord(c.BootLow), floatWord(c.BootHigh), floatWord(c.BaseMedian), floatWord(c.TreatMedian), strconv.Itoa(c.Pairs), floatWord(c.SDLog), floatWord(c.MDE),
			settles(c), positive(c.Margin), floatWord(c.NoiseFloor), word(string(c.Bound)), word(string(c.Grade)), word(string(c.Verdict)),
			strconv.FormatBool(c.Material), rungWord(c.Rung), word(c.Estimator), none(strings.Join(changed, " ")), report.Headline(c),
		}
		var reasons []string
		for _, v := range values {
			if v == missingWord {
				reasons = append(c.Reasons[:len(c.Reasons):len(c.Reasons)], guardText(e, c)...)
				if len(reasons) == 0 {
					reasons = []string{orNone("")}
				}
				break
			}
		}
		row := append(experimentFields(e, c.Case), word(c.Baseline), word(c.Treatment), word(c.Metric), word(d.Unit), word(d.Better), strconv.FormatBool(c.Primary))
		rows = append(rows, append(append(row, values...), reasonWord(reasons)))
	}
	return rows
}

// guardText returns the messages of guards that refused the comparison.
func guardText(e *result.Experiment, c *result.Comparison) []string {
	var out []string
	for _, g := range e.Guards {
		if g.Level == result.Refuse && (g.Case == "" || g.Case == c.Case) && (g.Treatment == "" || g.Treatment == c.Treatment) && (g.Metric == "" || g.Metric == c.Metric) {
			out = append(out, g.ID+": "+g.Message)
		}
	}
	return out
}

// experimentFields returns the first columns of both tables.
func experimentFields(e *result.Experiment, kase string) []string {
	identity := missingWord
	for i := range e.Cases {
		if e.Cases[i].ID == kase {
			identity = word(e.Cases[i].Identity)
		}
	}
	version := missingWord
	if e.Workload.Version > 0 {
		version = strconv.Itoa(e.Workload.Version)
	}
	return []string{word(e.ID), word(e.Name), word(e.Workload.Name), version, word(kase), identity}
}

const missingWord = "missing"

func word(s string) string {
	if strings.TrimSpace(s) == "" {
		return missingWord
	}
	return s
}

func floatWord(p *float64) string {
	if p == nil || math.IsNaN(*p) || math.IsInf(*p, 0) {
		return missingWord
	}
	return strconv.FormatFloat(*p, 'g', -1, 64)
}

// positive prints a number for which 0 means unset.
func positive(v float64) string {
	if v <= 0 {
		return missingWord
	}
	return floatWord(&v)
}

// settles returns "none" if there is nothing to settle.
func settles(c *result.Comparison) string {
	if c.PairsNeeded > 0 {
		return strconv.Itoa(c.PairsNeeded)
	}
	return "none"
}

func rungWord(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

func none(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func orNone(why string) string {
	if why == "" {
		return "no reason was recorded"
	}
	return why
}

func reasonWord(reasons []string) string { return none(strings.Join(reasons, "; ")) }

func timeWord(t time.Time) string {
	if t.IsZero() {
		return missingWord
	}
	return t.UTC().Format(time.RFC3339Nano)
}
