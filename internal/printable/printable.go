// Package printable makes text safe to show that others wrote: documents, servers, files, names of processes. Text and Writer
// leave no character that controls a terminal, Redact leaves no secret, and Cell no formula of a spreadsheet. Whatever a command
// prints passes a Writer; whatever is shown elsewhere (logs, labels, status, results, notifications) passes Redact.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns a text whose only control characters are line feed and tab. Any other character that is not printable is shown as
// JSON's escape, so a JSON document keeps its value: control characters, marks that change the direction of text (U+202E), line
// separators. Bytes that are not UTF-8 become U+FFFD, and a carriage return before a line feed is dropped.
func Text(s string) string {
	if !strings.ContainsFunc(s, escaped) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case !escaped(r):
			b.WriteRune(r)
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"):
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// escaped reports whether a character is neither printable nor one of the spaces that texts use.
func escaped(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// OneLine returns a text as one line of the same width: each character that is not printable becomes U+FFFD, also line feeds and tabs.
// Processes and machines can have any name, and a line of one could pass for a line of ours.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if escaped(r) || r == '\n' || r == '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Cell returns the text of a cell of a CSV file. Spreadsheets compute a cell that begins with one of = + - @ tab and CR; an
// apostrophe before it makes it text (https://owasp.org/www-community/attacks/CSV_Injection). Numbers stay numbers.
func Cell(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}
