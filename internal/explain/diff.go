package explain

import (
	"cmp"
	"math"
	"slices"
)

// Difference is a row of two trees, such as those of two windows or of two arms of
// an experiment.
type Difference struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Part  Part   `json:"part"`
	// Before and After are times in seconds per the trees' Per; Tree.Unseen where a tree
	// has no such row, as a call that was never made.
	Before Amount `json:"before"`
	After  Amount `json:"after"`
	// Change is After less Before, and Clear that 0 is outside of its interval.
	Change Amount `json:"change"`
	Clear  bool   `json:"clear"`
}

// Unexplained is the id of the difference between what two trees leave unexplained.
const Unexplained = "unexplained"

// Diff compares two trees row by row, the largest change first and the unexplained rest last. It fails if one tree is
// per second and the other per request, and if one has measured times and the other only prices.
func Diff(before, after Tree) ([]Difference, error) {
	if before.Per != after.Per {
		return nil, refuse("one tree is per %s, the other per %s: use the same unit for both", before.Per, after.Per)
	}
	if (before.Unseen.CPU.High > 0) != (after.Unseen.CPU.High > 0) {
		return nil, refuse("only one of the windows has CPU samples of the process: measured times cannot be compared with times that are computed from calibrated costs")
	}
	var out []Difference
	at := map[string]int{}
	place := func(row Row) *Difference {
		i, known := at[row.ID]
		if !known {
			i = len(out)
			at[row.ID] = i
			out = append(out, Difference{ID: row.ID, Title: row.Title, Part: row.Part, Before: before.Unseen.unseenIn(row.Part), After: after.Unseen.unseenIn(row.Part)})
		}
		return &out[i]
	}
	for _, row := range splitSmallCalls(before.Rows, after.Rows) {
		place(row).Before = row.Time
	}
	for _, row := range splitSmallCalls(after.Rows, before.Rows) {
		place(row).After = row.Time
	}
	out = append(out, Difference{ID: Unexplained, Title: "not explained", Before: before.Unexplained, After: after.Unexplained})
	for i := range out {
		d := &out[i]
		d.Change = d.After.minus(d.Before)
		d.Clear = d.Change.Low > 0 || d.Change.High < 0
	}
	slices.SortStableFunc(out[:len(out)-1], func(a, b Difference) int {
		return cmp.Compare(math.Abs(b.Change.Value), math.Abs(a.Change.Value))
	})
	return out, nil
}

// splitSmallCalls takes calls out of the row of small ones if they have their own rows in the other tree.
func splitSmallCalls(rows, other []Row) []Row {
	var out []Row
	for _, row := range rows {
		if row.ID == SmallCalls {
			rest := Amount{}
			for _, part := range row.Rows {
				if slices.ContainsFunc(other, func(o Row) bool { return o.ID == part.ID }) {
					out = append(out, part)
				} else {
					rest = rest.plus(part.Time)
				}
			}
			row.Title, row.Time = "small system calls", rest
		}
		out = append(out, row)
	}
	return out
}
