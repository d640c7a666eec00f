package store_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

func openMemory(t testing.TB, o store.Options) *store.Memory {
	t.Helper()
	m, err := store.OpenMemory(o)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// TestMemory: it answers what a store answers, keeps no more than its retention, and leaves no file.
func TestMemory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	o := options(t)
	o.Retention = 15 * time.Minute
	m, whole := openMemory(t, o), open(t, o)
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Second)
	end := begin
	for i := range 3 * 3600 / 5 {
		end = begin.Add(time.Duration(i) * 5 * time.Second)
		round := []metric.Sample{call("redis", "read", float64(100*i)), call(fmt.Sprintf("short-%d", i/100), "read", float64(i))}
		must(t, m.Append(end, round))
		must(t, whole.Append(end, round))
	}
	for _, expr := range []string{`rate(tee_syscalls_total{process="redis"}[5m])`, `count(tee_syscalls_total)`, `count(count_over_time(tee_syscalls_total[10m]))`} {
		t.Run(expr, func(t *testing.T) {
			got, err := m.Query(t.Context(), expr, end)
			must(t, err)
			want := query(t, whole, expr, end)
			if len(got) != 1 || len(want) != 1 || got[0].Value != want[0].Value {
				t.Errorf("%s is %v, in a store %v", expr, got, want)
			}
		})
	}
	lines, err := m.QueryRange(t.Context(), `tee_syscalls_total{process="redis"}`, end.Add(-time.Minute), end, 5*time.Second)
	if err != nil || len(lines) != 1 || len(lines[0].Values) != 13 {
		t.Errorf("a minute of readings is %v, %v", lines, err)
	}
	old, err := m.Query(t.Context(), `tee_syscalls_total`, begin.Add(time.Hour))
	if err != nil || len(old) != 0 {
		t.Errorf("after two hours it still has %v, %v", old, err)
	}
	series := 0.0
	m.Collect(func(s metric.Sample) {
		if s.Desc.Name == "teescope_store_series" {
			series = s.Value
		}
	})
	if series == 0 || series > 6 { // redis and what began in the last 17 minutes
		t.Errorf("it has %g series", series)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestMemoryClock: after the clock went back, it goes on with what is new.
func TestMemoryClock(t *testing.T) {
	m := openMemory(t, options(t))
	now := time.Now()
	for i := range 10 {
		must(t, m.Append(now.Add(time.Duration(i)*5*time.Second), []metric.Sample{call("redis", "read", float64(i))}))
	}
	back := now.Add(-time.Hour)
	for i := range 3 {
		must(t, m.Append(back.Add(time.Duration(i)*5*time.Second), []metric.Sample{call("redis", "read", float64(20+i))}))
	}
	got, err := m.Query(t.Context(), `tee_syscalls_total`, back.Add(10*time.Second))
	if err != nil || len(got) != 1 || got[0].Value != 22 {
		t.Errorf("it has %v, %v", got, err)
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}

// TestMemoryClosed: a closed memory says so.
func TestMemoryClosed(t *testing.T) {
	m := openMemory(t, options(t))
	must(t, m.Append(time.Now(), []metric.Sample{call("redis", "read", 1)}))
	must(t, m.Close())
	if err := m.Append(time.Now(), []metric.Sample{call("redis", "read", 2)}); err == nil {
		t.Error("a closed memory takes samples")
	}
	if _, err := m.Query(t.Context(), "tee_syscalls_total", time.Now()); err == nil {
		t.Error("a closed memory answers")
	}
}
