//go:build linux

package top

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/web"
)

// snapshot is what a monitor said at one time.
type snapshot struct {
	where    string        // who said it
	lacks    string        // what is not read
	watched  time.Duration // how long the machine has been watched; 0 where that is not known
	platform web.Platform
	findings web.Findings
	overhead web.Overhead
	// columns are those for which any process has a value.
	columns []column
	rows    []row
	// machines is the number of machines in the rows.
	machines int
	// past is the CPU time of the last minute in percent of a core, by row; only of the first snapshot.
	past map[rowID]trail
}

// rowID names a process of a machine.
type rowID struct{ process, machine string }

// row is a process of a machine; values are by the column's name.
type row struct {
	rowID
	values map[string]cellValue
}

type cellValue struct {
	number   float64
	estimate bool
}

// rateWindow is the time that rates are taken over. A rate over more time than was watched would be too low.
func (s *snapshot) rateWindow() time.Duration {
	if s.watched <= 0 || s.watched+client.SpanMargin > rated {
		return rated
	}
	return s.watched + client.SpanMargin
}

// young reports whether the first rates are still to come, or are of less than a minute.
func (s *snapshot) young() bool { return s.watched > 0 && s.watched < trailSpan }

// takeSnapshot asks for everything that a table needs.
func takeSnapshot(ctx context.Context, of client.Backend) (snapshot, error) {
	s := snapshot{where: of.Where, lacks: of.Lacks()}
	var err error
	if s.findings, err = of.Findings(ctx); err != nil { // first: an agent has none
		return s, err
	}
	if s.platform, err = of.Platform(ctx); err != nil {
		return s, err
	}
	if s.overhead, err = of.Overhead(ctx); err != nil {
		return s, err
	}
	at := s.findings.At
	from, until := of.Span(s.platform)
	if !until.IsZero() {
		at = until
	}
	if !from.IsZero() {
		s.watched = max(0, at.Sub(from))
	}
	processes, err := of.Query(ctx, tableQuery(s.rateWindow()), at)
	if err != nil {
		return s, err
	}
	covered, err := of.Query(ctx, "min_over_time(teescope_source_coverage_ratio[1m]) < 1", at)
	if err != nil {
		return s, err
	}
	s.fill(processes, covered)
	return s, nil
}

// readPast asks for the CPU time of the minute before a snapshot.
func (s *snapshot) readPast(ctx context.Context, of client.Backend) error {
	at := s.findings.At
	span := trailSpan
	if s.young() {
		span = s.watched - rated // before that a rate over 15 s is too low
	}
	if span <= 0 {
		return nil
	}
	cpu := allColumns[0]
	lines, err := of.Lines(ctx, ratesIn(cpu.expr, rated), at.Add(-span), at, trailSpan/sparkCells)
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
	return rowID{printable.OneLine(labels["process"]), printable.OneLine(labels["instance"])}
}

// fill makes rows of the answers.
func (s *snapshot) fill(processes, covered []metric.Point) {
	part := map[[2]string]bool{} // source, machine
	for _, r := range covered {
		part[[2]string{r.Labels["source"], r.Labels["instance"]}] = true
	}
	rows, machines, seen := map[rowID]*row{}, map[string]bool{}, map[string]bool{}
	for _, r := range processes {
		v := r.Value
		i := slices.IndexFunc(allColumns, func(c column) bool { return c.name == r.Labels["column"] && c.expr != "" })
		if i < 0 || v != v { // a share of no CPU time is undefined
			continue
		}
		id := idOf(r.Labels)
		if rows[id] == nil {
			rows[id] = &row{rowID: id, values: map[string]cellValue{}}
		}
		c := allColumns[i]
		rows[id].values[c.name] = cellValue{number: v, estimate: c.sampled || part[[2]string{c.source, r.Labels["instance"]}]}
		machines[id.machine], seen[c.name] = true, true
	}
	seen["spark"] = seen["cpu"]
	s.machines = len(machines)
	s.columns = slices.DeleteFunc(slices.Clone(allColumns), func(c column) bool { return !seen[c.name] })
	for _, r := range rows {
		s.rows = append(s.rows, *r)
	}
}

// sorted returns the rows, highest value of a column first. Processes without a
// value come last, and equal ones in the order of their names.
func sorted(rows []row, column string) []row {
	out := slices.Clone(rows)
	slices.SortFunc(out, func(a, b row) int {
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
