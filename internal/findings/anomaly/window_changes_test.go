package anomaly

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// An hour of readings, 5 s apart, with an event after 50 minutes.
var (
	theHour    = Window{time.Unix(0, 0), time.Unix(3000, 0)}
	tenMinutes = Window{time.Unix(3000, 0), time.Unix(3600, 0)}
)

// steps returns two runs of a counter in the test notation: before events a reading for 50 minutes, then after.
func steps(before, after int) string {
	return fmt.Sprintf("0+%dx600 %d+%dx119", before, 600*before+after, after)
}

func TestBetween(t *testing.T) {
	for name, tt := range map[string]struct {
		load  string
		o     Options
		want  []string // the sentences, in order
		alike int      // of the first
		since bool     // the first has a moment
	}{
		"a call": {
			load: `tee_syscalls_total{process="redis-server",syscall="futex"} ` + steps(200, 20500) + `
				tee_syscalls_total{process="redis-server",syscall="read"} ` + steps(5000, 5000) + `
				tee_syscalls_total{process="nginx",syscall="write"} ` + steps(900, 910),
			want:  []string{"redis-server: futex syscalls 40 -> 4,100/s"},
			since: true,
		},
		"nothing": {load: `tee_syscalls_total{process="redis-server",syscall="read"} ` + steps(5000, 5000)},
		"little beside much": {
			load: `tee_syscalls_total{process="redis-server",syscall="read"} ` + steps(500000, 500000) + `
				tee_syscalls_total{process="cron",syscall="read"} ` + steps(50, 500),
		},
		"many calls of one process": {
			load: `tee_syscalls_total{process="redis-server",syscall="futex"} ` + steps(200, 20500) + `
				tee_syscalls_total{process="redis-server",syscall="read"} ` + steps(500, 50000) + `
				tee_syscalls_total{process="redis-server",syscall="write"} ` + steps(500, 30000),
			want: []string{"redis-server: futex syscalls 40 -> 4,100/s"}, alike: 2, since: true,
		},
		"a process chosen": {
			load: `tee_syscalls_total{process="redis-server",syscall="futex"} ` + steps(200, 20500) + `
				tee_syscalls_total{process="redis-server",syscall="read"} ` + steps(500, 50000) + `
				tee_syscalls_total{process="nginx",syscall="write"} ` + steps(200, 20500) + `
				node_load1 1x600 9x119`,
			o:    Options{Process: "edis"},
			want: []string{"redis-server: futex syscalls 40 -> 4,100/s", "redis-server: read syscalls 100 -> 10,000/s"}, since: true,
		},
		"four processes": {
			load: `tee_context_switches_total{process="a",kind="voluntary"} ` + steps(200, 20500) + `
				tee_context_switches_total{process="b",kind="voluntary"} ` + steps(200, 20400) + `
				tee_context_switches_total{process="c",kind="voluntary"} ` + steps(200, 20300) + `
				tee_context_switches_total{process="d",kind="voluntary"} ` + steps(200, 20200),
			want: []string{"a: voluntary context switches 40 -> 4,100/s", "b: voluntary context switches 40 -> 4,080/s", "c: voluntary context switches 40 -> 4,060/s"}, alike: 1, since: true,
		},
		"a process that came, and one that went": {
			load: `tee_page_faults_total{process="new",space="user",cause="write"} _x601 0+5000x119
				tee_page_faults_total{process="old",space="user",cause="write"} 0+5000x600 stale`,
			want: []string{"new: write user page faults: none -> 1,000/s", "old: write user page faults: 1,000/s -> none"},
		},
		"processes that started and stopped": { // the counters of the one that stopped go on
			load: `tee_process_cpu_seconds_total{process="batch"} _x601 0+2x119
				tee_page_faults_total{process="batch",space="user",cause="write"} _x601 0+5000x119
				tee_process_cpu_seconds_total{process="db"} ` + steps(1, 1) + `
				tee_syscalls_total{process="db",syscall="futex"} ` + steps(200, 20500) + `
				tee_process_cpu_seconds_total{process="old"} 0+4x600 2400x119
				tee_process_cpu_seconds_total{process="idle"} 0+1x600 600x119
				tee_process_cpu_seconds_total{process="link"} 0+1x600 600x119
				tee_process_start_time_seconds{process="batch"} _x601 3005x119
				tee_process_start_time_seconds{process="db"} 0x719
				tee_process_start_time_seconds{process="idle"} 0x719
				tee_process_start_time_seconds{process="link"} _x100 2990 _x610 3590
				tee_process_start_time_seconds{process="old"} 0x600 stale
				teescope_source_up{source="switches"} 1x719`,
			want: []string{"old stopped: it used 80 % of a core", "batch started: it uses 40 % of a core", "db: futex syscalls 40 -> 4,100/s",
				"idle: process cpu 0.2 -> 0 cores", "link: process cpu 0.2 -> 0 cores"}, since: true,
		},
		"one that started late": { // its mean is that of its life, not of the window
			load: `tee_process_cpu_seconds_total{process="batch"} _x707 0+5x12
				tee_process_start_time_seconds{process="batch"} _x707 3535x12
				tee_process_start_time_seconds{process="db"} 0x719
				teescope_source_up{source="switches"} 1x719`,
			want: []string{"batch started: it uses 100 % of a core"},
		},
		"an idle one that wakes": { // it has lived since before the window, although no reading had it
			load: `tee_process_cpu_seconds_total{process="cronjobd"} _x601 0+2x119
				tee_process_start_time_seconds{process="cronjobd"} _x601 2000x119
				tee_process_start_time_seconds{process="db"} 0x719
				teescope_source_up{source="switches"} 1x719`,
			want: []string{"cronjobd: process cpu: none -> 0.4 cores"},
		},
		"a machine that was added": {
			load: `tee_process_cpu_seconds_total{process="batch",instance="b"} _x601 0+2x119
				tee_process_start_time_seconds{process="batch",instance="b"} _x601 3005x119
				tee_process_start_time_seconds{process="db",instance="a"} 0x719
				teescope_source_up{source="switches",instance="a"} 1x719
				teescope_source_up{source="switches",instance="b"} _x601 1x119`,
			want: []string{"batch: process cpu: none -> 0.4 cores"},
		},
		"a machine that was lost": { // some readings into the later window
			load: `tee_process_cpu_seconds_total{process="batch",instance="b"} 0+2x670 stale
				tee_process_start_time_seconds{process="batch",instance="b"} 0x600 stale
				tee_process_start_time_seconds{process="db",instance="b"} 0x670 stale
				tee_process_start_time_seconds{process="db",instance="a"} 0x719
				teescope_source_up{source="switches",instance="a"} 1x719
				teescope_source_up{source="switches",instance="b"} 1x670 stale`,
		},
		"an idle one after a restart of the monitor": { // it is counted no more, and has no start
			load: `tee_process_cpu_seconds_total{process="cronjobd"} 0+2x600 stale
				tee_process_start_time_seconds{process="cronjobd"} 0x600 stale
				tee_process_start_time_seconds{process="db"} 0x719
				teescope_source_up{source="switches"} 1x719`,
			want: []string{"cronjobd: process cpu: 0.4 cores -> none"},
		},
		"processors": {
			load: `node_cpu_seconds_total{cpu="0",mode="user",instance="vm"} 0+1x600 604+4x119
				node_cpu_seconds_total{cpu="1",mode="user",instance="vm"} 0+1x600 604+4x119`,
			want: []string{"machine: user cpu 0.4 -> 1.6 cores"}, since: true,
		},
		"a level": {
			load: `node_memory_MemAvailable_bytes{instance="vm"} 2147483648x600 1073741824x119`,
			want: []string{"machine: memory MemAvailable 2 -> 1 GiB"}, since: true,
		},
		"a counter without the name": {
			load: `node_vmstat_pgfault{instance="vm"} ` + steps(500, 50000),
			want: []string{"machine: vmstat pgfault 100 -> 10,000/s"}, since: true,
		},
		"a counter without the name that goes on": {load: `node_vmstat_pgfault{instance="vm"} ` + steps(500, 500)},
		"a histogram": {
			load: `tee_runqueue_latency_seconds_sum{process="redis"} 0+0.01x600 6.5+0.5x119
				tee_runqueue_latency_seconds_count{process="redis"} 0+1000x719
				tee_runqueue_latency_seconds_bucket{process="redis",le="0.001"} ` + steps(10, 10000),
			want: []string{"redis: runqueue latency 10 -> 500 µs"}, since: true,
		},
		"what is recorded": {load: `process:tee_syscalls:rate1m{process="redis"} 1x600 1000x119
			up 1x719`},
		"two machines": {
			load: `node_load1{instance="vm1"} 1x600 9x119
				node_load1{instance="vm2"} 1x600 8x119`,
			want: []string{"machine vm1: load1 1 -> 9", "machine vm2: load1 1 -> 8"}, since: true,
		},
		"the monitor itself": {
			load: `teescope_source_errors_total{source="x"} ` + steps(0, 90000) + `
				node_load1{instance="vm"} 5x600 9x119`,
			want: []string{"machine: load1 5 -> 9", "machine: x teescope source errors 0 -> 18,000/s"}, since: true,
		},
		"a hostile name": {
			load: `tee_syscalls_total{process="<b>\x1b[31m\n\"",syscall="futex"} ` + steps(200, 20500),
			want: []string{"<b>\x1b[31m\n\": futex syscalls 40 -> 4,100/s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := storetest.Load(t, "load 5s\n"+tt.load)
			got, err := CompareWindows(t.Context(), st, theHour, tenMinutes, tt.o)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, c := range got.Changes {
				said = append(said, c.Text)
				if c.Score < LeastScore || c.Before == nil && c.After == nil {
					t.Errorf("%q: %+v", c.Text, c)
				}
				if points, err := st.Query(t.Context(), c.Expr, tenMinutes.To); err != nil || c.After != nil && len(points) != 1 {
					t.Errorf("%s gives %v, %v", c.Expr, points, err)
				}
			}
			if !slices.Equal(said, tt.want) {
				t.Fatalf("got %q, want %q", said, tt.want)
			}
			if len(said) > 0 && got.Changes[0].Alike != tt.alike {
				t.Errorf("%d alike, want %d", got.Changes[0].Alike, tt.alike)
			}
			if tt.since {
				if s := got.Changes[0].Since; s == nil || s.Sub(tenMinutes.From).Abs() > 30*time.Second {
					t.Errorf("since %v, want about %v", s, tenMinutes.From)
				}
			}
		})
	}
}

// TestBetweenIsQuiet: of noisy series in which nothing happens, hardly any are listed.
func TestBetweenIsQuiet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var load strings.Builder
	load.WriteString("load 5s\n")
	const series = 300
	for i := range series {
		rate, sum := drawn(r, 1, 1e5), 0.0
		fmt.Fprintf(&load, "  tee_syscalls_total{process=\"p%d\",syscall=\"read\"}", i)
		for range 721 {
			sum += rate * r.ExpFloat64()
			fmt.Fprintf(&load, " %.0f", sum)
		}
		load.WriteString("\n")
	}
	got, err := CompareWindows(t.Context(), storetest.Load(t, load.String()), theHour, tenMinutes, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Compared != series || len(got.Changes) > series/100 {
		t.Errorf("of %d series %d are listed as changed: %+v", got.Compared, len(got.Changes), got.Changes)
	}
}

func TestBetweenRefuses(t *testing.T) {
	st := storetest.Load(t, "load 5s\n  up 1x719\n  tee_syscalls_total{process=\"p\",job=\"j\",instance=\"i\"} 0+1x719")
	short := Window{time.Unix(0, 0), time.Unix(30, 0)}
	for name, tt := range map[string]struct {
		before, after Window
		want          string
	}{
		"a short window":    {theHour, short, "want at least 1 min"},
		"a window reversed": {Window{theHour.To, theHour.From}, tenMinutes, "want at least 1 min"},
		"nothing there":     {Window{time.Unix(-7200, 0), time.Unix(-3600, 0)}, tenMinutes, "no samples in the window before"},
		"nothing after":     {theHour, Window{time.Unix(7200, 0), time.Unix(7800, 0)}, "no samples in the window after"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range []Options{{}, {Process: "p"}, {Machine: query.Machine{Job: "j", Instance: "i"}}} {
				if _, err := CompareWindows(t.Context(), st, tt.before, tt.after, o); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%s, %+v: %v, want %q", name, o, err, tt.want)
				}
			}
		})
	}
	if got, err := CompareWindows(t.Context(), st, theHour, tenMinutes, Options{Process: "other"}); err != nil || got.Compared != 0 {
		t.Errorf("a process that is not there: %+v, %v", got, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := CompareWindows(stopped, st, theHour, tenMinutes, Options{}); !errors.Is(err, context.Canceled) && (err == nil || !strings.Contains(err.Error(), "cancel")) {
		t.Errorf("stopped: %v", err)
	}
}

// late is a store whose context ends after some queries.
type late struct {
	*storetest.Store
	left *int
}

func (l late) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	if *l.left--; *l.left < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Store.Query(ctx, expr, at)
}

// TestBetweenInTime: at the deadline the changes found so far are returned.
func TestBetweenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which the queries of the first take no time
		st := storetest.Load(t, "load 5s\n  a_total{process=\"p\"} "+steps(200, 20500)+"\n  b_total{process=\"p\"} "+steps(200, 20500))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		left := 3 // that of the first reading, and those of the first metric
		got, err := CompareWindows(ctx, late{Store: st, left: &left}, theHour, tenMinutes, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Changes) != 1 || len(got.Unable) != 1 || got.Unable[0] != "1 of 2 metrics, from b_total on: the time limit was reached" {
			t.Errorf("got %+v, unable %q", got.Changes, got.Unable)
		}
	})
}

// TestBetweenOnAYoungMonitor: the windows share the time that has readings, and a monitor without two minutes of them
// says when to ask again.
func TestBetweenOnAYoungMonitor(t *testing.T) {
	load := func(first int) *storetest.Store { // the event is halfway
		n := (720 - first) / 2
		return storetest.Load(t, fmt.Sprintf("load 5s\ntee_context_switches_total{process=\"a\",kind=\"voluntary\"} _x%d 0+200x%d %d+20500x%d", first, n, 200*n+20500, n-1))
	}
	got, err := CompareWindows(t.Context(), load(660), theHour, tenMinutes, Options{})
	if err != nil || len(got.Changes) != 1 || got.Changes[0].Text != "a: voluntary context switches 40 -> 4,100/s" {
		t.Fatalf("%+v, %v", got, err)
	}
	if from, middle := got.Before.From.Unix(), got.After.From.Unix(); from < 3300 || from > 3310 || got.Before.To.Unix() != middle || middle < 3450 || middle > 3455 || !strings.Contains(got.Note, "00:55:0") {
		t.Errorf("%+v and %+v, %q", got.Before, got.After, got.Note)
	}
	got, err = CompareWindows(t.Context(), load(480), theHour, tenMinutes, Options{})
	if err != nil || !got.Before.To.Equal(theHour.To) || got.Before.From.Unix() < 2400 || got.After != tenMinutes || got.Note == "" {
		t.Errorf("ten minutes before: %+v and %+v, %q, %v", got.Before, got.After, got.Note, err)
	}
	// The first time that it answers, it compares.
	end := Window{time.Unix(3540, 0), time.Unix(3600, 0)}
	got, err = CompareWindows(t.Context(), load(696), Window{time.Unix(3480, 0), end.From}, end, Options{})
	if err != nil || got.Compared != 1 || len(got.Changes) != 1 {
		t.Errorf("windows of a minute: %+v, %v", got, err)
	}
	if _, err = CompareWindows(t.Context(), load(708), theHour, tenMinutes, Options{}); err == nil || !strings.Contains(err.Error(), "ask again in 1 min") {
		t.Errorf("after a minute: %v", err)
	}
}

// TestSourceOfLives: the source that is asked whether it works has the starts and the CPU time.
func TestSourceOfLives(t *testing.T) {
	found := map[string]string{}
	for _, s := range sources.All {
		for _, d := range s.Metrics {
			found[d.Name] = s.Name
		}
	}
	if found[query.StartTime] != sourceOfLives || found[cpuOfProcess] != sourceOfLives {
		t.Errorf("%s is of source %q, %s of %q", query.StartTime, found[query.StartTime], cpuOfProcess, found[cpuOfProcess])
	}
}

// BenchmarkBetween compares 5,000 series of an hour at the default interval.
func BenchmarkBetween(b *testing.B) {
	var load strings.Builder
	load.WriteString("load 5s\n")
	for p := range 250 {
		for c := range 20 {
			fmt.Fprintf(&load, "  tee_syscalls_total{process=\"p%d\",syscall=\"c%d\"} 0+%dx719\n", p, c, 100*(p+c))
		}
	}
	st := storetest.Load(b, load.String())
	b.ReportAllocs()
	for b.Loop() {
		got, err := CompareWindows(b.Context(), st, theHour, tenMinutes, Options{})
		if err != nil || got.Compared != 5000 {
			b.Fatal(got.Compared, err)
		}
	}
}
