// Package document finds the one document in what a program printed or a user saved: a byte order mark before it is not a part of
// it, and the same document printed twice is one.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// mark is the byte order mark of UTF-8, which programs on Windows write before a text.
var mark = []byte("\ufeff")

// Text returns a text without its byte order mark.
func Text(b []byte) []byte { return bytes.TrimPrefix(b, mark) }

// ErrSeveral means that there are several different documents, and nothing says which one counts.
var ErrSeveral = errors.New("there is more than one document")

// JSON returns the JSON document at the beginning of b, and the text that follows it. It is ErrSeveral if another document of
// its kind follows; a line that begins with a number or a word is none.
func JSON(b []byte) (document, rest []byte, err error) {
	document, rest, err = next(b)
	if err != nil {
		return nil, nil, err
	}
	var first bytes.Buffer
	for {
		another, after, err := next(rest)
		if err != nil || another[0] != document[0] || !bytes.ContainsAny(another[:1], "{[") {
			return document, bytes.TrimSpace(rest), nil
		}
		var again bytes.Buffer
		if first.Len() == 0 {
			_ = json.Compact(&first, document) // both are JSON
		}
		if _ = json.Compact(&again, another); !bytes.Equal(first.Bytes(), again.Bytes()) {
			return nil, nil, ErrSeveral
		}
		rest = after
	}
}

// next decodes the document at the beginning of b.
func next(b []byte) (document, rest []byte, err error) {
	b = Text(bytes.TrimLeft(b, " \t\r\n"))
	d := json.NewDecoder(bytes.NewReader(b))
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return nil, nil, err
	}
	return raw, b[d.InputOffset():], nil
}

// One returns the JSON document that b holds, and nothing else.
func One(b []byte) ([]byte, error) {
	document, rest, err := JSON(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("after the document there is %.40q", rest)
	}
	return document, err
}
