package contain

import "strings"

// OneLine keeps an error on the one line that a log or a terminal expects.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
