package workloads

import (
	"slices"
	"strings"
	"testing"
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
		t.Run(in, func(t *testing.T) {
			if got, err := words(in); err != nil || !slices.Equal(got, want) {
				t.Errorf("words(%q) is %q, %v; want %q", in, got, err, want)
			}
		})
	}
	for _, in := range []string{`'a`, `"a`, `a\`, "a | b", "a; b", "$X", "a > b", "*", "`a`", "a&", "(a)", "~/x", "#"} {
		t.Run(in, func(t *testing.T) {
			if got, err := words(in); err == nil {
				t.Errorf("words(%q) is %q, want an error", in, got)
			}
		})
	}
}

func TestJSONNumber(t *testing.T) {
	const doc = `{"a": {"b": [1, {"c": 2.5e3}], "x.y": "7", "q\"": 8}, "n": null, "t": true, "[": 9}`
	for at, want := range map[string]string{
		"a.b[0]": "1", "a.b[1].c": "2.5e3", `a["x.y"]`: "7", `["a"]["b"][0]`: "1", `a["q\""]`: "8", `["["]`: "9",
	} {
		t.Run(at, func(t *testing.T) {
			if got, err := jsonNumber(at, []byte(doc)); err != nil || got != want {
				t.Errorf("%s is %q, %v; want %s", at, got, err, want)
			}
		})
	}
	for _, at := range []string{"", ".", "a.", "a..b", ".a", "a.b[", "a.b[x]", "a.b[-1]", "a.b[2]", "a[0]", "a.b.c", "n", "t", "a", "a.b[0]c", `a["x]`, "a.b[0].c", "a[`x.y`]", "zz"} {
		t.Run(at, func(t *testing.T) {
			if got, err := jsonNumber(at, []byte(doc)); err == nil {
				t.Errorf("%q is %q, want an error", at, got)
			}
		})
	}
	if got, err := jsonNumber("a.b[0]", []byte(doc+doc)); err != nil || got != "1" {
		t.Errorf("printed twice it is %q, %v; want 1", got, err)
	}
	for _, bad := range []string{"", "{", doc + "x", doc + "}", doc + strings.Replace(doc, "1", "2", 1), "[1"} {
		t.Run(bad, func(t *testing.T) {
			if got, err := jsonNumber("a.b[0]", []byte(bad)); err == nil {
				t.Errorf("%q gives %q, want an error", bad, got)
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
		// Quoting each word and splitting again gives the same words.
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
