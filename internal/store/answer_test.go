package store_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestCallsThatTakeMuch: calls whose answer would take minutes or hundreds of megabytes to make are refused before that, with the limit.
func TestCallsThatTakeMuch(t *testing.T) {
	db, _, _ := small(t, 10)
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	deep := strings.Repeat("(", 101) + "1" + strings.Repeat(")", 101)
	long := "1" + strings.Repeat(" ", 8192)
	row := func(n int) string { return "1" + strings.Repeat("+1", n) }
	selectors := func(n int) url.Values {
		v := url.Values{}
		for range n {
			v.Add("match[]", `{__name__!=""}`)
		}
		return v
	}
	for _, c := range []struct {
		path string
		form url.Values
		want string // of the refusal, "" for none
	}{
		{"format_query", url.Values{"query": {deep}}, "more than 100 brackets"},
		{"parse_query", url.Values{"query": {deep}}, "more than 100 brackets"},
		{"query_exemplars", url.Values{"query": {deep}}, "more than 100 brackets"},
		{"format_query", url.Values{"query": {long}}, "the query has 8193 bytes; at most 8192"},
		{"parse_query", url.Values{"query": {long}}, "the query has 8193 bytes; at most 8192"},
		{"format_query", url.Values{"query": {long[:8192]}}, ""},
		{"parse_query", url.Values{"query": {long[:8192]}}, ""},
		{"format_query", url.Values{"query": {deep[1 : len(deep)-1]}}, ""},
		{"format_query", url.Values{"query": {row(4000)}}, "more than 100 operators in a row"},
		{"parse_query", url.Values{"query": {row(101)}}, "more than 100 operators in a row"},
		{"format_query", url.Values{"query": {row(100)}}, ""},
		{"parse_query", url.Values{"query": {row(100)}}, ""},
		{"series", selectors(33), "33 selectors (match[]), the limit is 32"},
		{"labels", selectors(33), "33 selectors (match[]), the limit is 32"},
		{"label/n/values", selectors(33), "33 selectors (match[]), the limit is 32"},
		{"series", selectors(32), ""},
		{"labels", selectors(32), ""},
		{"label/n/values", selectors(32), ""},
	} {
		t.Run(c.path, func(t *testing.T) {
			code, body := ask(t, srv.URL+"/api/v1/"+c.path+"?"+c.form.Encode())
			if refused := code == http.StatusUnprocessableEntity && strings.Contains(body, c.want); c.want != "" && !refused || c.want == "" && code != http.StatusOK {
				t.Errorf("%s: %d %.200s, want %q", c.path, code, body, c.want)
			}
		})
	}
}
