package claims

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// verdict checks a table and returns its findings and what is not decided, each on a line of its own.
func verdict(t *testing.T, data string) (findings, undecided string) {
	t.Helper()
	tab, err := Parse([]byte(data))
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	r := tab.Check()
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, string(f.Kind)+" "+strings.Join(f.Follows, " | ")+" "+strings.Join(f.Readings, " | "))
	}
	return strings.Join(lines, "\n"), strings.Join(r.Undecided, "\n")
}

// says reports that got has want in it, or that both are empty.
func says(got, want string) bool { return strings.Contains(got, want) && (want != "" || got == "") }

// TestCases: tables like published ones, each with what a reader would find by hand.
func TestCases(t *testing.T) {
	for _, c := range []struct {
		file     string
		old, new string // changes the table
		finds    string
		open     string // what is not decided
	}{
		{file: "negative-difference"},
		{file: "negative-difference", old: " = diff(latency, latency[plain])", new: " = latency - latency[plain]"},
		{file: "negative-difference", old: " = diff(latency, latency[plain])"},
		{file: "negative-difference", old: "-0.2", new: "-0.5", finds: "arithmetic difference[tee]: 4.8 ms - 5.0 ms = -0.2 ms, printed is -0.5 ms"},
		{file: "negative-difference", old: "4.8,", new: "-4.8,", finds: "impossible latency[tee] is -4.8 ms"},
		{file: "absent-cells", finds: "max(+1.50 %, +2.11 %) = 2.11 %; 2 of 4 values are absent"},
		{file: "absent-cells", old: "max(change) <= 2.08 %", new: "max(change) <= 2.11 %"},
		{file: "absent-cells", old: "max(change) <= 2.08 %", new: "max(change) = 2.11 %"},
		{file: "absent-cells", old: "max(change) <= 2.08 %", new: "mean(change) = 1.80 %"},
		{file: "absent-cells", old: "max(change) <= 2.08 %", new: "mean(change) = 1.2 %", finds: "mean(+1.50 %, +2.11 %) = 1.805 %; 2 of 4 values are absent"},
		{file: "absent-cells", old: "max(change) <= 2.08 %", new: "min(change) = 1.6 %", finds: "min(+1.50 %, +2.11 %) = 1.5 %"},
		{file: "parenthesis"},
		{file: "parenthesis", old: "= 2 ms", new: "= 9 ms", finds: "mean(1 ms, 3 ms) = 2 ms"},
		{file: "parenthesis", old: "where operation=hash (1 KiB))", new: `where operation = "hash (1 KiB)")`},
		{file: "parenthesis", old: "where operation=hash (1 KiB))", new: "where operation!=sign (1 KiB))"},
		{file: "parenthesis", old: "where operation=hash (1 KiB))", new: "where hash (1 KiB))"},
		{file: "parenthesis", old: "mean(v where operation=hash (1 KiB)) = 2 ms", new: "sum(v where sign (1 KiB)) - sum(v where operation=hash (1 KiB), way != tdx) = 7 ms", finds: "none"},
		{file: "parenthesis", old: "mean(v where operation=hash (1 KiB)) = 2 ms", new: "v = 1 ms where hash (1 KiB), native"},
		{file: "parenthesis", old: "mean(v where operation=hash (1 KiB)) = 2 ms", new: "best(v) = native where operation=sign (1 KiB)"},
		{file: "parenthesis", old: "mean(v where operation=hash (1 KiB)) = 2 ms", new: "exists(operation = hash (1 KiB))"},
		{file: "parenthesis", old: "mean(v where operation=hash (1 KiB)) = 2 ms", new: "exists(operation = hash (4 KiB))", finds: "no row has operation=hash (4 KiB)"},
		{file: "comma"},
		{file: "comma", old: "v[store (4 KiB), sealed]", new: `v["store (4 KiB), sealed"]`},
		{file: "comma", old: "v[store (4 KiB), sealed]", new: `v[operation="store (4 KiB), sealed"]`},
		{file: "comma", old: "= 2 x", new: "= 9 x", finds: "2 ms / 1 ms = 2 x"},
		{file: "comma", old: "ratio(v[store (4 KiB), sealed], v[store (4 KiB), open]) = 2 x", new: "best(v) = store (4 KiB), open"},
		{file: "comma", old: "ratio(v[store (4 KiB), sealed], v[store (4 KiB), open]) = 2 x", new: `worst(v) = "store (4 KiB), sealed"`},
		{file: "comma", old: "sealed writes cost", new: `""sealed"" writes cost`},
	} {
		data, err := os.ReadFile("testdata/cases/" + c.file + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), c.old) {
			t.Fatalf("%s has no %q", c.file, c.old)
		}
		text := strings.Replace(string(data), c.old, c.new, 1)
		if c.finds == "none" { // a selector that names no row is refused
			if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "no row has way!=tdx; there are native, wasm") {
				t.Errorf("%s: %v", c.new, err)
			}
			continue
		}
		if findings, open := verdict(t, text); !says(findings, c.finds) || !says(open, c.open) {
			t.Errorf("%s with %q: found %q, want %q; not decided %q, want %q", c.file, c.new, findings, c.finds, open, c.open)
		}
	}
}

// TestAbsentCells: what is absent is left out of an aggregate, and contradicts nothing that it could make true.
func TestAbsentCells(t *testing.T) {
	for _, c := range []struct{ claim, finds, open string }{
		{"sum(t) = 30 ms", "", ""},
		{"sum(t) = 40 ms", "", "sum(10 ms, 20 ms) = 30 ms; 1 of 3 values is absent"},
		{"sum(t) = 25 ms", "sum(10 ms, 20 ms) = 30 ms; 1 of 3 values is absent", ""},
		{"sum(t) < 25 ms", "sum(10 ms, 20 ms) = 30 ms", ""},
		{"max(t) <= 19 ms", "max(10 ms, 20 ms) = 20 ms", ""},
		{"max(t) = 50 ms", "", "max(10 ms, 20 ms) = 20 ms"},
		{"max(t) > 50 ms", "", "max(10 ms, 20 ms) = 20 ms"},
		{"min(t) >= 11 ms", "min(10 ms, 20 ms) = 10 ms", ""},
		{"min(t) < 1 ms", "", "min(10 ms, 20 ms) = 10 ms"},
		{"min(t) < 0 ms", "min(10 ms, 20 ms) = 10 ms", ""}, // no time is negative
		{"min(d) < 0 ms", "", "min(1 ms, 2 ms) = 1 ms"},
		{"mean(t) = 15 ms", "", ""},
		{"mean(t) = 12 ms", "", "mean(10 ms, 20 ms) = 15 ms"},
		{"mean(t) = 8 ms", "mean(10 ms, 20 ms) = 15 ms", ""}, // three values have at least 30/3
		{"sum(d) = -9 ms", "", "sum(1 ms, 2 ms) = 3 ms"},
		{"max(t) / 2 ms = 7.5 x", "max(10 ms, 20 ms) / 2 ms = 10 x", ""},
		{"max(t) / min(t) = 9 x", "", "max(10 ms, 20 ms) / min(10 ms, 20 ms) = 2 x"},
		{"mean(t where arm=c) = 9 ms", "", "mean of no values, 1 are absent"},
		{"whole(sum(t) / 7 ms)", "", "no row has all the cells"},
	} {
		findings, open := verdict(t, "# source: a test\n# column: arm arm\n# column: t ms lower\n# column: d ms difference\n# claim: \"words\" "+c.claim+"\narm,t,d\na,10,1\nb,20,2\nc,,\n")
		if !says(findings, c.finds) || !says(open, c.open) {
			t.Errorf("%s: found %q, want %q; not decided %q, want %q", c.claim, findings, c.finds, open, c.open)
		}
	}
	// All measurements of an arm may have failed, so a sum without them decides nothing.
	const failed = "# source: a test\n# column: op label\n# column: arm arm\n# column: t s\n# claim: \"words\" sum(t) = 10 s\nop,arm,t\na,plain,3\nb,plain,4\na,tee,\nb,tee,\n"
	if findings, open := verdict(t, failed); findings != "" || !strings.Contains(open, "sum(3 s, 4 s) = 7 s; 2 of 4 values are absent") {
		t.Errorf("found %q, not decided %q", findings, open)
	}
	// A share of a sum that lacks a value is an upper bound.
	const shares = "# source: a test\n# column: arm arm\n# column: t ms\n# column: share % = t / sum(t)\narm,t,share\na,10,20\nb,20,40\nc,,\n"
	if findings, open := verdict(t, shares); findings != "" || !strings.Contains(open, "10 ms / sum(10 ms, 20 ms) = 33.33 %, printed is 20 %; 1 of 3 values is absent") {
		t.Errorf("found %q, not decided %q", findings, open)
	}
	if findings, _ := verdict(t, strings.Replace(shares, "b,20,40", "b,20,90", 1)); !strings.Contains(findings, "share[b]: 20 ms / sum(10 ms, 20 ms) = 66.67 %, printed is 90 %") {
		t.Errorf("found %q", findings)
	}
}

// TestUnknownUnits: what has an unknown unit is not decided; a known one that does not fit is a contradiction.
func TestUnknownUnits(t *testing.T) {
	const head = "# source: a test\n# column: arm arm\n# column: rate req/s\n# column: size\n# claim: \"words\" "
	for _, c := range []struct{ claim, cell, finds, open string }{
		{"rate[a] = 5 req/s", "5 qx/s", "", `rate[a] is "5 qx/s", and the unit qx/s is not known`},
		{"rate[a] = 5 req/s", "5 ms", `unit rate[a] is printed as "5 ms"`, "rate[a] has another unit"},
		{"size[a] = 7 thread", "5", "", ""}, // a column without a unit may count threads
		{"rate[a] = 5 op/s", "5", "counts reqs, not ops", ""},
	} {
		findings, open := verdict(t, head+c.claim+"\narm,rate,size\na,"+c.cell+",7\n")
		if !says(findings, c.finds) || !says(open, c.open) {
			t.Errorf("%s, %s: found %q, want %q; not decided %q, want %q", c.claim, c.cell, findings, c.finds, open, c.open)
		}
	}
}

// TestNames: a name with the language's own signs names its row, quoted or where only one reading names rows.
func TestNames(t *testing.T) {
	names := []string{`a`, `b`, `a, b`, `k] (x`, `24" disk`, `=1`, `where c`, `x) where arm=y`, `within 5 %`, `(`, `v[a]`}
	data := "# source: a test\n# column: name label\n# column: v ms\n%s\nname,v\n"
	for i, name := range names {
		data += `"` + strings.ReplaceAll(name, `"`, `""`) + `",` + fmt.Sprint(10+i) + "\n"
	}
	for i, name := range names {
		quote := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		for _, claim := range []string{"v[" + quote + "] = N ms", "v[name=" + quote + "] = N ms", "max(v where " + quote + ") = N ms", "max(v where name = " + quote + ") = N ms",
			"v = N ms where " + quote, "v = N ms within 1 % where name=" + quote, "exists(name = " + quote + ")"} {
			for _, n := range []int{10 + i, 15 + i} {
				text := strings.Replace(data, "%s", `# claim: "words" `+strings.Replace(claim, "N", fmt.Sprint(n), 1), 1)
				findings, open := verdict(t, text)
				wrong := n != 10+i && strings.Contains(claim, "N")
				if open != "" || (findings != "") != wrong {
					t.Errorf("%s with %d: found %q, not decided %q", claim, n, findings, open)
				}
			}
		}
	}
	for claim, want := range map[string]string{
		"v[24\" disk] = 14 ms":     "",
		"v[k] (x] = 13 ms":         "",
		"v[v[a]] = 20 ms":          "",
		"max(v where =1) = 15 ms":  "",
		"v[within 5 %] = 18 ms":    "",
		"v[a, b] = 12 ms":          "[a, b] is one name or several: a name with a comma, a bracket or a quote can stand in double quotes",
		"v[a, c] = 3 ms":           `no row is called "c" (a name with a comma`,
		"v[c] = 3 ms":              `no row is called "c"`,
		"v[c = 3 ms":               `"c = 3 ms" has no closing ]`,
		"v[\"c] = 3 ms":            `no row is called "\"c" (a name with a comma`,
		"max(v where name!=c) = 1": "no row has name!=c",
		"v[" + strings.Repeat("a,", 100) + "a] = 1 ms": "more than 32 selectors",
	} {
		_, err := Parse([]byte(strings.Replace(data, "%s", `# claim: "words" `+claim, 1)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", claim, err, want)
		}
	}
}
