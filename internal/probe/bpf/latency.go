package bpf

// The histogram of durations that common.h counts: four cells to a power of two in the kernel, and buckets of powers of
// two for the metrics.

import "math"

// Sizes of the histograms of common.h.
const (
	histLeastBits = 8
	histSubBits   = 2
	histOctaves   = 26
	histOver      = 1 + histOctaves<<histSubBits
	histSum       = histOver + 1
	histCells     = histSum + 1
)

// LatencyBounds are the upper bounds in seconds of the buckets that Buckets returns:
// powers of two from 1.024 us to 0.268 s, which are also bounds of cells.
var LatencyBounds = func() (b []float64) {
	for i := range 19 {
		b = append(b, math.Ldexp(1, histLeastBits+2+i)/1e9)
	}
	return b
}()

// Latency is a histogram of times as counted by a program: four cells to a power of two
// from 256 ns to 17 s.
type Latency struct{ cells [histCells]uint64 }

// addTo adds the histogram that starts at cell, over all rows, to l.
func (c counts) addTo(l *Latency, cell int) {
	for i := range l.cells {
		l.cells[i] += c.sum(cell + i)
	}
}

// Count is the number of times counted.
func (l *Latency) Count() (n uint64) {
	for _, v := range l.cells[:histSum] {
		n += v
	}
	return n
}

// Sum is the sum of all times in seconds.
func (l *Latency) Sum() float64 { return float64(l.cells[histSum]) / 1e9 }

// Buckets are the counts between LatencyBounds, not cumulative, and above all.
func (l *Latency) Buckets() []uint64 {
	out := make([]uint64, len(LatencyBounds)+1)
	for i, n := range l.cells[:histSum] {
		out[bucketOf(i)] += n
	}
	return out
}

// bucketOf is the bucket that contains a whole cell.
func bucketOf(cell int) int {
	if cell == 0 {
		return 0
	}
	return min(max(0, (cell-1)>>histSubBits-1), len(LatencyBounds))
}

// Sub subtracts earlier's counts.
func (l *Latency) Sub(earlier *Latency) {
	for i, n := range earlier.cells {
		l.cells[i] -= min(n, l.cells[i])
	}
}

// Quantile is the time in seconds below which a share q of the times lies, with an
// error of at most 12.5 % between 256 ns and 17 s; NaN if none was counted. Outside
// that range it is the range's end.
func (l *Latency) Quantile(q float64) float64 {
	n := l.Count()
	if n == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(n)))
	var sum uint64
	for i, v := range l.cells[:histSum] {
		if sum += v; sum >= max(1, rank) {
			return middle(i)
		}
	}
	return middle(histOver)
}

// middle is the middle of a cell in seconds.
func middle(cell int) float64 {
	const least = 1 << histLeastBits / 1e9
	switch {
	case cell == 0:
		return least
	case cell >= histOver:
		return math.Ldexp(least, histOctaves)
	}
	octave, sub := (cell-1)>>histSubBits, (cell-1)&(1<<histSubBits-1)
	return math.Ldexp(least*(1+(float64(sub)+0.5)/(1<<histSubBits)), octave)
}
