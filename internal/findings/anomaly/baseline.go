package anomaly

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/stats"
)

// Sensitivity says how far a series has to leave its baseline. Each part of it
// alone lets noise through: a score alone fires on tiny moves of steady series, a
// ratio alone on idle ones, and both on series with bursts.
type Sensitivity struct {
	// Ratio is the smallest change that counts, up or down, against the median; and
	// Floor the smallest difference, in the series' unit. Floor also is what is added
	// before logarithms are taken, so it is above 0.
	Ratio, Floor float64
	// Score is the least distance in robust standard deviations of the class.
	Score float64
}

// Score is a robust score that suits: normal noise holds it for several readings
// practically never. What keeps bursts and heavy tails from being findings is
// the comparison with what the series held before, see Baseline.Judge.
const Score = 6

// ErrShort says that there is too little history to know what is usual.
var ErrShort = errors.New("not enough history")

// A block of 5 minutes is what a level has to be held for to count in the history,
// and Holds what it has to be held for now. The second is longer than two of the
// first, so that whatever held for so long in the past fills a block.
const (
	block = 5 * time.Minute
	Holds = 10 * time.Minute
	day   = 24 * time.Hour
	// hourly and weekly are the history that tells hours of a day apart, and those of
	// working days from those of weekends.
	hourly, weekly = 3 * day, 14 * day
	// perBlock is the number of readings that make a block, and perWindow a window.
	perBlock, perWindow = 3, 5
	// leastSpread is the smallest standard deviation, in logarithms: 2 %.
	leastSpread = 0.02
)

// Baseline is what is usual for a series of values that are not negative: median
// and spread, in logarithms, by hour of the day in UTC, apart for weekends where
// the history has two weeks; and how far from the median it held its level before.
type Baseline struct {
	s       Sensitivity
	span    time.Duration // of history, without its gaps
	classes []class
	blocks  []held
}

// class is a set of hours.
type class struct {
	values         []float64 // sorted, as they were read
	median, spread float64   // of log(value + floor)
}

// held is a block: the distances from the class's median that it did not fall
// below, and did not exceed.
type held struct {
	at        time.Time
	low, high float64
}

// Learn makes a baseline of the readings of one series, which are in order and a
// minute or less apart; gaps are left out. The error is ErrShort with the length
// of the history where that is below a day, or says what is wrong with the values.
func Learn(history metric.Series, s Sensitivity) (*Baseline, error) {
	if !(s.Ratio > 1 && s.Floor > 0 && s.Score > 0) {
		return nil, fmt.Errorf("baseline: ratio %v, floor %v and score %v: want more than 1, 0 and 0", s.Ratio, s.Floor, s.Score)
	}
	if i := slices.IndexFunc(history.Values, func(v float64) bool { return !(v >= 0) || math.IsInf(v, 1) }); i >= 0 {
		return nil, fmt.Errorf("baseline: value %v: want numbers from 0 up", history.Values[i])
	}
	b := &Baseline{s: s}
	parts := blocks(history)
	b.span = time.Duration(len(parts)) * block
	if b.span < day {
		return nil, fmt.Errorf("%w: %s of readings, less than a day", ErrShort, b.span)
	}
	switch {
	case b.span >= weekly:
		b.classes = make([]class, 48)
	case b.span >= hourly:
		b.classes = make([]class, 24)
	default:
		b.classes = make([]class, 1)
	}
	for i, v := range history.Values {
		c := b.class(history.At[i])
		c.values = append(c.values, v)
	}
	for i := range b.classes {
		b.classes[i].describe(s.Floor)
	}
	for _, p := range parts {
		c := b.class(history.At[p[0]])
		low, high := extremes(history.Values[p[0]:p[1]])
		b.blocks = append(b.blocks, held{history.At[p[0]], b.distance(c, low), b.distance(c, high)})
	}
	return b, nil
}

// blocks are the index ranges of the readings of each block of time that has enough.
func blocks(s metric.Series) (out [][2]int) {
	for i := 0; i < len(s.At); {
		j, start := i, s.At[i].Truncate(block)
		for j < len(s.At) && s.At[j].Sub(start) < block {
			j++
		}
		if j-i >= perBlock {
			out = append(out, [2]int{i, j})
		}
		i = j
	}
	return out
}

// class of a moment.
func (b *Baseline) class(t time.Time) *class {
	t = t.UTC()
	switch i := t.Hour(); {
	case len(b.classes) == 1:
		return &b.classes[0]
	case len(b.classes) == 48 && (t.Weekday() == time.Saturday || t.Weekday() == time.Sunday):
		return &b.classes[24+i]
	default:
		return &b.classes[i]
	}
}

func (c *class) describe(floor float64) {
	if len(c.values) == 0 {
		return
	}
	slices.Sort(c.values)
	logs := make([]float64, len(c.values))
	for i, v := range c.values {
		logs[i] = math.Log(v + floor)
	}
	c.median, c.spread = centre(logs)
	c.spread = max(c.spread, leastSpread)
}

// distance of a value from the median of a class, in logarithms.
func (b *Baseline) distance(c *class, v float64) float64 {
	return math.Log(v+b.s.Floor) - c.median
}

// centre is the median of x and its standard deviation as the median absolute
// deviation gives it (times 1.4826, which makes it that of normal values); where
// more than half of the values are equal, as the mean absolute deviation gives it
// (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993).
func centre(x []float64) (median, spread float64) {
	median = stats.Median(x)
	away, sum := make([]float64, len(x)), 0.0
	for i, v := range x {
		away[i] = math.Abs(v - median)
		sum += away[i]
	}
	if mad := stats.Median(away); mad > 0 {
		return median, mad / 0.6745
	}
	return median, 1.253314 * sum / float64(len(x))
}

// Departure is a level that a series holds and that it does not usually have.
type Departure struct {
	// Held is the level that it keeps: the reading of the window that is nearest to
	// what is usual.
	Held float64
	// Usual is the median of the hour's class; nine of ten readings were between Low
	// and High.
	Usual, Low, High float64
	// Score is the distance in robust standard deviations, in logarithms; below 0
	// where the series fell.
	Score float64
	// Since is the beginning of the first block of time that was as far away, without
	// a break up to now.
	Since time.Time
	// Days of history behind it.
	Days float64
}

// Judge says whether the readings of the last minutes (see Holds) have left the
// baseline, all of them and to the same side: by the least score, the least ratio
// and the least difference, and by a margin beyond what the series ever held for
// 5 minutes, relative to its hour, before the present run. On one day of a week or
// more it may have held anything.
//
// The last condition is what bounds false findings whatever the distribution: of
// D+1 days that are alike, the last is the most extreme one with a chance of
// 1/(D+1). The margin, Ratio times 1+2/D, brings that below 5 % even where bursts
// have no finite variance (TestSoak). A level that was held for a day is not new.
//
// ok is false for a window of fewer than 5 readings, and where the hour's class
// has no history.
func (b *Baseline) Judge(window metric.Series) (d Departure, ok bool) {
	if len(window.Values) < perWindow {
		return d, false
	}
	now := window.At[len(window.At)-1]
	c := b.class(now)
	if len(c.values) < perWindow {
		return d, false
	}
	low, high := extremes(window.Values)
	usual := quantile(c.values, 0.5)
	bar := max(b.s.Score*c.spread, math.Log(b.s.Ratio))
	level, sign := low, 1.0
	if b.distance(c, high) < 0 {
		level, sign = high, -1
	}
	away := sign * b.distance(c, level)
	if away < bar || sign*(level-usual) < b.s.Floor || max(level, usual) < b.s.Ratio*min(level, usual) {
		return d, false
	}
	since, first := b.run(window.At[0], sign)
	if away < b.before(first, sign)+b.margin() {
		return d, false
	}
	return Departure{
		Held: level, Usual: usual, Low: quantile(c.values, 0.05), High: quantile(c.values, 0.95),
		Score: sign * away / c.spread, Since: since, Days: b.span.Hours() / 24,
	}, true
}

// run goes back from the start of the window through the blocks that were away to
// the same side, for a day at most; first is the index of the first of them.
func (b *Baseline) run(start time.Time, sign float64) (since time.Time, first int) {
	since, first = start, len(b.blocks)
	for i := len(b.blocks) - 1; i >= 0; i-- {
		h := b.blocks[i]
		if bar := max(b.s.Score*b.class(h.at).spread, math.Log(b.s.Ratio)); h.away(sign) < bar || since.Sub(h.at) > 2*block {
			break
		}
		if start.Sub(h.at) > day {
			return start, len(b.blocks) // no run any more: it is how the series is now
		}
		since, first = h.at, i
	}
	return since, first
}

// away is the distance that the block held on one side of the median.
func (h held) away(sign float64) float64 {
	if sign > 0 {
		return h.low
	}
	return -h.high
}

// before is how far from the median the series held its level on the most extreme
// day before the block first; of a week or more, the second most extreme.
func (b *Baseline) before(first int, sign float64) float64 {
	if first == 0 {
		return 0
	}
	end := b.blocks[first-1].at
	top := make([]float64, 1+int(end.Sub(b.blocks[0].at)/day))
	for _, h := range b.blocks[:first] {
		i := int(end.Sub(h.at) / day)
		top[i] = max(top[i], h.away(sign))
	}
	slices.Sort(top)
	if b.span >= 7*day && len(top) > 1 {
		return top[len(top)-2]
	}
	return top[len(top)-1]
}

// margin is by how much the past has to be exceeded, in logarithms.
func (b *Baseline) margin() float64 {
	return math.Log(b.s.Ratio * (1 + 2*float64(day)/float64(b.span)))
}

func extremes(x []float64) (low, high float64) { return slices.Min(x), slices.Max(x) }

// quantile of sorted values, linear between them (definition 7 of Hyndman and Fan,
// The American Statistician 50, 1996).
func quantile(x []float64, q float64) float64 {
	at := q * float64(len(x)-1)
	i := int(at)
	if i+1 >= len(x) {
		return x[len(x)-1]
	}
	return x[i] + (at-float64(i))*(x[i+1]-x[i])
}
