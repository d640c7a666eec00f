package mutate

import (
	"fmt"
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	var got []string
	for m := range Lines([]byte("a 1\nb:2"), " :") {
		s := strings.ReplaceAll(string(m.Data), strings.Repeat("9", 10_000), "9…")
		got = append(got, fmt.Sprintf("%s %d %q", m.Name, m.Line, s))
	}
	want := []string{
		`line 1: left out -1 "b:2"`, `line 1: twice -1 "a 1\na 1\nb:2"`, `line 1: empty 0 "\nb:2"`, `line 1: torn 0 "a\nb:2"`, `line 1: twice, once with another name -1 "a-above 1\na 1\nb:2"`,
		`line 1: last cell gone 0 "a \nb:2"`, `line 1: a cell more 0 "a 1 7\nb:2"`,
		`line 1, cell 1: negative 0 "-a 1\nb:2"`, `line 1, cell 1: wrapped 0 "18446744073709551615 1\nb:2"`, `line 1, cell 1: not a number 0 "NaN 1\nb:2"`, `line 1, cell 1: empty 0 " 1\nb:2"`,
		`line 1, cell 1: not UTF-8 0 "a\xe9 1\nb:2"`, `line 1, cell 1: decimal comma 0 "0,512 1\nb:2"`, `line 1, cell 1: 10,000 characters 0 "9… 1\nb:2"`,
		`line 1, cell 1: longer 0 "a-and-more-than-anybody-expected 1\nb:2"`, `line 1, cell 1: cut 0 "a 1\nb:2"`, `line 1, cell 1: unknown 0 "quux 1\nb:2"`,
		`line 1, cell 2: negative 0 "a -1\nb:2"`, `line 1, cell 2: wrapped 0 "a 18446744073709551615\nb:2"`, `line 1, cell 2: not a number 0 "a NaN\nb:2"`, `line 1, cell 2: empty 0 "a \nb:2"`,
		`line 1, cell 2: not UTF-8 0 "a 1\xe9\nb:2"`, `line 1, cell 2: decimal comma 0 "a 0,512\nb:2"`, `line 1, cell 2: 10,000 characters 0 "a 9…\nb:2"`, `line 1, cell 2: times 10^6 0 "a 1000000\nb:2"`,
		`line 2: left out -1 "a 1\n"`, `line 2: twice -1 "a 1\nb:2\nb:2"`, `line 2: empty 1 "a 1\n"`, `line 2: torn 1 "a 1\nb"`, `line 2: twice, once with another name -1 "a 1\nb-above:2\nb:2"`,
		`line 2: last cell gone 1 "a 1\nb:"`, `line 2: a cell more 1 "a 1\nb:2 7"`,
	}
	if len(got) != 32+18 || strings.Join(got[:32], "\n") != strings.Join(want, "\n") {
		t.Errorf("%d damages:\n%s", len(got), strings.Join(got, "\n"))
	}
}

func TestDocuments(t *testing.T) {
	for in, want := range map[string]string{"a": `["\ufeffa" "a\na"]`, "a\n": `["\ufeffa\n" "a\na\n"]`, "": `["\ufeff" ""]`} {
		t.Run(in, func(t *testing.T) {
			var got []string
			for m := range Documents([]byte(in)) {
				if !m.Same || m.Line != -1 {
					t.Errorf("%+v", m)
				}
				got = append(got, string(m.Data))
			}
			if s := fmt.Sprintf("%q", got); s != want {
				t.Errorf("%q: %s, want %s", in, s, want)
			}
		})
	}
}

// TestTimes: a number grows by a million in the form that it has.
func TestTimes(t *testing.T) {
	for in, want := range map[string]string{"7": "7000000", "12.5": "12500000.0", "0.0000015": "0000001.5000000", "1.": "1000000"} {
		t.Run(in, func(t *testing.T) {
			if got := numbers[0].of(in); got != want {
				t.Errorf("%s: %s, want %s", in, got, want)
			}
		})
	}
}

func TestCells(t *testing.T) {
	var got []string
	for m := range Cells([]byte("ab\x00\x00"), 2) {
		got = append(got, fmt.Sprintf("%s %q", m.Name, m.Data))
	}
	want := []string{`empty ""`, `half of a cell "a"`, `the last byte gone "ab\x00"`, `the last cell gone "ab"`, `half a cell more "ab\x00\x00\xff"`, `a cell more "ab\x00\x00\xff\xff"`,
		`cell 0: all ones "\xff\xff\x00\x00"`, `cell 0: zero "\x00\x00\x00\x00"`, `cell 0: wrapped "\x00\x80\x00\x00"`, `cell 0: not UTF-8 "\xe9\xe9\x00\x00"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the damages are\n%s", strings.Join(got, "\n"))
	}
	for m := range Cells(nil, 8) {
		if strings.HasPrefix(m.Name, "cell") {
			t.Errorf("%s of nothing", m.Name)
		}
	}
}

// failures records what a test would say.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, a ...any) {
	f.said = append(f.said, fmt.Sprintf(format, a...))
}

func TestTry(t *testing.T) {
	tried := map[string]bool{}
	f := &failures{TB: t}
	Try(f, "in", []byte("a 1\nb:2"), " :", func(m Mutation) error {
		tried[m.Name] = true
		switch m.Name {
		case "line 1: empty":
			panic("out of range")
		case "line 2: twice":
			return fmt.Errorf("two of them")
		}
		return nil
	})
	if len(tried) != 52 || len(f.said) != 2 || !strings.Contains(f.said[0], "in: line 1: empty: panic: out of range") || !strings.Contains(f.said[1], "in: line 2: twice: two of them") {
		t.Errorf("%d tried: %q", len(tried), f.said)
	}
	f, n := &failures{TB: t}, 0
	Try(f, "large", []byte(strings.Repeat("x y\n", 1000)), " ", func(Mutation) error { n++; return fmt.Errorf("no") })
	if n < mostTried/2 || n > mostTried+2 || len(f.said) != 4 || !strings.Contains(f.said[3], fmt.Sprint(n)) {
		t.Errorf("%d tried: %q", n, f.said)
	}
	f = &failures{TB: t}
	if Try(f, "none", nil, " ", func(Mutation) error { return nil }); len(f.said) != 1 {
		t.Errorf("%q", f.said)
	}
}
