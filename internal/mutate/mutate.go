// Package mutate damages an input of a test as broken kernels, tools and files do: a line cut or doubled, a cell
// negative, wrapped, empty, endless, or of bytes that are no text.
package mutate

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Mutation is one damage to an input.
type Mutation struct {
	// Name says what was done and where, such as "line 3, cell 2: negative".
	Name string
	// Line is the index of the only line that changed, counted from 0; -1 where lines moved.
	Line int
	// Same: it says the same as before, in a form in which files and outputs also come.
	Same bool
	Data []byte
}

// cells are what takes the place of a cell. The cell itself is given.
var cells = []struct {
	name string
	of   func(cell string) string
}{
	{"negative", func(c string) string { return "-" + strings.TrimLeft(c, "-") }},
	{"wrapped", func(string) string { return "18446744073709551615" }},
	{"not a number", func(string) string { return "NaN" }},
	{"empty", func(string) string { return "" }},
	{"not UTF-8", func(c string) string { return c + "\xe9" }},
	{"decimal comma", func(string) string { return "0,512" }},
	{"10,000 characters", func(string) string { return strings.Repeat("9", 10_000) }},
}

// numbers are what also takes the place of a cell that is a number, words of one that is not: of an enumeration, the word is one that nobody knows.
var (
	numbers = []struct {
		name string
		of   func(cell string) string
	}{{"times 10^6", func(c string) string {
		whole, part, _ := strings.Cut(c, ".")
		part += "000000"
		return strings.TrimSuffix(whole+part[:6]+"."+part[6:], ".")
	}}}
	words = []struct {
		name string
		of   func(cell string) string
	}{
		{"longer", func(c string) string { return c + "-and-more-than-anybody-expected" }},
		{"cut", func(c string) string { return c[:(len(c)+1)/2] }},
		{"unknown", func(string) string { return "quux" }},
	}
)

// isNumber reports whether a cell consists of digits, with a point or without.
func isNumber(cell string) bool {
	return strings.Trim(cell, "0123456789") == "" || strings.Trim(strings.Replace(cell, ".", "", 1), "0123456789") == "" && len(cell) > 1
}

// Mark is the byte order mark of UTF-8.
const Mark = "\ufeff"

// Names differ in one byte that is not UTF-8.
var Names = [2]string{"cass\xe8", "cass\xe9"}

// Lines yields each damage to each line of data and to each of its cells, which end at any byte of separators. A file
// is repeated in full in each of them: the work is quadratic, so the input should be a small one.
func Lines(data []byte, separators string) iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		for d := range damages(data, separators) {
			if !yield(d.mutation()) {
				return
			}
		}
	}
}

// Documents yields the forms in which a document that programs write also comes: with a byte order mark, and printed twice.
func Documents(data []byte) iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		end := "\n"
		if len(data) == 0 || bytes.HasSuffix(data, []byte(end)) {
			end = ""
		}
		_ = yield(Mutation{"a byte order mark", -1, true, append([]byte(Mark), data...)}) &&
			yield(Mutation{"the document twice", -1, true, slices.Concat(data, []byte(end), data)})
	}
}

// Cells yields damages to binary data whose numbers have some bytes each: ends too early or too late, and numbers that are
// wrapped, all ones, zero, or bytes that are no text. Cells that are zero are left as they are.
func Cells(data []byte, size int) iter.Seq[Mutation] {
	return func(yield func(Mutation) bool) {
		n := len(data)
		with := func(what string, b []byte) bool { return yield(Mutation{Name: what, Line: -1, Data: b}) }
		if !with("empty", nil) || !with("half of a cell", data[:min(n, size/2)]) || !with("the last byte gone", data[:max(0, n-1)]) || !with("the last cell gone", data[:max(0, n-size)]) ||
			!with("half a cell more", append(slices.Clone(data), bytes.Repeat([]byte{0xff}, size/2)...)) || !with("a cell more", append(slices.Clone(data), bytes.Repeat([]byte{0xff}, size)...)) {
			return
		}
		for at := 0; at+size <= n; at += size {
			if len(bytes.Trim(data[at:at+size], "\x00")) == 0 {
				continue
			}
			for _, m := range []struct {
				name string
				is   byte // each byte, and the highest
				high byte
			}{{"all ones", 0xff, 0xff}, {"zero", 0, 0}, {"wrapped", 0, 0x80}, {"not UTF-8", 0xe9, 0xe9}} {
				b := slices.Clone(data)
				cell := b[at : at+size]
				for i := range cell {
					cell[i] = m.is
				}
				cell[size-1] = m.high // of a number in memory here
				if !with(fmt.Sprintf("cell %d: %s", at/size, m.name), b) {
					return
				}
			}
		}
	}
}

// damage is what becomes of a line.
type damage struct {
	lines [][]byte
	i     int // the line
	what  string
	at    int
	text  func() string
}

func (d damage) mutation() Mutation {
	out := append(bytes.Join(d.lines[:d.i], nil), d.text()...)
	return Mutation{Name: fmt.Sprintf("line %d%s", d.i+1, d.what), Line: d.at, Data: append(out, bytes.Join(d.lines[d.i+1:], nil)...)}
}

func damages(data []byte, separators string) iter.Seq[damage] {
	return func(yield func(damage) bool) {
		lines := bytes.SplitAfter(data, []byte("\n"))
		if len(lines[len(lines)-1]) == 0 {
			lines = lines[:len(lines)-1]
		}
		for i, line := range lines {
			text, end := strings.TrimSuffix(string(line), "\n"), "\n"
			if text == string(line) {
				end = ""
			}
			with := func(what string, at int, s string) bool {
				return yield(damage{lines, i, what, at, func() string { return s }})
			}
			if !with(": left out", -1, "") || !with(": twice", -1, text+"\n"+text+end) || !with(": empty", i, end) || !with(": torn", i, text[:len(text)/2]+end) {
				return
			}
			found := fields(text, separators)
			if c := slices.IndexFunc(found, func(f [2]int) bool { return !isNumber(text[f[0]:f[1]]) }); c >= 0 { // as a layer above a device has the same numbers
				if f := found[c]; !with(": twice, once with another name", -1, text[:f[1]]+"-above"+text[f[1]:]+"\n"+text+end) {
					return
				}
			}
			if n := len(found); n > 0 && (!with(": last cell gone", i, text[:found[n-1][0]]+end) || !with(": a cell more", i, text+separators[:1]+"7"+end)) {
				return
			}
			for c, f := range found {
				more := words
				if isNumber(text[f[0]:f[1]]) {
					more = numbers
				}
				for _, m := range slices.Concat(cells, more) {
					if !yield(damage{lines, i, fmt.Sprintf(", cell %d: %s", c+1, m.name), i, func() string { return text[:f[0]] + m.of(text[f[0]:f[1]]) + text[f[1]:] + end }}) {
						return
					}
				}
			}
		}
	}
}

// fields are begin and end of each cell of s that is not empty.
func fields(s, separators string) [][2]int {
	var out [][2]int
	begin := -1
	for i := range len(s) {
		switch sep := strings.IndexByte(separators, s[i]) >= 0; {
		case !sep && begin < 0:
			begin = i
		case sep && begin >= 0:
			out, begin = append(out, [2]int{begin, i}), -1
		}
	}
	if begin >= 0 {
		out = append(out, [2]int{begin, len(s)})
	}
	return out
}
