package reproduce

import (
	"strings"
	"testing"
)

const good = `
title: Cups
citation: somewhere
tables:
  - id: t
    title: Cups by kettle
    kind: table
    experiment: e1
    metric: seconds
    columns: [{name: plain, arm: plain}, {name: tee, arm: tdx}, {name: overhead, arm: cost, tee: tdx}]
    rows:
      - {name: small, case: size=1, unit: us, published: ["1,000", "1,500", "50%"]}
      - {name: large, case: size=2, published: ["n/a", "1..2", ""], reason: hardware}
`

// TestLoad: a good file, and what is wrong with bad ones.
func TestLoad(t *testing.T) {
	s, err := Load("cups", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Tables[0].Cell(0, 1); a.Experiment != "e1" || a.Case != "size=1" || a.Metric != "seconds" || a.Arm != "tdx" {
		t.Errorf("the cell is answered by %+v", a)
	}
	if a := s.Tables[0].Cell(1, 0); a.Reason != Hardware || a.Experiment != "" {
		t.Errorf("a reason does not take the place of the experiment: %+v", a)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown unit":       {"unit: us", "unit: furlongs", `row "small", column "plain": unknown unit "furlongs"`},
		"unknown key":        {"kind: table", "kinds: table", "field kinds not found"},
		"unknown reason":     {"reason: hardware", "reason: later", `reason "later": want hardware`},
		"a cell short":       {`"1,500", "50%"`, `"1,500"`, `row "small" has 2 values for 3 columns`},
		"answered twice":     {"name: large", "name: small", `two rows are called "small"`},
		"no answer":          {"    experiment: e1\n", "", "want experiment and metric, or a reason"},
		"whose cost":         {", tee: tdx", "", "a cost wants tee"},
		"a ratio's cost":     {"case: size=1,", "case: size=1, relative: size=2,", "relative divides values of one arm"},
		"no arm":             {"plain, arm: plain", "plain", "want an arm"},
		"two tables":         {"tables:\n", "tables:\n  - {id: t, title: x, kind: table, columns: [{name: a}], rows: [{name: r, published: [x], reason: not asked}]}\n", `two tables have the id "t"`},
		"a second document":  {"title: Cups\n", "title: Cups\n---\n", "a second document"},
		"a cell of no table": {"unit: us,", "unit: us, cells: {pot: {arm: plain}},", `no column is called "pot"`},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(good, c.old) {
				t.Fatalf("the good file has no %q", c.old)
			}
			_, err := Load("cups", []byte(strings.Replace(good, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "source cups") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := Load("cups", nil); err == nil || !strings.Contains(err.Error(), "the file is empty") {
		t.Errorf("an empty file: %v", err)
	}
}

// TestValue: what is drawn of printed values, in base units.
func TestValue(t *testing.T) {
	for _, c := range []struct {
		printed, unit string
		want          float64
		ok            bool
	}{
		{"1,000", "us", 1e-3, true},
		{"50%", "%", 0.5, true},
		{"+19.03%", "%", 0.1903, true},
		{"1..2", "x", 0, false},
		{"n/a", "s", 0, false},
		{"<0.17%", "%", 0, false},
		{"11,132", "req/s", 11132, true},
	} {
		t.Run(c.printed, func(t *testing.T) {
			if v, ok := value(c.printed, c.unit); ok != c.ok || v < c.want*0.999999 || v > c.want*1.000001 {
				t.Errorf("%s %s is %v, %v; want %v, %v", c.printed, c.unit, v, ok, c.want, c.ok)
			}
		})
	}
}
