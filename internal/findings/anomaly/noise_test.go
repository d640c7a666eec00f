package anomaly

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// monday is the start of generated histories.
var monday = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// noise generates the next reading of a series, a minute after the last.
type noise func(at time.Time) float64

// kinds are series without notable events. Levels and strengths are drawn for each series.
var kinds = map[string]func(*rand.Rand) noise{
	"autoregressive": func(r *rand.Rand) noise {
		level, phi, sd, x := drawn(r, 10, 1e5), 0.5+0.48*r.Float64(), 0.05+0.4*r.Float64(), 0.0
		return func(time.Time) float64 {
			x = phi*x + math.Sqrt(1-phi*phi)*sd*r.NormFloat64()
			return level * math.Exp(x)
		}
	},
	"daily cycle": func(r *rand.Rand) noise {
		level, swing, phase, sd := drawn(r, 100, 1e5), 1+r.Float64(), 24*r.Float64(), 0.1+0.2*r.Float64()
		return func(at time.Time) float64 {
			hour := float64(at.Hour()) + float64(at.Minute())/60
			return level * math.Exp(swing*math.Sin(2*math.Pi*(hour-phase)/24)+sd*r.NormFloat64())
		}
	},
	"working hours": func(r *rand.Rand) noise { // start and end at a different minute each day
		night, day, sd := drawn(r, 10, 1000), 5+50*r.Float64(), 0.2
		begin, end, last := 0.0, 0.0, -1
		return func(at time.Time) float64 {
			if at.YearDay() != last {
				last, begin, end = at.YearDay(), 9+0.3*r.NormFloat64(), 17+0.5*r.NormFloat64()
			}
			v := night
			if hour := float64(at.Hour()) + float64(at.Minute())/60; hour > begin && hour < end && at.Weekday() != time.Sunday && at.Weekday() != time.Saturday {
				v *= day
			}
			return v * math.Exp(sd*r.NormFloat64())
		}
	},
	"rare events": func(r *rand.Rand) noise {
		perMinute := drawn(r, 0.05, 60)
		return func(time.Time) float64 { return 100 * poisson(r, perMinute) / 60 }
	},
	"cron jobs": func(r *rand.Rand) noise { // one an hour and one a night, each with its duration
		idle, job, night := drawn(r, 1, 100), drawn(r, 1e3, 1e5), drawn(r, 1e3, 1e5)
		minute, hour, lasts, nightly := r.IntN(60), r.IntN(24), 0, 0
		return func(at time.Time) float64 {
			if at.Minute() == minute {
				lasts = 2 + r.IntN(12)
			}
			if at.Hour() == hour && at.Minute() == 5 {
				nightly = 20 + r.IntN(60)
			}
			v := idle
			if lasts--; lasts >= 0 {
				v += job
			}
			if nightly--; nightly >= 0 {
				v += night
			}
			return v * math.Exp(0.3*r.NormFloat64())
		}
	},
	"bursts": func(r *rand.Rand) noise { // some a day, with heights of infinite variance
		level, perDay, lasts, height := drawn(r, 1, 1000), 1+6*r.Float64(), 0.0, 0.0
		return func(time.Time) float64 {
			if lasts--; lasts < 0 && r.Float64() < perDay/1440 {
				lasts, height = r.ExpFloat64()*15, math.Pow(1-r.Float64(), -1/1.5)*2000
			}
			v := level
			if lasts >= 0 {
				v += height
			}
			return v * math.Exp(0.2*r.NormFloat64())
		}
	},
	"heavy tails": func(r *rand.Rand) noise { // single distant readings: Student's t with 2 degrees of freedom
		level, sd := drawn(r, 100, 1e5), 0.1+0.3*r.Float64()
		return func(time.Time) float64 {
			t := r.NormFloat64() / math.Sqrt(r.ExpFloat64())
			return level * math.Exp(max(-20, min(20, sd*t)))
		}
	},
	"restarts": func(r *rand.Rand) noise { // a process that is gone for a while, and idles
		level, down := drawn(r, 100, 1e4), 0
		return func(time.Time) float64 {
			if down--; down < 0 && r.Float64() < 2./1440 {
				down = r.IntN(30)
			}
			if down >= 0 {
				return 0
			}
			return level * math.Exp(0.3*r.NormFloat64())
		}
	},
	"drift": func(r *rand.Rand) noise { // a level that wanders by a factor of about two in a week
		x, step := math.Log(drawn(r, 100, 1e5)), 0.004+0.003*r.Float64()
		return func(time.Time) float64 {
			x += step * r.NormFloat64()
			return math.Exp(x + 0.1*r.NormFloat64())
		}
	},
}

// recorded returns recordings of teescope monitor: rates of system calls, context switches and page faults of
// processes on a machine with two processors that built and tested programs without a pause. Each line of the file is
// a series with a reading every 5 s. A reading stands for a minute here, and pieces of an hour are joined in random
// order, as a block bootstrap does (Künsch, Ann. Statist. 17, 1989).
func recorded(t *testing.T) func(*rand.Rand) noise {
	t.Helper()
	f, err := os.Open("testdata/recorded.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]float64
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var series []float64
		for _, word := range strings.Fields(lines.Text())[1:] {
			v, err := strconv.ParseFloat(word, 64)
			if err != nil {
				t.Fatal(err)
			}
			series = append(series, v)
		}
		all = append(all, series)
	}
	if lines.Err() != nil || len(all) == 0 {
		t.Fatal("no series were recorded", lines.Err())
	}
	return func(r *rand.Rand) noise {
		series := all[r.IntN(len(all))]
		at, left := 0, 0
		return func(time.Time) float64 {
			if left == 0 {
				at, left = r.IntN(len(series)-60), 60
			}
			at, left = at+1, left-1
			return series[at]
		}
	}
}

// drawn returns a log-uniform value.
func drawn(r *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, r.Float64())
}

func poisson(r *rand.Rand, mean float64) float64 {
	n, left := 0.0, r.ExpFloat64()
	for left < mean {
		n++
		left += r.ExpFloat64()
	}
	return n
}

// minutes returns n readings of a series from start on.
func minutes(next noise, start time.Time, n int) metric.Series {
	s := metric.Series{At: make([]time.Time, n), Values: make([]float64, n)}
	for i := range n {
		s.At[i] = start.Add(time.Duration(i) * time.Minute)
		s.Values[i] = next(s.At[i])
	}
	return s
}

// part returns the readings from index i to index j.
func part(s metric.Series, i, j int) metric.Series {
	return metric.Series{Labels: s.Labels, At: s.At[i:j], Values: s.Values[i:j]}
}
