package explain_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/store/storetest"
)

// known is the catalog of these tests.
var known = &explain.Catalog{Prices: prices.Catalog(), Causes: causes.All}

var update = flag.Bool("update", false, "write what Explain says into the fixtures")

// TestExplain compares trees. A fixture is testdata/NAME.txtar and holds
//
//	load   series in PromQL test notation, the first column at 0
//	ask    process=NAME, from=, to= as times since then, instance=, per=request and least=
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
			tree, err := known.Window(t.Context(), db, q)
			got := show(tree)
			if err != nil {
				got = "refused: " + err.Error() + "\n"
				if refusal := new(explain.Refusal); !errors.As(err, &refusal) {
					t.Errorf("%v is no refusal", err)
				}
			} else {
				checkTree(t, db, tree)
			}
			if *update {
				a.Files = []txtar.File{{Name: "load", Data: []byte(parts["load"])}, {Name: "ask", Data: []byte(parts["ask"])}, {Name: "want", Data: []byte(got)}}
				golden.Write(t, file, txtar.Format(a))
			} else if got != parts["want"] {
				t.Errorf("the tree is\n%s\nwant\n%s\n(-update accepts it)", got, parts["want"])
			}
		})
	}
}

func asked(t *testing.T, text string) (q explain.Question) {
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
		case "least":
			d, err := time.ParseDuration(value)
			if err != nil {
				t.Fatal(err)
			}
			q.Least = d
		case "per":
			q.PerRequest = value == "request"
		default:
			t.Fatalf("what is %q?", word)
		}
	}
	return q
}

// checkTree asserts what holds for every tree: times add up to the measured time, shares to 1, values lie within
// their intervals, and evidence is the result of its query.
func checkTree(t *testing.T, db query.Querier, tree explain.Tree) {
	t.Helper()
	all, shares := tree.Unexplained.Value, tree.UnexplainedShare.Value
	var walk func(rows []explain.Row)
	walk = func(rows []explain.Row) {
		for _, row := range rows {
			for _, a := range []explain.Amount{row.Time, row.Share} {
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
	walk(tree.Uncosted)
	if m := tree.Machine; m != nil {
		walk(m.Rows)
		for _, row := range m.Rows {
			if !row.TEE || (row.Unit == nil && row.Time.Value == 0) != (row.Time.Value == 0) || row.Unit == nil && row.Time.Value == 0 && row.Reason == "" {
				t.Errorf("row of the machine %+v", row)
			}
		}
	}
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
	for _, c := range known.Found(tree) {
		if c.Rule == "" || c.Advice == "" || len(c.Rows) == 0 || !strings.HasSuffix(c.Title, ".") || c.Share.Value < 0.05 {
			t.Errorf("cause %+v", c)
		}
	}
}

func show(t explain.Tree) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s, %s to %s, per %s\n", t.Subject, t.Instance, t.From.Format(time.TimeOnly), t.To.Format(time.TimeOnly), t.Per)
	if t.Requests != nil {
		fmt.Fprintf(&b, "%s: %.6g %s\n  %s\n", t.Requests.Text, t.Requests.Value, t.Requests.Unit, t.Requests.Expr)
	}
	fmt.Fprintf(&b, "active %s\n", amount(t.Active))
	var walk func(indent string, rows []explain.Row)
	walk = func(indent string, rows []explain.Row) {
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
			if r.Reason != "" {
				fmt.Fprintf(&b, "%s  (%s)\n", indent, r.Reason)
			}
			for _, ev := range r.Evidence {
				fmt.Fprintf(&b, "%s  - %s: %.6g %s\n%s    %s\n", indent, ev.Text, ev.Value, ev.Unit, indent, ev.Expr)
			}
			walk(indent+"  ", r.Rows)
		}
	}
	walk("", t.Rows)
	if len(t.Uncosted) > 0 {
		b.WriteString("without a share:\n")
		walk("  ", t.Uncosted)
	}
	if t.TEE != nil {
		fmt.Fprintf(&b, "tee: %s %s\n", amount(t.TEE.Share), t.TEE.Title)
	}
	if t.Machine != nil {
		fmt.Fprintf(&b, "machine, %.4g cores in use:\n", t.Machine.Busy)
		walk("  ", t.Machine.Rows)
	}
	fmt.Fprintf(&b, "unexplained %s, share %s\n", amount(t.Unexplained), amount(t.UnexplainedShare))
	for _, c := range known.Found(t) {
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

// amount prints an amount without pure rounding errors.
func amount(a explain.Amount) string {
	near := func(v float64) float64 { return math.Round(v*1e12)/1e12 + 0 }
	return fmt.Sprintf("%.4g [%.4g, %.4g]", near(a.Value), near(a.Low), near(a.High))
}
