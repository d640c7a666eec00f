package cost

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/analysis"
	"github.com/teescope/teescope/internal/store/storetest"
)

var update = flag.Bool("update", false, "write what Explain says into the fixtures")

// TestExplain compares trees. A fixture is testdata/NAME.txtar and holds
//
//	load   series in PromQL test notation, the first column at 0
//	ask    process=NAME, from=, to= as times since then, instance= and per=request
//	want   the tree in words, or why there is none
func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range a.Files {
				parts[f.Name] = string(f.Data)
			}
			db := storetest.Load(t, parts["load"])
			q := asked(t, parts["ask"])
			tree, err := Explain(t.Context(), db, q)
			got := show(tree)
			if err != nil {
				got = "refused: " + err.Error() + "\n"
				if refusal := new(Refusal); !errors.As(err, &refusal) {
					t.Errorf("%v is no refusal", err)
				}
			} else {
				checkTree(t, db, tree)
			}
			if *update {
				a.Files = []txtar.File{{Name: "load", Data: []byte(parts["load"])}, {Name: "ask", Data: []byte(parts["ask"])}, {Name: "want", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != parts["want"] {
				t.Errorf("the tree is\n%s\nwant\n%s\n(-update accepts it)", got, parts["want"])
			}
		})
	}
}

func asked(t *testing.T, text string) (q Question) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		at := func() time.Time {
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			return time.Unix(0, 0).UTC().Add(d)
		}
		switch key {
		case "process":
			q.Process = value
		case "instance":
			q.Instance = value
		case "from":
			q.From = at()
		case "to":
			q.To = at()
		case "per":
			q.PerRequest = value == "request"
		default:
			t.Fatalf("what is %q?", word)
		}
	}
	return q
}

// checkTree holds for every tree: times add up to what was measured, shares to 1,
// values lie within their intervals, and evidence is what its query gives.
func checkTree(t *testing.T, db analysis.Querier, tree Tree) {
	t.Helper()
	all, shares := tree.Unexplained.Value, tree.UnexplainedShare.Value
	var walk func(rows []Row)
	walk = func(rows []Row) {
		for _, row := range rows {
			for _, a := range []Amount{row.Time, row.Share} {
				if !(a.Low <= a.Value && a.Value <= a.High) || a.Low < 0 {
					t.Errorf("%s: %v is no interval", row.ID, a)
				}
			}
			if row.Evidence == nil {
				t.Errorf("%s: evidence is null", row.ID)
			}
			for _, ev := range row.Evidence {
				points, err := db.Query(t.Context(), ev.Expr, tree.To)
				if err != nil || len(points) != 1 || math.Abs(points[0].Value-ev.Value) > 1e-9*math.Abs(ev.Value) {
					t.Errorf("%s: evidence %q: %s gives %v, %v; want %v", row.ID, ev.Text, ev.Expr, points, err, ev.Value)
				}
			}
			walk(row.Rows)
		}
	}
	walk(tree.Rows)
	seen := map[string]bool{}
	for _, row := range tree.Rows {
		all += row.Time.Value
		shares += row.Share.Value
		if seen[row.ID] {
			t.Errorf("two rows are %s", row.ID)
		}
		seen[row.ID] = true
		if (row.Cause == "") != (row.Advice == "") {
			t.Errorf("%s: cause %q, advice %q", row.ID, row.Cause, row.Advice)
		}
	}
	if math.Abs(all-tree.Active.Value) > 1e-9*all || tree.Active.Value > 0 && math.Abs(shares-1) > 1e-9 {
		t.Errorf("rows and rest are %v of %v, their shares %v", all, tree.Active.Value, shares)
	}
	for _, c := range tree.Causes() {
		if c.Rule == "" || c.Advice == "" || (len(c.Rows) == 0) != (c.Rule == "pressure") || !strings.HasSuffix(c.Title, ".") || c.Share.Value < leastShare {
			t.Errorf("cause %+v", c)
		}
	}
}

func show(t Tree) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, %s to %s, per %s\n", t.Subject, t.Instance, t.From.Format(time.TimeOnly), t.To.Format(time.TimeOnly), t.Per)
	if t.Requests != nil {
		fmt.Fprintf(&b, "%s: %.6g %s\n  %s\n", t.Requests.Text, t.Requests.Value, t.Requests.Unit, t.Requests.Expr)
	}
	fmt.Fprintf(&b, "active %s, queued %s\n", amount(t.Active), amount(t.Queued))
	var walk func(indent string, rows []Row)
	walk = func(indent string, rows []Row) {
		for _, r := range rows {
			fmt.Fprintf(&b, "%s%s: %s: time %s, share %s\n", indent, r.ID, r.Title, amount(r.Time), amount(r.Share))
			if r.Rate != nil {
				fmt.Fprintf(&b, "%s  rate %s", indent, amount(*r.Rate))
				if r.Unit != nil {
					fmt.Fprintf(&b, ", each %s, %s: %s", amount(r.Unit.Amount), r.Unit.Origin, r.Unit.How)
				}
				b.WriteByte('\n')
			}
			if r.Cause != "" {
				fmt.Fprintf(&b, "%s  cause %s\n", indent, r.Cause)
			}
			for _, ev := range r.Evidence {
				fmt.Fprintf(&b, "%s  - %s: %.6g %s\n%s    %s\n", indent, ev.Text, ev.Value, ev.Unit, indent, ev.Expr)
			}
			walk(indent+"  ", r.Rows)
		}
	}
	walk("", t.Rows)
	fmt.Fprintf(&b, "unexplained %s, share %s\n", amount(t.Unexplained), amount(t.UnexplainedShare))
	for _, c := range t.Causes() {
		fmt.Fprintf(&b, "cause: %s: %s [%s]\n", c.Rule, c.Title, strings.Join(c.Rows, ", "))
	}
	for _, c := range t.Checks {
		fmt.Fprintf(&b, "check: %s: explained %.4g, measured %.4g, holds %v\n", c.Text, c.Explained, c.Measured, c.Holds)
	}
	for _, s := range t.Blind {
		fmt.Fprintf(&b, "blind: %s\n", s)
	}
	return b.String()
}

// amount leaves out what is nothing but rounding.
func amount(a Amount) string {
	near := func(v float64) float64 { return math.Round(v*1e12)/1e12 + 0 }
	return fmt.Sprintf("%.4g [%.4g, %.4g]", near(a.Value), near(a.Low), near(a.High))
}

// TestLongest: a window is bounded on both sides.
func TestLongest(t *testing.T) {
	now := time.Unix(1e6, 0)
	for window, ok := range map[time.Duration]bool{0: false, -time.Hour: false, 5 * time.Second: false, 10 * time.Second: true, Longest: true, Longest + time.Second: false} {
		err := Question{Process: "x", From: now.Add(-window), To: now}.check()
		if (err == nil) != ok {
			t.Errorf("%v: %v", window, err)
		}
	}
}

func TestAmounts(t *testing.T) {
	a, b := Amount{10, 9, 12}, Amount{5, 4, 6}
	for name, c := range map[string]struct{ got, want Amount }{
		"sum":        {a.plus(b), around(15, math.Sqrt(2), math.Sqrt(5))},
		"difference": {a.minus(b), around(5, math.Sqrt(2), math.Sqrt(5))},
		"product":    {a.times(b), around(50, math.Hypot(5, 10), math.Hypot(10, 10))},
		"quotient":   {a.over(b), around(2, math.Hypot(1, 2)/5, math.Hypot(2, 2)/5)},
		"scaled":     {a.scaled(2), Amount{20, 18, 24}},
		"no samples": {counted(0, 0.5), Amount{0, 0, z * z / 2}},
		"samples":    {counted(100, 0.01), Amount{1, 0.822_2, 1.216_2}},
		"share":      {exactly(1).shareBeside(exactly(3)), exactly(0.25)},
		"wide share": {Amount{2, 0, 6}.shareBeside(exactly(2)), Amount{0.5, 0, 0.75}},
		"nothing":    {Amount{}.shareBeside(Amount{}), Amount{}},
		"too much":   {exactly(3).shareBeside(exactly(-1)), Amount{1.5, 1.5, 1.5}},
	} {
		for _, d := range []float64{c.got.Value - c.want.Value, c.got.Low - c.want.Low, c.got.High - c.want.High} {
			if math.Abs(d) > 1e-4 {
				t.Errorf("%s is %v, want %v", name, c.got, c.want)
			}
		}
	}
	if !a.overlaps(Amount{12, 11.9, 13}) || a.overlaps(Amount{13, 12.1, 14}) {
		t.Error("overlap")
	}
}

func TestDiff(t *testing.T) {
	before := Tree{Per: "second", Rows: []Row{
		{ID: "own", Title: "own computing", Time: Amount{0.5, 0.4, 0.6}},
		{ID: SmallCalls, Title: "2 other system calls", Time: exactly(0.003), Rows: []Row{
			{ID: "syscall:read", Time: exactly(0.001)}, {ID: "syscall:write", Time: exactly(0.002)}}},
	}, Unexplained: Amount{0.01, -0.1, 0.1}}
	after := Tree{Per: "second", Rows: []Row{
		{ID: "syscall:read", Title: "read", Time: Amount{0.3, 0.2, 0.4}},
		{ID: "own", Title: "own computing", Time: Amount{0.45, 0.35, 0.55}},
	}, Unexplained: Amount{0.02, -0.1, 0.1}}
	got, err := Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range got {
		lines = append(lines, fmt.Sprintf("%s %.3f %.3f %+.3f %v", d.ID, d.Before.Value, d.After.Value, d.Change.Value, d.Clear))
	}
	want := []string{"syscall:read 0.001 0.300 +0.299 true", "own 0.500 0.450 -0.050 false", "syscalls 0.002 0.000 -0.002 true", "unexplained 0.010 0.020 +0.010 false"}
	if !slices.Equal(lines, want) {
		t.Errorf("differences are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	// Of a call that is in one tree alone the clock saw nothing in the other: what few samples take is no change.
	before.Unseen.CPU, after.Unseen.CPU = counted(0, 0.08), counted(0, 0.08)
	after.Rows = append(after.Rows, Row{ID: "interrupts", Part: Kernel, Time: counted(1, 0.08)}, Row{ID: "faults", Part: Kernel, Time: counted(12, 0.08)})
	if got, err = Diff(before, after); err != nil {
		t.Fatal(err)
	}
	for _, d := range got {
		if want := d.ID == "faults" || d.ID == "syscall:read"; d.Clear != want {
			t.Errorf("%s from %v to %v: clear %v, want %v", d.ID, d.Before, d.After, d.Clear, want)
		}
	}
	before.Unseen = Unseen{}
	if _, err := Diff(before, after); err == nil {
		t.Error("a tree of prices was compared with one of samples")
	}
	before.Unseen, after.Per = after.Unseen, "request"
	if _, err := Diff(before, after); err == nil {
		t.Error("trees per second and per request were compared")
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"redis", "redis-server", 0}, {"NGINX", "nginx", 0}, {"ngnix", "nginx", 2}, {"", "x", 0}, {"abc", "axc", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
