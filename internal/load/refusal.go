//go:build linux

package load

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// denied is a server's own error about a request, which asking again will not cure.
type denied struct{ fault }

func (d denied) Unwrap() error { return d.fault }

// passing are the statuses of a server that may answer later.
var passing = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// mostSaid bounds what is read of an answer that is an error.
const mostSaid = 4 << 10

// errorIn finds a server's error in JSON, in the forms of OpenAI and TGI ({"error": ...}), vLLM ({"object": "error", "message": ...}), FastAPI
// ({"detail": ...}) and gateways ({"errors": [...]}). The status is 0 if the error has none.
func errorIn(text []byte) (words string, status int, found bool) {
	var e struct {
		Error, Errors, Detail, Message, Msg json.RawMessage
		Object, Type, Code, Status          json.RawMessage
		Choices                             json.RawMessage
	}
	if json.Unmarshal(text, &e) != nil {
		return "", 0, false
	}
	if s := wordsOf(e.Error); s != "" {
		var inner struct{ Code, Status json.RawMessage }
		_ = json.Unmarshal(e.Error, &inner) // it may be a text
		return s, statusOf(inner.Code, inner.Status, e.Code, e.Status), true
	}
	if e.Choices != nil {
		return "", 0, false
	}
	status = statusOf(e.Code, e.Status)
	for _, s := range []string{wordsOf(e.Errors), wordsOf(e.Detail)} {
		if s != "" {
			return s, status, true
		}
	}
	for _, kind := range []json.RawMessage{e.Object, e.Type, e.Status} {
		found = found || strings.Contains(strings.ToLower(string(kind)), "error")
	}
	if words = wordsOf(e.Message) + wordsOf(e.Msg); words != "" && (found || status >= 400) {
		return words, status, true
	}
	return "", 0, false
}

// wordsOf returns what a value in an error says: a text, the message of an object, or the values of a list. It is "" where
// there is no error.
func wordsOf(value json.RawMessage) string {
	var text string
	var list []json.RawMessage
	var object struct{ Message, Msg, Detail json.RawMessage }
	switch {
	case slices.Contains([]string{"", "null", "false", "{}", "[]"}, string(value)):
		return ""
	case json.Unmarshal(value, &text) == nil:
		return strings.TrimSpace(text)
	case json.Unmarshal(value, &list) == nil:
		var all []string
		for _, v := range list {
			all = append(all, wordsOf(v))
		}
		return strings.Join(all, "; ")
	case json.Unmarshal(value, &object) == nil:
		for _, v := range []json.RawMessage{object.Message, object.Msg, object.Detail} {
			if s := wordsOf(v); s != "" {
				return s
			}
		}
	}
	return string(value)
}

// statusOf returns the first HTTP status of an error among values that are numbers or texts, 0 without one.
func statusOf(values ...json.RawMessage) int {
	for _, v := range values {
		if n, err := strconv.Atoi(strings.Trim(string(v), `"`)); err == nil && n >= 100 && n < 600 {
			return n
		}
	}
	return 0
}

// message is what a server says about an error: the words of an error in JSON, or all of it.
func message(b []byte) string {
	if words, _, found := errorIn(b); found {
		return words
	}
	return strings.TrimSpace(string(b))
}

// refusal is an error of this kind with the server's words. Without a status of a passing error, asking again will not cure it.
func refusal(kind string, b []byte) error {
	f := fault{kind, message(b)}
	if _, status, _ := errorIn(b); slices.Contains(passing, status) {
		return f
	}
	return denied{f}
}
