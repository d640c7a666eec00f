package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/document"
)

// Decode reads a document of YAML or JSON into v and returns its nodes. Unknown and repeated keys and a second document
// are errors, which name the line. Without a document v stays as it is.
func Decode(b []byte, v any) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return nil, Readable(err, b)
	}
	var next yaml.Node
	if err := d.Decode(&next); err == nil {
		return nil, fmt.Errorf("line %d: a second YAML document; want one", next.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, Readable(err, b)
	}
	root := new(yaml.Node)
	if err := yaml.Unmarshal(b, root); err != nil {
		return nil, Readable(err, b)
	}
	return root, nil
}

// AsYAML returns a JSON document without the two escapes that the YAML library does not know: of a slash, and of
// characters in two parts. Other documents stay as they are.
func AsYAML(b []byte) []byte {
	b = document.Text(b)
	if !bytes.Contains(b, []byte(`\`)) || !json.Valid(b) {
		return b
	}
	code := func(s []byte) rune {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	var out []byte
	for i := 0; i < len(b); i++ {
		switch c := code(b[i:]); {
		case b[i] != '\\':
			out = append(out, b[i])
		case b[i+1] == '/':
			out = append(out, '/')
			i++
		case utf16.IsSurrogate(c):
			r := utf16.DecodeRune(c, code(b[min(i+6, len(b)):]))
			out = append(out, string(r)...)
			i += 5
			if r != '\uFFFD' {
				i += 6
			}
		default:
			out = append(out, b[i], b[i+1])
			i++
		}
	}
	return out
}
