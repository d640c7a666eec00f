//go:build linux

package top

import (
	"time"
)

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
