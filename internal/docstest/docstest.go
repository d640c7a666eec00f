// Package docstest writes the generated pages of docs, section by section, for tests: those of a list's members compare the
// section of each member, and the whole page is compared where all lists meet.
package docstest

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/golden"
)

// Check compares the section of a page that begins with want's first line, its heading, with want. With update it writes
// the section into the page: in its place, or before the next heading of others if it is not there. The page's last
// section is not one of a member.
func Check(t testing.TB, page, want string, others []string, update bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	heading, _, _ := strings.Cut(want, "\n")
	before, got, after, ok := section(string(text), heading)
	switch {
	case ok && got == want:
	case update && ok:
		golden.Write(t, page, []byte(before+want+after))
	case update:
		golden.Write(t, page, []byte(inserted(string(text), want, others)))
	case !ok:
		t.Errorf("%s has no section %q: run this test with -update", page, heading)
	default:
		t.Errorf("%s: the section %q is not what the code says; run this test with -update\ngot\n%s\nwant\n%s", page, heading, got, want)
	}
}

// section cuts a text before and after the section with a heading.
func section(text, heading string) (before, section, after string, ok bool) {
	at := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(heading) + "$").FindStringIndex(text)
	if at == nil {
		return text, "", "", false
	}
	end := len(text)
	if next := strings.Index(text[at[1]:], "\n## "); next >= 0 {
		end = at[1] + next + 1
	}
	return text[:at[0]], text[at[0]:end], text[end:], true
}

// inserted returns the text with a section before the first of others that it has, at its end if it has none.
func inserted(text, want string, others []string) string {
	for _, heading := range others {
		if before, _, _, ok := section(text, heading); ok {
			return before + want + text[len(before):]
		}
	}
	return text + want
}

// Sentence makes a text a sentence: a text in a few words gets a capital and a full stop. A list may follow it, behind ".\n".
func Sentence(s string) string {
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	if text, list, ok := strings.Cut(s, ".\n"); ok {
		return text + ".\n" + list
	}
	return s + "."
}

// Cell makes a text fit into a table.
func Cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
