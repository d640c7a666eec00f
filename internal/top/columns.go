//go:build linux

package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
)

// column is a column of top's table.
type column struct {
	name  string // in queries
	title string
	width int // with the space before it
	// key sorts by it, "" none.
	key string
	// expr is its PromQL with $rate(METRIC) for the rate of a metric; "" for the line of the last minute.
	expr string
	// source is whose coverage says whether it is an estimate; sampled: it always is.
	source  string
	sampled bool
	show    func(float64) string
}

// sparkCells is how many cells the line of the last minute has.
const sparkCells = 8

var allColumns = []column{
	{name: "cpu", title: "CPU%", width: 7, key: "c", source: "switches", show: percentage,
		expr: `(sum by (process, instance) ($rate(tee_process_cpu_seconds_total)) or sum by (process, instance) ($rate(tee_process_stat_cpu_seconds_total))) * 100`},
	{name: "spark", title: "LAST MIN", width: 1 + sparkCells},
	{name: "wait", title: "WAIT", width: 7, key: "w", sampled: true, show: threads,
		expr: `sum by (process, instance) ($rate(tee_sampled_wait_seconds_total{state="cpu"})) or sum by (process, instance) ($rate(tee_process_stat_wait_seconds_total))`},
	{name: "kernel", title: "KERN%", width: 7, sampled: true, show: percentage,
		expr: `sum by (process, instance) ($rate(tee_sampled_cpu_seconds_total{mode!="user"})) / sum by (process, instance) ($rate(tee_sampled_cpu_seconds_total)) * 100`},
	{name: "syscalls", title: "SYSC/S", width: 8, key: "s", source: "syscalls", show: compact,
		expr: `sum by (process, instance) ($rate(tee_syscalls_total))`},
	{name: "switches", title: "SWCH/S", width: 8, key: "x", source: "switches", show: compact,
		expr: `sum by (process, instance) ($rate(tee_context_switches_total))`},
	{name: "faults", title: "FAULT/S", width: 9, key: "f", source: "faults", show: compact,
		expr: `sum by (process, instance) ($rate(tee_page_faults_total))`},
	{name: "exits", title: "EXIT/S", width: 8, source: "runtimes", show: compact,
		expr: `sum by (process, instance) (label_replace($rate(tee_sgx_enclave_exits_total), "async", "no", "", "") or $rate(tee_sgx_enclave_async_exits_total))`},
	{name: "epc", title: "EPC", width: 9, show: func(v float64) string { return strings.ReplaceAll(metric.Value(max(0, v), "bytes"), " ", "") },
		expr: `sum by (process, instance) (tee_sgx_process_epc_resident_bytes)`},
	{name: "epc_pages", title: "EPCPG/S", width: 9, show: compact,
		expr: `sum by (process, instance) ($rate(tee_sgx_process_epc_pages_total))`},
}

// tableQuery is one query for all columns, so they are from the same moment; the label
// column says which column a value belongs to.
func tableQuery(over time.Duration) string {
	var parts []string
	for _, c := range allColumns {
		if c.expr != "" {
			parts = append(parts, fmt.Sprintf(`label_replace(%s, "column", %q, "", "")`, ratesIn(c.expr, over), c.name))
		}
	}
	return strings.Join(parts, " or ")
}

// rated is the window of the table's rates.
const rated = 15 * time.Second

// ratesIn fills in $rate(METRIC): the rate over a time, which has at least two readings at
// the monitor's own interval, or over a minute for metrics scraped less often.
func ratesIn(expr string, over time.Duration) string {
	return query.Scope{Over: query.PromDuration(over), Longer: "1m"}.Expand(expr)
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

// threads prints a mean number of threads.
func threads(v float64) string {
	if v < 9.995 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return compact(v)
}

// percentage prints a value that is already in percent.
func percentage(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
