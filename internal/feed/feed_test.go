package feed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// source evaluates to known lines and notes what it was asked.
type source struct {
	mu    sync.Mutex
	asked []string
	notes int
	value func(name string, t time.Time) float64
	names []string
	err   error
	slow  func() // what an evaluation waits for; may be nil
}

func (s *source) evaluate(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]metric.Line, []string, error) {
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprintf("%s %d-%d/%v", expr, from.Unix(), to.Unix(), step))
	err := s.err
	s.mu.Unlock()
	if s.slow != nil {
		s.slow()
	}
	if err != nil || ctx.Err() != nil {
		return nil, nil, errors.Join(err, ctx.Err())
	}
	var out []metric.Line
	for _, name := range s.names {
		l := metric.Line{Labels: map[string]string{"process": name}}
		for t := from; !t.After(to); t = t.Add(max(step, 1)) {
			l.Values = append(l.Values, s.value(name, t))
			if step == 0 {
				break
			}
		}
		if slices.ContainsFunc(l.Values, isNumber) {
			out = append(out, l)
		}
	}
	return out, []string{"a warning"}, nil
}

func (s *source) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

func (s *source) feed() *Feed {
	return New(Options{Evaluate: s.evaluate, Now: time.Now, Notes: func(context.Context, string, time.Time, time.Time) []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.notes++
		return []string{"a note"}
	}})
}

// one asks a single query.
func one(t *testing.T, f *Feed, q Query) (Answer, error) {
	t.Helper()
	var got Answer
	var failed error
	n := 0
	if err := f.AnswerQueries(t.Context(), []Query{q}, func(_ int, a Answer, err error) { got, failed, n = a, err, n+1 }, func() {}); err != nil || n != 1 {
		t.Fatalf("%d answers, %v", n, err)
	}
	return got, failed
}

// seconds is the value of each line at a time: its own seconds, which tells steps apart.
func seconds(_ string, t time.Time) float64 { return float64(t.Unix() % 100000) }

const step = 5 * time.Second

// window is the last minutes, on steps.
func window(minutes int) Query {
	to := time.Now().Truncate(step)
	return Query{Expr: "e", From: to.Add(-time.Duration(minutes) * time.Minute), To: to, Step: step}
}

// right fails unless a has the value of every step from since to the end of q.
func right(t *testing.T, q Query, a Answer, lines int) {
	t.Helper()
	if len(a.Lines) != lines {
		t.Fatalf("%d lines, want %d", len(a.Lines), lines)
	}
	for _, l := range a.Lines {
		if want := int(q.last().Sub(a.Since)/q.Step) + 1; len(l.Values) != want {
			t.Fatalf("%d values since %v, want %d", len(l.Values), a.Since, want)
		}
		for i, v := range l.Values {
			if at := a.Since.Add(time.Duration(i) * q.Step); v != seconds("", at) {
				t.Fatalf("%v at %v, step %d of %d", v, at, i, len(l.Values))
			}
		}
	}
}

func TestOnlyNewSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a", "b"}}
		f := s.feed()
		defer f.Close()
		q := window(15)
		a, err := one(t, f, q)
		if err != nil || !a.Since.Equal(q.From) || !slices.Equal(a.Warnings, []string{"a warning", "a note"}) {
			t.Fatalf("%+v, %v", a, err)
		}
		right(t, q, a, 2)
		s.calls()
		for range 20 {
			time.Sleep(step)
			last := q.To
			q = window(15)
			q.Since = last
			if a, err = one(t, f, q); err != nil || !a.Since.Equal(last) {
				t.Fatalf("%+v, %v", a.Since, err)
			}
			right(t, q, a, 2)
			// Five steps: the new one, and those that may have changed.
			if got, want := s.calls(), fmt.Sprintf("e %d-%d/5s", q.To.Add(-4*step).Unix(), q.To.Unix()); len(got) != 1 || got[0] != want {
				t.Fatalf("evaluated %v, want %s", got, want)
			}
		}
		q.Since = time.Time{}
		if a, err = one(t, f, q); err != nil || len(s.calls()) != 0 {
			t.Fatalf("a second page within the same step made an evaluation, %v", err)
		}
		right(t, q, a, 2)
		if s.notes > 5 {
			t.Errorf("%d notes in 100 s", s.notes)
		}
	})
}

func TestOneEvaluationForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a"}, slow: func() { time.Sleep(time.Second) }}
		f := s.feed()
		defer f.Close()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				q := window(5)
				a, err := one(t, f, q)
				if err != nil {
					t.Error(err)
				}
				right(t, q, a, 1)
			})
		}
		all.Wait()
		if got := s.calls(); len(got) != 1 {
			t.Errorf("%d evaluations: %v", len(got), got)
		}
	})
}

// TestGoesOn: who leaves ends no evaluation; the next one gets its answer.
func TestGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a"}, slow: func() { time.Sleep(3 * time.Second) }}
		f := s.feed()
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q := window(5)
		if err := f.AnswerQueries(ctx, []Query{q}, func(int, Answer, error) { t.Error("answered") }, func() {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := one(t, f, q); err != nil || len(s.calls()) != 1 {
			t.Fatalf("asked again, %v", err)
		}
	})
}

// TestWindows: whatever windows follow each other, each has all its steps.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a"}}
		f := s.feed()
		defer f.Close()
		for i, minutes := range []int{5, 15, 5, 60, 5, 59, 61, 1} {
			q := window(minutes)
			a, err := one(t, f, q)
			if err != nil {
				t.Fatal(err)
			}
			right(t, q, a, 1)
			past := q
			past.From, past.To = q.From.Add(-3*time.Hour), q.To.Add(-3*time.Hour)
			if a, err = one(t, f, past); err != nil {
				t.Fatal(err)
			}
			right(t, past, a, 1)
			time.Sleep(time.Duration(i) * 7 * time.Second)
		}
		// A page that is open for hours does not keep all of them.
		for range 3000 {
			time.Sleep(step)
			if _, err := one(t, f, window(15)); err != nil {
				t.Fatal(err)
			}
		}
		size := 0
		for _, k := range f.books.Lock().kept {
			size += k.size()
		}
		f.books.Unlock()
		if size > 2*keptSteps {
			t.Errorf("%d values are kept", size)
		}
	})
}

// TestLateSamples: a step that was evaluated too early is evaluated again.
func TestLateSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := time.Now().Truncate(step)
		there := false
		s := &source{names: []string{"a"}, value: func(_ string, at time.Time) float64 {
			if at.Equal(late) && !there {
				return math.NaN()
			}
			return seconds("", at)
		}}
		f := s.feed()
		defer f.Close()
		a, err := one(t, f, window(5))
		if v := a.Lines[0].Values; err != nil || isNumber(v[len(v)-1]) {
			t.Fatalf("%v, %v", v, err)
		}
		there = true
		time.Sleep(2 * step)
		q := window(5)
		if a, err = one(t, f, q); err != nil {
			t.Fatal(err)
		}
		right(t, q, a, 1)
	})
}

func TestTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := map[string]float64{"a": 1, "b": 7, "c": 3, "d": 2, "idle": 0}
		s := &source{names: []string{"a", "b", "c", "d", "idle"}, value: func(name string, at time.Time) float64 {
			if name == "a" && at.Unix()%10 == 0 {
				return math.NaN()
			}
			return values[name]
		}}
		f := s.feed()
		defer f.Close()
		q := window(5)
		q.Top = 2
		a, err := one(t, f, q)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range a.Lines {
			names = append(names, l.Labels["process"])
		}
		if !slices.Equal(names, []string{"b", "c"}) || a.Folded != 2 {
			t.Errorf("%v and %d more", names, a.Folded)
		}
		for i, v := range a.Rest.Values {
			want := 3.0
			if q.From.Add(time.Duration(i)*step).Unix()%10 == 0 {
				want = 2 // what is not known adds nothing
			}
			if v != want {
				t.Fatalf("the rest at step %d is %v, want %v", i, v, want)
			}
		}
		// A page that knows these lines gets what is new of them, one that knows others all.
		q.Since, q.Known = q.To, a.Set
		if a, err = one(t, f, q); err != nil || !a.Since.Equal(q.To) || len(a.Lines[0].Values) != 1 || len(a.Rest.Values) != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		q.Known = "another"
		if a, err = one(t, f, q); err != nil || !a.Since.Equal(q.From) || len(a.Lines[0].Values) != 61 || len(a.Rest.Values) != 61 {
			t.Errorf("%+v, %v", a, err)
		}
		q.Top = 3 // one name alone needs no line of others
		if a, err = one(t, f, q); err != nil || len(a.Lines) != 4 || a.Rest != nil || a.Folded != 0 {
			t.Errorf("%d lines, %d folded, %v", len(a.Lines), a.Folded, err)
		}
		if got := s.calls(); len(got) != 1 {
			t.Errorf("another ranking made evaluations: %v", got)
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{names: []string{"a"}, value: seconds, err: errors.New("no such function")}
		f := s.feed()
		defer f.Close()
		if _, err := one(t, f, window(5)); err == nil || err.Error() != "no such function" {
			t.Fatal(err)
		}
		s.err = nil
		time.Sleep(time.Millisecond)
		q := window(5)
		a, err := one(t, f, q)
		if err != nil {
			t.Fatal("an error is remembered: ", err)
		}
		right(t, q, a, 1)
	})
}

// TestMoment: a query at one time keeps values that are no numbers.
func TestMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{names: []string{"a"}, value: func(string, time.Time) float64 { return math.Inf(1) }}
		f := s.feed()
		defer f.Close()
		now := time.Now()
		for range 3 {
			a, err := one(t, f, Query{Expr: "e", From: now, To: now})
			if want := []metric.Line{{Labels: map[string]string{"process": "a"}, Values: []float64{math.Inf(1)}}}; err != nil || !reflect.DeepEqual(a.Lines, want) {
				t.Errorf("%v, %v", a.Lines, err)
			}
		}
		if got := s.calls(); len(got) != 1 {
			t.Errorf("evaluations: %v", got)
		}
	})
}

// TestBounded: however many queries there are, what is kept is bounded.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds}
		for i := range 400 {
			s.names = append(s.names, fmt.Sprint(i))
		}
		f := s.feed()
		defer f.Close()
		for i := range 60 {
			q := window(15)
			q.Expr = fmt.Sprint("e", i)
			if _, err := one(t, f, q); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step)
		}
		size := 0
		books := f.books.Lock().kept
		for _, k := range books {
			size += k.size()
		}
		f.books.Unlock()
		if largest := 400 * 181; size > maxValues+largest {
			t.Errorf("%d values in %d queries", size, len(books))
		}
	})
}

// TestClockWentBack: what was evaluated by a clock that was ahead is evaluated again.
func TestClockWentBack(t *testing.T) {
	now := time.Unix(10_000, 0)
	s := &source{names: []string{"a"}, value: func(string, time.Time) float64 { return 1 }}
	f := New(Options{Evaluate: s.evaluate, Now: func() time.Time { return now }})
	defer f.Close()
	ahead := now.Add(10 * time.Minute)
	now = ahead
	q := Query{Expr: "x", From: now.Add(-time.Hour), To: now, Step: 15 * time.Second}
	one(t, f, q)
	now = ahead.Add(-10 * time.Minute)
	for range 2 { // steps are kept for a while
		one(t, f, Query{Expr: "x", From: ahead.Add(-time.Hour), To: now, Step: 15 * time.Second})
	}
	if got := s.calls(); len(got) != 2 {
		t.Errorf("evaluated %q, want again once", got)
	}
}

// TestReserve: the memory of an answer is reserved before it is made and given back once it is delivered; without it the query is
// refused, and answered when it is asked again.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a", "b"}}
		var held int64
		full := errors.New("full")
		refuse := false
		f := New(Options{Evaluate: s.evaluate, Now: time.Now, Reserve: func(n int64) (func(), error) {
			if refuse {
				return nil, full
			}
			held += n
			return func() { held -= n }, nil
		}})
		defer f.Close()
		q := window(5)
		if err := f.AnswerQueries(t.Context(), []Query{q}, func(_ int, a Answer, err error) {
			if want := int64(2 * 61 * 8); err != nil || held < want {
				t.Errorf("%d bytes are reserved, want at least %d; %v", held, want, err)
			}
		}, func() {}); err != nil || held != 0 {
			t.Fatalf("%d bytes are reserved afterwards, %v", held, err)
		}
		refuse = true
		if _, err := one(t, f, q); !errors.Is(err, full) {
			t.Error(err)
		}
		refuse = false
		a, err := one(t, f, q)
		if err != nil {
			t.Fatal(err)
		}
		right(t, q, a, 2)
	})
}

// TestReserveEndsInPanic: the memory of an answer is given back also where making or delivering it panics.
func TestReserveEndsInPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds, names: []string{"a", "b"}}
		var held int64
		f := New(Options{Evaluate: s.evaluate, Now: time.Now, Reserve: func(n int64) (func(), error) {
			held += n
			return func() { held -= n }, nil
		}})
		defer f.Close()
		q := window(5)
		panics := func(do func()) (did bool) {
			defer func() { did = recover() != nil }()
			do()
			return false
		}
		if !panics(func() {
			_ = f.AnswerQueries(t.Context(), []Query{q}, func(int, Answer, error) { panic("delivering") }, func() {})
		}) || held != 0 {
			t.Errorf("delivering: %d bytes are reserved", held)
		}
		k := f.books.Lock().kept[q.key()]
		k.names = nil // the largest cannot be found
		f.books.Unlock()
		q.Top = 1
		if !panics(func() { _, _, _ = f.reserved(k, q) }) || held != 0 {
			t.Errorf("making: %d bytes are reserved", held)
		}
	})
}

// TestBurst: very many large queries in one call keep no more than others, although all were asked just now.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{value: seconds}
		for i := range 1000 {
			s.names = append(s.names, fmt.Sprint(i))
		}
		f := s.feed()
		defer f.Close()
		var all []Query
		for i := range 40 {
			q := window(20)
			q.Expr = fmt.Sprint("e", i)
			all = append(all, q)
		}
		answered := 0
		if err := f.AnswerQueries(t.Context(), all, func(i int, a Answer, err error) {
			if err != nil {
				t.Error(err)
			}
			right(t, all[i], a, 1000)
			answered++
		}, func() {}); err != nil || answered != len(all) {
			t.Fatalf("%d answers, %v", answered, err)
		}
		size := 0
		for _, k := range f.books.Lock().kept {
			size += k.size()
		}
		f.books.Unlock()
		if most := 2*maxValues + atOnce*1000*241; size > most {
			t.Errorf("%d values are kept, want at most %d", size, most)
		}
	})
}
