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

// Sensitivity is how far a series must leave its baseline. No condition is enough alone: a score alone fires on tiny
// moves of steady series, a ratio alone on idle series, and both together on series with bursts.
type Sensitivity struct {
	// Ratio is the smallest change that counts, up or down, relative to the median. Floor is the smallest difference,
	// in the series' unit. Floor is also added before taking logarithms, so it must be above 0.
	Ratio, Floor float64
	// Score is the smallest distance, in robust standard deviations of the class.
	Score float64
}

// Score is the usual threshold: normal noise practically never stays beyond it for several readings. Baseline.Judge
// keeps bursts and heavy tails out by comparing with the levels the series held before.
const Score = 6

// ErrShort means that there is too little history to know what is usual.
var ErrShort = errors.New("not enough history")

// A past level counts if it lasted for a block of 5 minutes, a present one if it lasted for Holds. Holds is longer
// than two blocks, so a past level that lasted as long fills at least one block.
const (
	block = 5 * time.Minute
	Holds = 10 * time.Minute
	day   = 24 * time.Hour
	// hourly and weekly are the history needed to separate the hours of the day, and weekends
	// from working days.
	hourly, weekly = 3 * day, 14 * day
	// perBlock is the number of readings that make a block, and perWindow a window.
	perBlock, perWindow = 3, 5
	// leastSpread is the smallest standard deviation, in logarithms: 2 %.
	leastSpread = 0.02
)

// Baseline is the usual level of a series of non-negative values: median and spread, in logarithms, by hour of the
// day in UTC, and separately for weekends once there are two weeks of history. It also holds the past levels of each
// block.
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

// held is a block: the lowest and highest distance from the class's median that it kept throughout.
type held struct {
	at        time.Time
	low, high float64
}

// Learn returns the baseline of one series. The readings must be in order and a minute or less apart; gaps are left
// out. It fails with ErrShort and the length of the history if that is below a day, and if values are invalid.
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

// blocks returns the index ranges of the blocks that have enough readings.
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

// class returns the class of a moment.
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
	c.median, c.spread = stats.Robust(logs)
	c.spread = max(c.spread, leastSpread)
}

// distance returns the distance of a value from the median of a class, in logarithms.
func (b *Baseline) distance(c *class, v float64) float64 {
	return math.Log(v+b.s.Floor) - c.median
}

// Departure is an unusual level that a series holds.
type Departure struct {
	// Held is that level: the reading of the window nearest to the usual level.
	Held float64
	// Usual is the median of the hour's class; nine of ten readings were between Low
	// and High.
	Usual, Low, High float64
	// Score is the distance in robust standard deviations, in logarithms; below 0
	// where the series fell.
	Score float64
	// Since is the beginning of the unbroken run of blocks that were as far away, up to now.
	Since time.Time
	// Days is the length of the history.
	Days float64
}

// Judge reports whether all readings of the last minutes (see Holds) have left the baseline to the same side. They
// must exceed the least score, ratio and difference, and exceed by a margin every level that the series held for 5
// minutes before the present run, relative to its hour. With a week or more of history, the most extreme day is
// ignored.
//
// The last condition bounds false findings for any distribution: of D+1 similar days, the last is the most extreme
// with probability 1/(D+1). The margin, Ratio times 1+2/D, brings that below 5 % even where bursts have no finite
// variance (TestSoak). A level held for a day is not new.
//
// ok is false for a window of fewer than 5 readings, and if the hour's class has no history.
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
	usual := stats.Quantile(c.values, 0.5)
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
		Held: level, Usual: usual, Low: stats.Quantile(c.values, 0.05), High: stats.Quantile(c.values, 0.95),
		Score: sign * away / c.spread, Since: since, Days: b.span.Hours() / 24,
	}, true
}

// run walks back from the start of the window through the blocks that were away to the same side, for a day at most.
// It returns where the run began and the index of its first block.
func (b *Baseline) run(start time.Time, sign float64) (since time.Time, first int) {
	since, first = start, len(b.blocks)
	for i := len(b.blocks) - 1; i >= 0; i-- {
		h := b.blocks[i]
		if bar := max(b.s.Score*b.class(h.at).spread, math.Log(b.s.Ratio)); h.distance(sign) < bar || since.Sub(h.at) > 2*block {
			break
		}
		if start.Sub(h.at) > day {
			return start, len(b.blocks) // held for a day: it is the present level, not a departure
		}
		since, first = h.at, i
	}
	return since, first
}

// distance returns the distance that the block held on one side of the median.
func (h held) distance(sign float64) float64 {
	if sign > 0 {
		return h.low
	}
	return -h.high
}

// before returns how far from the median the series held its level on the most extreme day before the block first;
// with a week or more of history, on the second most extreme day.
func (b *Baseline) before(first int, sign float64) float64 {
	if first == 0 {
		return 0
	}
	end := b.blocks[first-1].at
	top := make([]float64, 1+int(end.Sub(b.blocks[0].at)/day))
	for _, h := range b.blocks[:first] {
		i := int(end.Sub(h.at) / day)
		top[i] = max(top[i], h.distance(sign))
	}
	slices.Sort(top)
	if b.span >= 7*day && len(top) > 1 {
		return top[len(top)-2]
	}
	return top[len(top)-1]
}

// margin returns the least distance beyond past levels, in logarithms.
func (b *Baseline) margin() float64 {
	return math.Log(b.s.Ratio * (1 + 2*float64(day)/float64(b.span)))
}

func extremes(x []float64) (low, high float64) { return slices.Min(x), slices.Max(x) }
