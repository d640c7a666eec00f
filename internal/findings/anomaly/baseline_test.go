package anomaly

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

var usual = Sensitivity{Ratio: 2, Floor: 1000, Score: Score}

const perDay = 24 * 60

// windowAt returns the last ten minutes before reading i.
func windowAt(s metric.Series, i int) metric.Series { return part(s, i-10, i) }

func TestLearn(t *testing.T) {
	steady := func(time.Time) float64 { return 1000 }
	negative := minutes(steady, monday, perDay)
	negative.Values[7] = -1
	infinite := minutes(steady, monday, perDay)
	infinite.Values[7] = math.Inf(1)
	sparse := metric.Series{}
	for i := range 3 * perDay / 4 {
		sparse.At, sparse.Values = append(sparse.At, monday.Add(time.Duration(i)*4*time.Minute)), append(sparse.Values, 1)
	}
	for name, tt := range map[string]struct {
		history metric.Series
		s       Sensitivity
		want    string
		short   bool
	}{
		"nothing":         {metric.Series{}, usual, "0s of readings, less than a day", true},
		"an hour":         {minutes(steady, monday, 60), usual, "1h0m0s of readings", true},
		"a day":           {minutes(steady, monday, perDay), usual, "", false},
		"sparse":          {sparse, usual, "less than a day", true},
		"negative":        {negative, usual, "value -1", false},
		"infinite":        {infinite, usual, "value +Inf", false},
		"no sensitivity":  {minutes(steady, monday, perDay), Sensitivity{}, "want more than 1, 0 and 0", false},
		"not a threshold": {minutes(steady, monday, perDay), Sensitivity{Ratio: math.NaN(), Floor: 1, Score: 1}, "ratio NaN", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Learn(tt.history, tt.s)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrShort) != tt.short {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestJudge puts one event at the end of a history of some days.
func TestJudge(t *testing.T) {
	lognormal := func(level func(at time.Time) float64) func(*rand.Rand) noise {
		return func(r *rand.Rand) noise {
			return func(at time.Time) float64 { return level(at) * math.Exp(0.1*r.NormFloat64()) }
		}
	}
	flat := lognormal(func(time.Time) float64 { return 10_000 })
	office := lognormal(func(at time.Time) float64 {
		if h := at.Hour(); h >= 8 && h < 18 {
			return 50_000
		}
		return 2_000
	})
	weekday := lognormal(func(at time.Time) float64 {
		if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
			return 1_000
		}
		return 50_000
	})
	zero := func(*rand.Rand) noise { return func(time.Time) float64 { return 0 } }
	times := func(f float64) func(float64) float64 { return func(v float64) float64 { return v * f } }
	is := func(v float64) func(float64) float64 { return func(float64) float64 { return v } }
	for name, tt := range map[string]struct {
		series  func(*rand.Rand) noise
		history int // minutes
		event   func(float64) float64
		lasts   int // minutes
		want    bool
		up      bool
	}{
		"nothing":                     {flat, 7 * perDay, times(1), 20, false, false},
		"five times":                  {flat, 7 * perDay, times(5), 20, true, true},
		"a fifth":                     {flat, 7 * perDay, times(0.2), 20, true, false},
		"gone":                        {flat, 7 * perDay, is(0), 20, true, false},
		"half as much again":          {flat, 7 * perDay, times(1.5), 20, false, false},
		"only for six minutes":        {flat, 7 * perDay, times(50), 6, false, false},
		"a day of history":            {flat, perDay, times(12), 20, true, true},
		"little after a day":          {flat, perDay, times(4), 20, false, false},
		"for three hours":             {flat, 7 * perDay, times(5), 180, true, true},
		"for a day and more":          {flat, 7 * perDay, times(5), perDay + 60, false, false},
		"from nothing":                {zero, 7 * perDay, is(50_000), 20, true, true},
		"from nothing to little":      {zero, 7 * perDay, is(500), 20, false, false},
		"the day's level by night":    {office, 7*perDay + 3*60, is(50_000), 20, true, true},
		"the day's level by day":      {office, 7*perDay + 12*60, is(50_000), 20, false, false},
		"the week's level on Sunday":  {weekday, 20 * perDay, is(50_000), 20, true, true},
		"the week's level on Tuesday": {weekday, 15 * perDay, is(50_000), 20, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			all := minutes(tt.series(r), monday, tt.history+tt.lasts)
			for i := range tt.lasts {
				all.Values[tt.history+i] = tt.event(all.Values[tt.history+i])
			}
			end := len(all.Values)
			b, err := Learn(part(all, 0, end-10), usual)
			if err != nil {
				t.Fatal(err)
			}
			d, ok := b.Judge(windowAt(all, end))
			if ok != tt.want {
				t.Fatalf("found %v %+v, want %v", ok, d, tt.want)
			}
			if !ok {
				return
			}
			began := all.At[tt.history]
			if off := d.Since.Sub(began).Abs(); off > 10*time.Minute {
				t.Errorf("since %s, want about %s", d.Since, began)
			}
			if (d.Score > 0) != tt.up || (d.Held > d.Usual) != tt.up || !(d.Low <= d.Usual && d.Usual <= d.High) {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// TestJudgeNeedsReadings: a window with gaps and an hour without history give no result.
func TestJudgeNeedsReadings(t *testing.T) {
	history := minutes(func(time.Time) float64 { return 1000 }, monday, 4*perDay)
	b, err := Learn(history, usual)
	if err != nil {
		t.Fatal(err)
	}
	high := minutes(func(time.Time) float64 { return 1e6 }, monday.Add(4*day), 10)
	if _, ok := b.Judge(part(high, 0, 4)); ok {
		t.Error("four readings were enough")
	}
	if _, ok := b.Judge(high); !ok {
		t.Error("ten readings were not enough")
	}
	var daytime metric.Series
	for i, at := range history.At {
		if h := at.Hour(); h >= 6 {
			daytime.At, daytime.Values = append(daytime.At, at), append(daytime.Values, history.Values[i])
		}
	}
	if b, err = Learn(daytime, usual); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Judge(high); ok {
		t.Error("an hour of the day without any history has a baseline")
	}
}

// TestSoak judges every minute of an uneventful day, after histories of several lengths: at most one series-day in
// twenty may have a finding. The floor is a hundredth of the rule's, which would exclude small series.
func TestSoak(t *testing.T) {
	sensitive := Sensitivity{Ratio: usual.Ratio, Floor: usual.Floor / 100, Score: usual.Score}
	const series = 25
	quiet := maps.Clone(kinds)
	quiet["recorded"] = recorded(t)
	for _, days := range []int{1, 3, 7, 14} {
		all, wrong := 0, 0
		for k, kind := range slices.Sorted(maps.Keys(quiet)) {
			bad := 0
			for i := range series {
				r := rand.New(rand.NewPCG(uint64(days), uint64(1000*k+i)))
				if found(t, minutes(quiet[kind](r), monday, (days+1)*perDay), days, sensitive) {
					bad++
				}
			}
			all, wrong = all+series, wrong+bad
			if bad > 0 {
				t.Logf("%2d days of history, %s: %d of %d", days, kind, bad, series)
			}
		}
		t.Logf("%2d days of history: %d of %d series-days, %.1f %%", days, wrong, all, 100*float64(wrong)/float64(all))
		if 20*wrong > all {
			t.Errorf("after %d days %d of %d series-days have a false finding, want at most 5 %%", days, wrong, all)
		}
	}
}

// found judges each minute of the day after the history.
func found(t *testing.T, s metric.Series, days int, how Sensitivity) bool {
	t.Helper()
	b, err := Learn(part(s, 0, days*perDay), how)
	if err != nil {
		t.Fatal(err)
	}
	for i := days*perDay + 10; i <= len(s.Values); i++ {
		if _, ok := b.Judge(windowAt(s, i)); ok {
			return true
		}
	}
	return false
}

// TestPower: the size of a level change that is found in noise without bursts.
func TestPower(t *testing.T) {
	const series = 40
	for _, tt := range []struct {
		days  int
		times float64
		least int // of series
	}{{1, 16, 38}, {3, 10, 38}, {7, 6, 38}, {14, 6, 38}, {14, 1. / 8, 38}} {
		seen := 0
		for i := range series {
			r := rand.New(rand.NewPCG(uint64(tt.days), uint64(i)))
			level, sd, x := drawn(r, 5000, 1e5), 0.05+0.2*r.Float64(), 0.0
			s := minutes(func(time.Time) float64 {
				x = 0.7*x + math.Sqrt(1-0.49)*sd*r.NormFloat64()
				return level * math.Exp(x)
			}, monday, tt.days*perDay+20)
			for j := tt.days * perDay; j < len(s.Values); j++ {
				s.Values[j] *= tt.times
			}
			if found(t, s, tt.days, usual) {
				seen++
			}
		}
		t.Logf("%2d days of history, %g times: found in %d of %d", tt.days, tt.times, seen, series)
		if seen < tt.least {
			t.Errorf("after %d days a level of %g times is found in %d of %d series, want %d", tt.days, tt.times, seen, series, tt.least)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	s := minutes(kinds["daily cycle"](rand.New(rand.NewPCG(1, 1))), monday, 15*perDay)
	for b.Loop() {
		if _, err := Learn(s, usual); err != nil {
			b.Fatal(err)
		}
	}
}
