package workloads

import (
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
)

func TestWords(t *testing.T) {
	for in, want := range map[string][]string{
		"":                            nil,
		" a  b\tc\n":                  {"a", "b", "c"},
		`'a b' "c 'd' \" \\ \n" e\ f`: {"a b", `c 'd' " \ \n`, "e f"},
		`a"b"'c'd`:                    {"abcd"},
		`'' ""`:                       {"", ""},
		`'$HOME|*' "$X" \$`:           {"$HOME|*", "$X", "$"},
		"{binary} --x={work}/y":       {"{binary}", "--x={work}/y"},
	} {
		if got, err := words(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("words(%q) is %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{`'a`, `"a`, `a\`, "a | b", "a; b", "$X", "a > b", "*", "`a`", "a&", "(a)", "~/x", "#"} {
		if got, err := words(in); err == nil {
			t.Errorf("words(%q) is %q, want an error", in, got)
		}
	}
}

func TestJSONNumber(t *testing.T) {
	const doc = `{"a": {"b": [1, {"c": 2.5e3}], "x.y": "7", "q\"": 8}, "n": null, "t": true, "[": 9}`
	for at, want := range map[string]string{
		"a.b[0]": "1", "a.b[1].c": "2.5e3", `a["x.y"]`: "7", `["a"]["b"][0]`: "1", `a["q\""]`: "8", `["["]`: "9",
	} {
		if got, err := jsonNumber(at, []byte(doc)); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %s", at, got, err, want)
		}
	}
	for _, at := range []string{"", ".", "a.", "a..b", ".a", "a.b[", "a.b[x]", "a.b[-1]", "a.b[2]", "a[0]", "a.b.c", "n", "t", "a", "a.b[0]c", `a["x]`, "a.b[0].c", "a[`x.y`]", "zz"} {
		if got, err := jsonNumber(at, []byte(doc)); err == nil {
			t.Errorf("%q is %q, want an error", at, got)
		}
	}
	for _, bad := range []string{"", "{", doc + "x", doc + "}", doc + doc, "[1"} {
		if got, err := jsonNumber("a.b[0]", []byte(bad)); err == nil {
			t.Errorf("%q gives %q, want an error", bad, got)
		}
	}
}

// TestRefused: what cannot work is said before a run, with the parameter's name.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ workload, params, want string }{
		{"custom", "", "command"},
		{"custom", "command=a|b", "shell=sh"},
		{"custom", "command={binary}", "binary"},
		{"custom", "command=a;binary=/bin/true", "{binary}"},
		{"custom", "command=a;pattern=x", "group"},
		{"custom", "command=a;pattern=(", "pattern"},
		{"custom", "command=a;expect=(", "expect"},
		{"custom", "command=a;pattern=(x);json=a", "one of them"},
		{"custom", "command=a;json=a..b", "json"},
		{"custom", "command=a;json=a;unit=ms", "scale=1e-3"},
		{"custom", "command=a;json=a;unit=", "unit"},
		{"custom", "command=a;json=a;metric=wall", "wall_seconds"},
		{"custom", "command=a;json=a;metric=a b", "metric"},
		{"custom", "command=a;json=a;metric=x;unit=total", "metric"},
		{"custom", "command={binary};binary=a", "absolute"},
		{"custom", "command=a;files=/a,b/c", "absolute"},
		{"custom", "command=a;scale=0", "scale"},
		{"custom", "command=a;scale=NaN", "scale"},
		{"custom", "command=a;estimate=soon", "estimate"},
		{"syscall", "windows=0", "windows"},
		{"syscall", "windows=1000000", "windows"},
		{"syscall", "window=1us", "1ms"},
		{"syscall", "operations=-1", "operations"},
		{"wakeup", "samples=0", "samples"},
		{"wakeup", "window=x", "window"},
		{"memory", "size=64", "128"},
		{"memory", "size=x", "size"},
		{"startup", "touch=x", "touch"},
	} {
		t.Run(c.workload+" "+c.params, func(t *testing.T) {
			w := All[slices.IndexFunc(All, func(w *bench.Workload) bool { return w.Name == c.workload })]
			p, err := bench.Complete("workload", w.Params, settings(t, "", strings.ReplaceAll(c.params, ";", "\n")))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Job(p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want it to name %s", err, c.want)
			}
			if d, disk := w.Estimate(p); d <= 0 || disk < 0 {
				t.Errorf("estimate is %v and %d bytes", d, disk)
			}
			for _, d := range append(w.Metrics(p), w.Primary(p)) {
				if d == nil {
					t.Error("a metric is nil")
				}
			}
		})
	}
}

func FuzzWords(f *testing.F) {
	f.Add(`a 'b c' "d \" e" f\ g`)
	f.Fuzz(func(t *testing.T, s string) {
		got, err := words(s)
		if err != nil {
			return
		}
		// Quoting each word again gives the same words.
		var b strings.Builder
		for _, w := range got {
			b.WriteString(" '" + strings.ReplaceAll(w, "'", `'\''`) + "'")
		}
		if again, err := words(b.String()); err != nil || !slices.Equal(again, got) {
			t.Errorf("%q gives %q, and quoted %q, %v", s, got, again, err)
		}
	})
}

func FuzzJSONNumber(f *testing.F) {
	f.Add(`a.b[0]["c.d"]`, []byte(`{"a": {"b": [{"c.d": 1}]}}`))
	f.Add("[0]", []byte("[1]"))
	f.Fuzz(func(t *testing.T, at string, doc []byte) {
		if _, err := jsonNumber(at, doc); err == nil && at == "" {
			t.Error("a number without a path")
		}
	})
}
