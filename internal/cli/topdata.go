//go:build linux

package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/web"
)

// topColumn is a column of top's table.
type topColumn struct {
	name  string // in queries
	title string
	width int // with the space before it
	// key sorts by it, "" none.
	key string
	// expr is its PromQL with $r(METRIC) for the rate of a metric; "" for the line of the last minute.
	expr string
	// source is whose coverage says whether it is an estimate; sampled: it always is.
	source  string
	sampled bool
	show    func(float64) string
}

// sparkCells is how many cells the line of the last minute has.
const sparkCells = 8

var topColumns = []topColumn{
	{name: "cpu", title: "CPU%", width: 7, key: "c", source: "switches", show: percentage,
		expr: `(sum by (process, instance) ($r(tee_process_cpu_seconds_total)) or sum by (process, instance) ($r(tee_process_stat_cpu_seconds_total))) * 100`},
	{name: "spark", title: "LAST MIN", width: 1 + sparkCells},
	{name: "wait", title: "WAIT", width: 7, key: "w", sampled: true, show: threads,
		expr: `sum by (process, instance) ($r(tee_sampled_wait_seconds_total{state="cpu"})) or sum by (process, instance) ($r(tee_process_stat_wait_seconds_total))`},
	{name: "kernel", title: "KERN%", width: 7, sampled: true, show: percentage,
		expr: `sum by (process, instance) ($r(tee_sampled_cpu_seconds_total{mode!="user"})) / sum by (process, instance) ($r(tee_sampled_cpu_seconds_total)) * 100`},
	{name: "syscalls", title: "SYSC/S", width: 8, key: "s", source: "syscalls", show: compact,
		expr: `sum by (process, instance) ($r(tee_syscalls_total))`},
	{name: "switches", title: "SWCH/S", width: 8, key: "x", source: "switches", show: compact,
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
func topQuery(over time.Duration) string {
	var parts []string
	for _, c := range topColumns {
		if c.expr != "" {
			parts = append(parts, fmt.Sprintf(`label_replace(%s, "column", %q, "", "")`, ratesIn(c.expr, over), c.name))
		}
	}
	return strings.Join(parts, " or ")
}

// rated is the window of the table's rates.
const rated = 15 * time.Second

// ratesIn replaces $r(METRIC): the rate over a time, which has at least two readings at
// the monitor's own interval, or over a minute for metrics scraped less often.
func ratesIn(expr string, over time.Duration) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(expr, "$r(")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		metric, after, _ := strings.Cut(rest, ")")
		fmt.Fprintf(&b, "(rate(%[1]s[%[2]s]) or rate(%[1]s[1m]))", metric, findings.PromDuration(over))
		expr = after
	}
}

// topSnapshot is what a monitor said at one time.
type topSnapshot struct {
	where    string        // who said it
	lacks    string        // what is not read
	watched  time.Duration // how long the machine has been watched; 0 where that is not known
	platform web.Platform
	findings web.Findings
	overhead web.Overhead
	// columns are those for which any process has a value.
	columns []topColumn
	rows    []topRow
	// machines is the number of machines in the rows.
	machines int
	// past is the CPU time of the last minute in percent of a core, by row; only of the first snapshot.
	past map[rowID]trail
}

// rowID names a process of a machine.
type rowID struct{ process, machine string }

// topRow is a process of a machine; values are by the column's name.
type topRow struct {
	rowID
	values map[string]topValue
}

type topValue struct {
	number   float64
	estimate bool
}

// over is the time that rates are taken over. A rate over more time than was watched would be too low.
func (s *topSnapshot) over() time.Duration {
	if s.watched <= 0 || s.watched+spanMargin > rated {
		return rated
	}
	return s.watched + spanMargin
}

// spanMargin is what a window has before the first reading, which is else outside: windows are open on the left. A counter
// from 0 has not counted there, so its first rates are too low by this part.
const spanMargin = 2 * time.Millisecond

// young reports whether the first rates are still to come, or are of less than a minute.
func (s *topSnapshot) young() bool { return s.watched > 0 && s.watched < trailSpan }

// lookAround asks for everything that a table needs.
func lookAround(ctx context.Context, of witness) (topSnapshot, error) {
	s := topSnapshot{where: of.where, lacks: of.lacks()}
	var err error
	if s.findings, err = of.findings(ctx); err != nil { // first: an agent has none
		return s, err
	}
	if s.platform, err = of.platform(ctx); err != nil {
		return s, err
	}
	if s.overhead, err = of.overhead(ctx); err != nil {
		return s, err
	}
	at := s.findings.At
	from, until := of.span(s.platform)
	if !until.IsZero() {
		at = until
	}
	if !from.IsZero() {
		s.watched = max(0, at.Sub(from))
	}
	processes, err := of.query(ctx, topQuery(s.over()), at)
	if err != nil {
		return s, err
	}
	covered, err := of.query(ctx, "min_over_time(teescope_source_coverage_ratio[1m]) < 1", at)
	if err != nil {
		return s, err
	}
	s.fill(processes, covered)
	return s, nil
}

// lookBack asks for the CPU time of the minute before a snapshot.
func (s *topSnapshot) lookBack(ctx context.Context, of witness) error {
	at := s.findings.At
	span := trailSpan
	if s.young() {
		span = s.watched - rated // before that a rate over 15 s is too low
	}
	if span <= 0 {
		return nil
	}
	cpu := topColumns[0]
	lines, err := of.lines(ctx, ratesIn(cpu.expr, rated), at.Add(-span), at, trailSpan/sparkCells)
	if err != nil {
		return err
	}
	s.past = map[rowID]trail{}
	for _, l := range lines {
		id := idOf(l.Labels)
		for i, v := range l.Values {
			if v == v {
				s.past[id] = append(s.past[id], trailPoint{l.At[i], v})
			}
		}
	}
	return nil
}

// idOf is the row of a series.
func idOf(labels map[string]string) rowID {
	return rowID{explain.Printable(labels["process"]), explain.Printable(labels["instance"])}
}

// fill makes rows of the answers.
func (s *topSnapshot) fill(processes, covered []metric.Point) {
	part := map[[2]string]bool{} // source, machine
	for _, r := range covered {
		part[[2]string{r.Labels["source"], r.Labels["instance"]}] = true
	}
	rows, machines, seen := map[rowID]*topRow{}, map[string]bool{}, map[string]bool{}
	for _, r := range processes {
		v := r.Value
		i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.name == r.Labels["column"] && c.expr != "" })
		if i < 0 || v != v { // a share of no CPU time is undefined
			continue
		}
		id := idOf(r.Labels)
		if rows[id] == nil {
			rows[id] = &topRow{rowID: id, values: map[string]topValue{}}
		}
		c := topColumns[i]
		rows[id].values[c.name] = topValue{number: v, estimate: c.sampled || part[[2]string{c.source, r.Labels["instance"]}]}
		machines[id.machine], seen[c.name] = true, true
	}
	seen["spark"] = seen["cpu"]
	s.machines = len(machines)
	s.columns = slices.DeleteFunc(slices.Clone(topColumns), func(c topColumn) bool { return !seen[c.name] })
	for _, r := range rows {
		s.rows = append(s.rows, *r)
	}
}

// trail is the CPU time of a process in the last minute, in percent of a core, oldest first.
type trail []trailPoint

type trailPoint struct {
	at    time.Time
	value float64
}

// trailSpan is how long a trail is.
const trailSpan = time.Minute

// sparkBlocks are the cells of a line, from the lowest.
var sparkBlocks = []rune("▁▂▃▄▅▆▇█")

// leastSpark is what the highest cell stands for at least, in percent of a core: noise must not look like a load.
const leastSpark = 1

// line draws a trail until a time: a cell is the mean of its part of the minute, and blank where nothing is known.
func (t trail) line(until time.Time) string {
	var sum, n [sparkCells]float64
	for _, p := range t {
		ago := until.Sub(p.at)
		if i := sparkCells - 1 - int(ago*sparkCells/trailSpan); ago >= 0 && i >= 0 {
			sum[i] += p.value
			n[i]++
		}
	}
	most := float64(leastSpark)
	for i := range sum {
		if n[i] > 0 {
			sum[i] /= n[i]
			most = max(most, sum[i])
		}
	}
	out := make([]rune, sparkCells)
	for i := range out {
		out[i] = ' '
		if part := sum[i] / most; n[i] > 0 && part >= 0 { // not of a value beyond all numbers
			out[i] = sparkBlocks[min(len(sparkBlocks)-1, int(part*float64(len(sparkBlocks))))]
		}
	}
	return string(out)
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

// threads prints a mean number of threads.
func threads(v float64) string {
	if v < 9.995 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return compact(v)
}

// percentage prints a value that is already in percent.
func percentage(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
