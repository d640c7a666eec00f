//go:build linux

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/web"
)

// topColumn is a column of top's table.
type topColumn struct {
	name  string // in queries
	title string
	width int // with the space before it
	// key sorts by it, "" none.
	key string
	// expr is its PromQL with $r(METRIC) for the rate of a metric.
	expr string
	// source is whose coverage says whether it is an estimate; sampled: it always is.
	source  string
	sampled bool
	show    func(float64) string
}

var topColumns = []topColumn{
	{name: "cpu", title: "CPU%", width: 7, key: "c", source: "switches", show: percentage,
		expr: `sum by (process, instance) ($r(tee_process_cpu_seconds_total)) * 100`},
	{name: "kernel", title: "KERN%", width: 7, sampled: true, show: percentage,
		expr: `sum by (process, instance) ($r(tee_sampled_cpu_seconds_total{mode!="user"})) / sum by (process, instance) ($r(tee_sampled_cpu_seconds_total)) * 100`},
	{name: "syscalls", title: "SYSC/S", width: 8, key: "s", source: "syscalls", show: compact,
		expr: `sum by (process, instance) ($r(tee_syscalls_total))`},
	{name: "switches", title: "SWCH/S", width: 8, key: "w", source: "switches", show: compact,
		expr: `sum by (process, instance) ($r(tee_context_switches_total))`},
	{name: "faults", title: "FAULT/S", width: 9, key: "f", source: "faults", show: compact,
		expr: `sum by (process, instance) ($r(tee_page_faults_total))`},
	{name: "exits", title: "EXIT/S", width: 8, source: "runtimes", show: compact,
		expr: `sum by (process, instance) (label_replace($r(tee_sgx_enclave_exits_total), "async", "no", "", "") or $r(tee_sgx_enclave_async_exits_total))`},
	{name: "epc", title: "EPC", width: 9, show: func(v float64) string { return strings.ReplaceAll(size(uint64(max(0, v))), " ", "") },
		expr: `sum by (process, instance) (tee_sgx_process_epc_resident_bytes)`},
	{name: "epc_pages", title: "EPCPG/S", width: 9, show: compact,
		expr: `sum by (process, instance) ($r(tee_sgx_process_epc_pages_total))`},
}

// topQuery is one query for all columns, so they are from the same moment; the label
// column says which column a value belongs to.
func topQuery() string {
	var parts []string
	for _, c := range topColumns {
		parts = append(parts, fmt.Sprintf(`label_replace(%s, "column", %q, "", "")`, ratesIn(c.expr), c.name))
	}
	return strings.Join(parts, " or ")
}

// ratesIn replaces $r(METRIC): the rate over 15 s, which has at least two readings at
// the monitor's own interval, or over a minute for metrics scraped less often.
func ratesIn(expr string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(expr, "$r(")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		metric, after, _ := strings.Cut(rest, ")")
		fmt.Fprintf(&b, "(rate(%[1]s[15s]) or rate(%[1]s[1m]))", metric)
		expr = after
	}
}

// topSnapshot is what a monitor said at one time.
type topSnapshot struct {
	platform web.Platform
	findings web.Findings
	overhead web.Overhead
	// columns are those for which any process has a value.
	columns []topColumn
	rows    []topRow
	// machines is the number of machines in the rows.
	machines int
}

// topRow is a process of a machine; values are by the column's name.
type topRow struct {
	process, machine string
	values           map[string]topValue
}

type topValue struct {
	number   float64
	estimate bool
}

// lookAround asks a monitor for everything that a table needs.
func lookAround(ctx context.Context, base *url.URL) (topSnapshot, error) {
	var s topSnapshot
	var processes, covered vector
	query := func(expr string) *url.URL {
		u := base.JoinPath("api/v1/query")
		u.RawQuery = url.Values{"query": {expr}}.Encode()
		return u
	}
	for _, q := range []struct {
		u      *url.URL
		answer any
	}{
		{base.JoinPath("api/teescope/v1/findings"), &s.findings}, // first: an agent has none
		{base.JoinPath("api/teescope/v1/platform"), &s.platform},
		{base.JoinPath("api/teescope/v1/overhead"), &s.overhead},
		{query(topQuery()), &processes},
		{query("min_over_time(teescope_source_coverage_ratio[1m]) < 1"), &covered},
	} {
		if err := ask(ctx, q.u, q.answer); err != nil {
			return s, err
		}
	}
	if s.findings.Problems == nil { // of a monitor of an earlier version
		s.findings = summarized(s.findings, time.Time{})
	}
	if err := s.fill(processes, covered); err != nil {
		return s, fmt.Errorf("read the monitor's answer from %s: %w; is it a teescope monitor?", base.Redacted(), err)
	}
	return s, nil
}

// fill makes rows of the answers.
func (s *topSnapshot) fill(processes, covered vector) error {
	part := map[[2]string]bool{} // source, machine
	for _, r := range covered.Data.Result {
		part[[2]string{r.Metric["source"], r.Metric["instance"]}] = true
	}
	rows, machines, seen := map[[2]string]*topRow{}, map[string]bool{}, map[string]bool{}
	for _, r := range processes.Data.Result {
		var text string
		if err := json.Unmarshal(r.Value[1], &text); err != nil {
			return fmt.Errorf("a value of %v: %w", r.Metric, err)
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("a value of %v: %w", r.Metric, err)
		}
		i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.name == r.Metric["column"] })
		if i < 0 || v != v { // a share of no CPU time is undefined
			continue
		}
		id := [2]string{r.Metric["process"], r.Metric["instance"]}
		if rows[id] == nil {
			rows[id] = &topRow{process: explain.Printable(id[0]), machine: explain.Printable(id[1]), values: map[string]topValue{}}
		}
		c := topColumns[i]
		rows[id].values[c.name] = topValue{number: v, estimate: c.sampled || part[[2]string{c.source, id[1]}]}
		machines[id[1]], seen[c.name] = true, true
	}
	s.machines = len(machines)
	s.columns = slices.DeleteFunc(slices.Clone(topColumns), func(c topColumn) bool { return !seen[c.name] })
	for _, r := range rows {
		s.rows = append(s.rows, *r)
	}
	return nil
}

// sorted returns the rows, highest value of a column first. Processes without a
// value come last, and equal ones in the order of their names.
func sorted(rows []topRow, column string) []topRow {
	out := slices.Clone(rows)
	slices.SortFunc(out, func(a, b topRow) int {
		va, oka := a.values[column]
		vb, okb := b.values[column]
		switch {
		case oka && !okb:
			return -1
		case okb && !oka:
			return 1
		}
		return cmp.Or(cmp.Compare(vb.number, va.number), strings.Compare(a.process, b.process), strings.Compare(a.machine, b.machine))
	})
	return out
}

// compact prints a number with three or four digits ("0", "0.4", "372", "9870",
// "12.3k", "1.23M").
func compact(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if v < 9_999.5 && (unit == "" || v < 999.5) {
			break
		}
		v, unit = v/1000, u
	}
	switch {
	case v == 0:
		return "0"
	case v < 9.995 && unit != "":
		return strconv.FormatFloat(v, 'f', 2, 64) + unit
	case v < 9.95 || v < 99.95 && unit != "":
		return strconv.FormatFloat(v, 'f', 1, 64) + unit
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + unit
}

// percentage prints a value that is already in percent.
func percentage(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
