package formats

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

var gobench = &report.Format{
	Name:  "gobench",
	Doc:   "Go benchmark format, one line per run; `benchstat -col /env FILE` compares the environments.",
	Print: writeGobench,
}

// writeGobench follows golang.org/design/14313-benchmark-format. A configuration line holds what is equal in all
// environments, because benchstat compares only results of equal configuration. Differences and missing values are
// comments, which the format skips.
func writeGobench(w io.Writer, doc report.Document) error {
	p := &printer{w: w}
	for _, e := range doc.Experiments {
		gobenchConfig(p, e)
		for _, d := range e.Workload.Metrics {
			if d.Better == "lower" || d.Better == "higher" {
				p.line(fmt.Sprintf("Unit %s better=%s", gobenchUnit(d), d.Better))
			}
		}
		p.line("")
		for i := range e.Runs {
			gobenchRun(p, e, &e.Runs[i])
		}
		p.line("")
	}
	if len(doc.Experiments) == 0 {
		p.line("# missing: the document holds no experiment")
	}
	return p.err
}

func gobenchConfig(p *printer, e *result.Experiment) {
	p.line("experiment: " + oneLine(word(e.ID)))
	p.line("workload: " + oneLine(word(e.Workload.Name)))
	p.line("grade: " + oneLine(word(string(e.Design.Grade))))
	for _, f := range []struct {
		key string
		get func(*result.Environment) string
	}{
		{"cpu", func(v *result.Environment) string { return v.Hardware.CPUModel }},
		{"kernel", func(v *result.Environment) string { return v.Software.Kernel }},
		{"tee", func(v *result.Environment) string { return v.TEE.Type }},
	} {
		same := true
		for i := range e.Environments {
			same = same && f.get(&e.Environments[i]) == f.get(&e.Environments[0])
		}
		if same && len(e.Environments) > 0 {
			p.line(f.key + ": " + oneLine(word(f.get(&e.Environments[0]))))
			continue
		}
		for i := range e.Environments {
			v := &e.Environments[i]
			p.line(fmt.Sprintf("# %s of %s: %s", f.key, oneLine(word(v.ID)), oneLine(word(f.get(v)))))
		}
	}
}

func gobenchRun(p *printer, e *result.Experiment, r *result.Run) {
	name := fmt.Sprintf("Benchmark%s/%s/env=%s", benchName(e.Workload.Name), caseName(r.Case), oneToken(word(r.Env)))
	if r.Status != result.OK {
		p.line(fmt.Sprintf("# missing: %s %s: the run %s: %s", name, oneLine(r.ID), word(string(r.Status)), oneLine(orNone(r.Reason))))
		return
	}
	var values []string
	for _, d := range e.Workload.Metrics {
		m := r.Metric(d.Name)
		if m == nil || floatWord(m.Value) == missingWord {
			why := r.Missing[d.Name]
			if m != nil && m.Reason != "" {
				why = m.Reason
			}
			p.line(fmt.Sprintf("# missing: %s %s %s: %s", name, oneLine(r.ID), d.Name, oneLine(orNone(why))))
			continue
		}
		values = append(values, floatWord(m.Value)+" "+gobenchUnit(d))
	}
	if len(values) > 0 {
		p.line(name + " 1 " + strings.Join(values, " "))
	}
}

// gobenchUnit returns a metric's name with the unit as benchstat spells it, so it can scale the values.
func gobenchUnit(d result.MetricDesc) string {
	known := map[string]string{"seconds": "sec", "bytes": "B", "bytes_per_second": "B/s"}
	if u := known[d.Unit]; u != "" {
		if stem, ok := strings.CutSuffix(d.Name, "_"+d.Unit); ok {
			return oneToken(stem) + "-" + u
		}
		return oneToken(d.Name) + "-" + u
	}
	return oneToken(word(d.Name))
}

// benchName returns a workload's name in the format's spelling: one word that begins with a capital.
func benchName(s string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(word(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		r := []rune(part)
		b.WriteString(strings.ToUpper(string(r[:1])) + string(r[1:]))
	}
	return b.String()
}

// caseName makes "threads=4,size=1k" the sub-benchmark "threads=4/size=1k".
func caseName(s string) string {
	if !strings.Contains(s, "=") {
		return "case=" + oneToken(word(s))
	}
	return strings.ReplaceAll(oneToken(s), ",", "/")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func oneToken(s string) string { return strings.Join(strings.Fields(s), "_") }
