package document

import (
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want, rest, err string }{
		{"one", `{"a": 1}`, `{"a": 1}`, "", ""},
		{"a byte order mark", "\ufeff{\"a\": 1}\r\n", `{"a": 1}`, "", ""},
		{"twice", `{"a": 1}{"a": 1}`, `{"a": 1}`, "", ""},
		{"twice, in another form", "{\"a\": 1}\n{\"a\":1}\n", `{"a": 1}`, "", ""},
		{"twice, each with a mark", "\ufeff{\"a\": 1}\n\ufeff{\"a\": 1}\n", `{"a": 1}`, "", ""},
		{"two", `{"a": 1} {"a": 2}`, "", "", "more than one document"},
		{"warnings behind it", "{\"a\": 1}\n3 warnings\n", `{"a": 1}`, "3 warnings", ""},
		{"a list of jobs behind it", "{\"a\": 1}\n[1] done\n", `{"a": 1}`, "[1] done", ""},
		{"text behind it", "{\"a\": 1}\nbye {\n", `{"a": 1}`, "bye {", ""},
		{"cut", `{"a": 1`, "", "", "unexpected EOF"},
		{"the second is cut", `{"a": 1}{"a":`, `{"a": 1}`, `{"a":`, ""},
		{"nothing", " \n", "", "", "EOF"},
		{"a text", "hello", "", "", "invalid character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			document, rest, err := JSON([]byte(c.in))
			if string(document) != c.want || string(rest) != c.rest || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %q, %q, %v", c.name, document, rest, err)
			}
			one, err := One([]byte(c.in))
			if (err == nil) != (c.err == "" && c.rest == "") || err == nil && string(one) != c.want {
				t.Errorf("%s: %q, %v", c.name, one, err)
			}
		})
	}
}
