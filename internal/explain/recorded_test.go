package explain_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

var recordAnew = flag.Bool("record", false, "record the fixtures of TestRecorded anew: run the programs beside bin/teescope (record_test.go)")

// scenario is a run of workloads/causes/causes.c, whose raw readings are a fixture.
type scenario struct {
	name    string
	shares  string // requested of the program
	seconds int
	busy    bool // more busy loops run beside it than there are CPUs, so it waits for one
}

// Running is sampled 97 times a second and waiting 20 times, so a share is known to a point after
// half a minute, that of a wait later.
var scenarios = []scenario{
	{name: "storm", shares: "storm=0.45", seconds: 30},
	{name: "memory", shares: "memory=0.4", seconds: 30},
	{name: "lock", shares: "lock=0.3", seconds: 120},
	{name: "lock-half", shares: "lock=0.5", seconds: 60},
	{name: "handshake", shares: "handshake=0.4", seconds: 30},
	{name: "storm-memory", shares: "storm=0.4,memory=0.2", seconds: 30},
	{name: "handshake-storm", shares: "handshake=0.4,storm=0.25", seconds: 30},
	{name: "starved", shares: "storm=0.3,memory=0.2", seconds: 60, busy: true},
}

// account is the program's own, by its own clocks.
type account struct {
	ActiveSeconds float64            `json:"active_seconds"`
	QueuedSeconds float64            `json:"queued_seconds"`
	Shares        map[string]float64 `json:"shares"` // of the active seconds
}

// truth returns the share of each cause in the time in which the program had work, as an explanation states it.
func (a account) truth() map[string]float64 {
	all := a.ActiveSeconds + a.QueuedSeconds
	share := func(name string) float64 { return a.Shares[name] * a.ActiveSeconds / all }
	return map[string]float64{
		"syscall_storm": share("storm"), "lock_contention": share("lock"), explain.Queueing: a.QueuedSeconds / all,
		// What comes before and after a handshake is no part of it, nor is giving pages back.
		"page_fault_storm": share("memory_inside"), "tls_handshakes": share("handshake_inside"),
	}
}

const (
	// near is how far a share may be from the program's own account.
	near = 0.05
	// mostUnexplained is the largest share of the time that an explanation may leave.
	mostUnexplained = 0.2
	// leastQueueing is the share from which waiting for a CPU is a cause.
	leastQueueing = 0.25
)

// TestRecorded explains real runs of programs that spend known shares of their time in known
// causes, from the raw readings that a monitor made of them. A fixture is
// testdata/recorded/NAME.txtar and holds
//
//	readings  all raw samples of the series that the explanation asks for; see readings
//	ask       as in TestExplain, in seconds since the hour of the recording
//	account   what the program printed about itself
//	said      what the explanation said from the monitor's store, when this was recorded
//
// `make build && go test ./internal/explain -run TestRecorded -record -v` records them anew
// (Linux, as root, with cc and OpenSSL's headers); TestRecorded/NAME only that one.
func TestRecorded(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			file := filepath.Join("testdata", "recorded", s.name+".txtar")
			if *recordAnew {
				s.record(t, file)
			}
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range a.Files {
				parts[f.Name] = string(f.Data)
			}
			var own account
			if err := json.Unmarshal([]byte(parts["account"]), &own); err != nil {
				t.Fatal(err)
			}
			db := playBack(t, parts["readings"])
			tree, err := known.Window(t.Context(), db, asked(t, parts["ask"]))
			if err != nil {
				t.Fatal(err)
			}
			checkTree(t, db, tree)
			got := said(tree)
			if *update {
				for i := range a.Files {
					if a.Files[i].Name == "said" {
						a.Files[i].Data = []byte(got)
					}
				}
				golden.Write(t, file, txtar.Format(a))
			} else {
				same(t, got, parts["said"])
			}
			own.judge(t, tree)
		})
	}
}

// judge compares an explanation with the program's own account.
func (a account) judge(t *testing.T, tree explain.Tree) {
	t.Helper()
	truth, found := a.truth(), known.Found(tree)
	// The first cause, and the first that is the program's own: waiting for a CPU is of the rest of the machine.
	for _, aside := range []string{"", explain.Queueing} {
		largest, first := 0.0, ""
		for rule, share := range truth {
			if rule != aside && (rule != explain.Queueing || share >= leastQueueing) {
				largest = max(largest, share)
			}
		}
		for _, c := range found {
			if first == "" && c.Rule != aside {
				first = c.Rule
			}
		}
		if first == "" || truth[first] < largest-near {
			t.Errorf("the first cause but for %q is %q of %+v, and in truth %v", aside, first, found, truth)
		}
	}
	named := map[string]explain.Amount{}
	for _, r := range tree.Rows { // a cause of less than 5 % is a row, and no finding
		rule := r.Cause
		if r.ID == "queue" {
			rule = explain.Queueing
		}
		n := named[rule]
		named[rule] = explain.Amount{Value: n.Value + r.Share.Value, Low: n.Low + r.Share.Low, High: n.High + r.Share.High}
	}
	for _, rule := range slices.Sorted(maps.Keys(truth)) {
		n, share := named[rule], truth[rule]
		t.Logf("%s: %.1f %% [%.1f, %.1f], in truth %.1f %%", rule, 100*n.Value, 100*n.Low, 100*n.High, 100*share)
		switch by := n.Value - share; {
		case rule == explain.Queueing && share < leastQueueing:
			// Too little to be a cause.
			if !(n.Low <= share && share <= n.High) {
				t.Errorf("%s is said to take %.1f %% [%.1f, %.1f], in truth %.1f %%", rule, 100*n.Value, 100*n.Low, 100*n.High, 100*share)
			}
		case math.Abs(by) > near:
			t.Errorf("%s is said to take %.1f %%, which is %+.1f points off", rule, 100*n.Value, 100*by)
		}
	}
	if u := tree.UnexplainedShare.Value; math.Abs(u) > mostUnexplained {
		t.Errorf("%.1f %% is not explained", 100*u)
	}
	if len(tree.Checks) == 0 {
		t.Error("the explanation has no checks")
	}
	for _, c := range tree.Checks {
		if !c.Holds {
			t.Errorf("a check fails: %s: explained %.4g, measured %.4g cores", c.Text, c.Explained, c.Measured)
		}
	}
}

// said writes what an explanation states: causes and rows in its order, each with its share, the
// cores it is and what one event costs, with their intervals.
func said(tree explain.Tree) string {
	var b strings.Builder
	line := func(what string, a explain.Amount) {
		fmt.Fprintf(&b, "%s %.6g %.6g %.6g\n", what, a.Value, a.Low, a.High)
	}
	for _, c := range known.Found(tree) {
		line("cause "+c.Rule, c.Share)
	}
	line("active", tree.Active)
	var walk func(indent string, rows []explain.Row)
	walk = func(indent string, rows []explain.Row) {
		for _, r := range rows {
			line(indent+"share "+r.ID, r.Share)
			if r.Unit != nil {
				line(indent+"  each "+string(r.Unit.Origin), r.Unit.Amount)
			}
			walk(indent+"  ", r.Rows)
		}
	}
	walk("", tree.Rows)
	line("unexplained", tree.UnexplainedShare)
	for _, c := range tree.Checks {
		fmt.Fprintf(&b, "check %v %.6g %.6g\n", c.Holds, c.Explained, c.Measured)
	}
	return b.String()
}

// same asserts the same words in the same order, and the same numbers: shares to 0.1 point, others
// to 0.1 %.
func same(t *testing.T, got, want string) {
	t.Helper()
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) {
			t.Errorf("%d lines, want %d:\n%s\nwant\n%s", len(a), len(b), got, want)
			return
		}
		g, w := strings.Fields(a[i]), strings.Fields(b[i])
		equal := len(g) == len(w)
		for j := 0; equal && j < len(g); j++ {
			x, err := strconv.ParseFloat(g[j], 64)
			y, err2 := strconv.ParseFloat(w[j], 64)
			switch {
			case err != nil || err2 != nil:
				equal = g[j] == w[j]
			case w[0] == "share" || w[0] == "cause" || w[0] == "unexplained":
				equal = math.Abs(x-y) <= 0.001
			default:
				equal = math.Abs(x-y) <= 0.001*math.Abs(y)
			}
		}
		if !equal {
			t.Errorf("line %d is %q, want %q", i+1, a[i], b[i])
		}
	}
}

// recorded is a store with the readings of a fixture. It answers as the monitor's store does.
type recorded struct {
	engine *store.Engine
	data   storage.Queryable
}

func (r recorded) Query(ctx context.Context, expr string, at time.Time) ([]metric.Point, error) {
	return store.Eval(ctx, r.engine, r.data, expr, at)
}

// playBack loads readings into a store, each at its own time. They are text:
//
//	at 1800.013 1805.012 ...
//	tee_syscalls_total{...,syscall="read"} _ 17 23x4 ...
//
// The first line has the times of the columns in seconds, "_" is a reading without the series, and
// 23x4 is four times 23.
func playBack(t *testing.T, readings string) recorded {
	t.Helper()
	data := promqltest.LoadedStorage(t, "")
	engine := store.NewEngine(store.DefaultEngineOptions(), nil, nil)
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := data.Close(); err != nil {
			t.Error(err)
		}
	})
	lines := strings.Split(strings.TrimSpace(readings), "\n")
	var at []int64
	for _, word := range strings.Fields(lines[0])[1:] {
		s, err := strconv.ParseFloat(word, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, int64(math.Round(s*1000)))
	}
	values := make([][]string, len(lines)) // of a series, by column
	series := make([]labels.Labels, len(lines))
	for i, line := range lines[1:] {
		end := strings.LastIndex(line, "}") + 1
		var err error
		if series[i], err = parser.NewParser(parser.Options{}).ParseMetric(line[:end]); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, word := range strings.Fields(line[end:]) {
			value, times, _ := strings.Cut(word, "x")
			n, err := strconv.Atoi(times)
			if err != nil {
				n = 1
			}
			for range n {
				values[i] = append(values[i], value)
			}
		}
		if len(values[i]) != len(at) {
			t.Fatalf("%s has %d values, want %d", line[:end], len(values[i]), len(at))
		}
	}
	for column, ms := range at {
		app := data.Appender(t.Context())
		for i := range lines[1:] {
			if values[i][column] == "_" {
				continue
			}
			v, err := strconv.ParseFloat(values[i][column], 64)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := app.Append(0, series[i], ms, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return recorded{engine, data}
}
