package anomaly

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/stats"
)

// The limits of one call of Boxes.
const (
	MaxWindows = 48
	// perBox is the largest number of moments at which a window's expression is evaluated. leastStep is the shortest
	// time between two: the monitor's default interval.
	perBox    = 240
	leastStep = 5 * time.Second
	maxSeries = 100
	// whisker is the longest reach of a whisker, in interquartile ranges.
	whisker     = 1.5
	maxOutliers = 50
)

// Boxes divides a span of time into windows of equal length and describes the values of each series of a PromQL
// expression in each window. It evaluates at moments 5 s apart or at 240 moments, whichever is fewer. A window
// without values has no box. Infinite values are left out.
func Boxes(ctx context.Context, q query.RangeQuerier, expr string, from, to time.Time, windows int) ([]Box, error) {
	if windows < 1 || windows > MaxWindows {
		return nil, fmt.Errorf("%d windows: want 1 to %d", windows, MaxWindows)
	}
	span := to.Sub(from)
	if span < time.Duration(windows)*leastStep {
		return nil, fmt.Errorf("from %s to %s in %d windows: each window must be %s or longer", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), windows, leastStep)
	}
	width := span / time.Duration(windows)
	step := max(leastStep, width/perBox)
	series, err := q.QueryRange(ctx, expr, from.Add(step), to, step)
	if err != nil {
		return nil, err
	}
	if len(series) > maxSeries {
		return nil, fmt.Errorf("query %s gives %d series, more than the limit of %d: aggregate, or select fewer", expr, len(series), maxSeries)
	}
	out := []Box{}
	for _, s := range series {
		values := make([][]float64, windows)
		for i, v := range s.Values {
			if k := int((s.At[i].Sub(from) - 1) / width); k < windows && !math.IsInf(v, 0) { // a moment ends the step before it
				values[k] = append(values[k], v)
			}
		}
		for k, v := range values {
			if len(v) == 0 {
				continue
			}
			b := box(v)
			b.Labels, b.Window = s.Labels, Window{from.Add(time.Duration(k) * width), from.Add(time.Duration(k+1) * width)}
			out = append(out, b)
		}
	}
	return out, nil
}

// box describes at least one finite value (Tukey, Exploratory Data Analysis, 1977, chapter 2), with the quartiles of
// stats.Quantile.
func box(x []float64) Box {
	x = slices.Sorted(slices.Values(x))
	b := Box{N: len(x), Min: x[0], Max: x[len(x)-1], Q1: stats.Quantile(x, 0.25), Median: stats.Quantile(x, 0.5), Q3: stats.Quantile(x, 0.75), Outliers: []float64{}}
	reach := whisker * (b.Q3 - b.Q1)
	b.Low, b.High = b.Max, b.Min
	for _, v := range x {
		b.Mean += v / float64(len(x))
		if v < b.Q1-reach || v > b.Q3+reach {
			b.Outliers = append(b.Outliers, v)
			continue
		}
		b.Low, b.High = min(b.Low, v), max(b.High, v)
	}
	slices.SortStableFunc(b.Outliers, func(u, v float64) int {
		return cmp.Compare(math.Abs(v-b.Median), math.Abs(u-b.Median))
	})
	b.Outliers = b.Outliers[:min(maxOutliers, len(b.Outliers))]
	return b
}
