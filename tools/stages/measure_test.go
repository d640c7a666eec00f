package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/measured"
)

func TestMeasurements(t *testing.T) {
	for comment, want := range map[string]string{
		"// TestBudget: an adversary cannot push the cost over 1.5 % of\n// a core. Its estimates hold.\n": "an adversary cannot push the cost over 1.5 % of a core",
		"// TestX measures it.\n": " measures it",
	} {
		t.Run(comment, func(t *testing.T) {
			name, _, _ := strings.Cut(strings.Fields(comment)[1], ":")
			if got := sentence(comment, name); got != want {
				t.Errorf("sentence(%q) = %q", comment, got)
			}
		})
	}
	m := measurement{name: "TestX", promise: "it is small"}
	row := `    x_test.go:1: measured: {"Promise":"it is cheap","Unit":"s","Value":1,"Low":0.5,"High":2,"Bound":3,"Values":7,"Answer":"holds"}` + "\n"
	for _, c := range []struct {
		said string
		t    *tally
		want measured.Answer
	}{
		{row, &tally{passed: 1}, measured.Holds},
		{"", &tally{passed: 1}, measured.Holds},
		{"", &tally{failed: []outcome{{"TestX", "    x_test.go:9: too much\n"}}}, measured.CannotTell},
		{"", &tally{skipped: []outcome{{"TestX", "no SGX here"}}}, measured.CannotTell},
	} {
		t.Run(c.said, func(t *testing.T) {
			rows := m.judge(c.said, c.t)
			if len(rows) != 1 || rows[0].Answer != c.want || (rows[0].Need == "") != (c.want == measured.Holds) {
				t.Errorf("judge(%q, %+v) = %+v", c.said, c.t, rows)
			}
		})
	}
}

// TestDryRun: a measurement that only keeps a tool working promises nothing.
func TestDryRun(t *testing.T) {
	if rows := (measurement{name: "TestOnce", promise: "runs briefly"}).judge("", &tally{passed: 1}); rows != nil {
		t.Errorf("a dry run has the rows %+v", rows)
	}
}

// A row that was measured takes the place of its measurement's old ones; the others stay, and those of a measurement that
// is no more go.
func TestTable(t *testing.T) {
	low, high := 0.5, 2.0
	made := func(by, promise string) tableRow {
		return tableRow{by, row(measured.Row{Promise: promise, Unit: "s", Value: 1, Low: &low, High: &high, Bound: 3, Values: 7, Answer: measured.Holds}, by, "idle")}
	}
	list := []measurement{{name: "TestX", pkg: "./p"}, {name: "TestX", pkg: "./q"}, {name: "b/c.measure.js"}, {name: "TestNew", pkg: "./p"}}
	old := []tableRow{made("p TestX", "it is cheap"), made("p TestX", "it | is small"), made("p TestGone", "it was"), made("q TestX", "it is exact"), made("b/c.measure.js", "it is near")}
	page := string(render(old))
	if want := "| it is cheap | p TestX | 1 s | [0.5, 2] | 3 s | holds | idle |\n"; !strings.Contains(page, want) {
		t.Errorf("no %q in\n%s", want, page)
	}
	read := readRows([]byte(page))
	if !slices.Equal(read, old) {
		t.Errorf("read back is\n%q, want\n%q", read, old)
	}
	if none := readRows(nil); len(none) != 0 {
		t.Errorf("without a table there is %q", none)
	}
	for _, c := range []struct {
		now  []tableRow
		want []tableRow
	}{
		{nil, []tableRow{old[0], old[1], old[3], old[4]}},
		{[]tableRow{made("p TestX", "it is cheaper")}, []tableRow{made("p TestX", "it is cheaper"), old[3], old[4]}},
		{[]tableRow{made("p TestNew", "it is new")}, []tableRow{old[0], old[1], old[3], old[4], made("p TestNew", "it is new")}},
	} {
		if got := merge(list, read, c.now); !slices.Equal(got, c.want) {
			t.Errorf("merge(%q) = %q, want %q", c.now, got, c.want)
		}
	}
}

// The measurements are found, and each has a sentence.
func TestEveryMeasurementHasASentence(t *testing.T) {
	t.Chdir("../..")
	list, err := measurements()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("e2e/*_measure_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	found, names := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		if _, twice := names[m.String()]; twice {
			t.Errorf("two measurements are called %s", m)
		}
		names[m.String()] = true
		found[m.name] = true
		if m.promise == "" {
			t.Errorf("%s has no sentence", m)
		}
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range testFunc.FindAllSubmatch(b, -1) {
			if name := string(f[1]); !found[name] {
				t.Errorf("%s: %s is not found: it needs a comment", file, name)
			}
		}
	}
}
