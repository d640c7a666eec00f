package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/teescope/teescope/internal/authority"
	"github.com/teescope/teescope/internal/feed"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/quota"
)

// answering answers each query with two steps, the last query first; "bad" fails.
func answering(asked *[]feed.Query) http.Handler {
	return served(func(o *Options) {
		o.Query = func(_ context.Context, list []feed.Query, deliver func(int, feed.Answer, error), waiting func()) error {
			*asked = list
			for i := len(list) - 1; i >= 0; i-- {
				waiting()
				q := list[i]
				switch {
				case q.Expr == "bad":
					deliver(i, feed.Answer{}, errors.New("parse error: unknown function"))
				case q.Step == 0:
					deliver(i, feed.Answer{Since: q.To, Lines: []metric.Line{{Labels: map[string]string{"le": "1"}, Values: []float64{math.Inf(1)}}}}, nil)
				default:
					deliver(i, feed.Answer{Since: q.From, Lines: []metric.Line{{Labels: map[string]string{"process": "a"}, Values: []float64{0.1, math.NaN()}}}, Rest: &metric.Line{Values: []float64{3, 4}}, Folded: 2, Warnings: []string{"half"}}, nil)
				}
			}
			return nil
		}
	})
}

func TestQueries(t *testing.T) {
	var asked []feed.Query
	w := do(answering(&asked), "POST", "/api/teescope/v1/queries", `{"queries":[
		{"query":"rate(x[1m])","from":1700000000.5,"to":1700000005.5,"step":5,"since":1700000005.5,"top":5},
		{"query":"bad","from":1700000000,"to":1700000005,"step":5},
		{"query":"y","to":1700000000}]}`)
	want := `{"index":2,"since":1700000000,"lines":[{"labels":{"le":"1"},"value":"+Inf"}]}
{"index":1,"since":0,"lines":null,"error":"parse error: unknown function"}
{"index":0,"since":1700000000.5,"lines":[{"labels":{"process":"a"},"values":[0.1,null]}],"rest":{"values":[3,4]},"folded":2,"warnings":["half"]}
`
	if w.Code != 200 || w.Body.String() != want || !w.Flushed {
		t.Errorf("%d, flushed %v\n%s, want\n%s", w.Code, w.Flushed, w.Body, want)
	}
	for l := range strings.Lines(w.Body.String()) {
		if err := json.Unmarshal([]byte(l), &struct{}{}); err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
	first := feed.Query{Expr: "rate(x[1m])", From: time.UnixMilli(1700000000500), To: time.UnixMilli(1700000005500), Step: 5 * time.Second, Since: time.UnixMilli(1700000005500), Top: 5}
	if len(asked) != 3 || asked[0] != first || !asked[2].From.Equal(asked[2].To) {
		t.Errorf("%+v", asked)
	}
}

func TestQueriesRefused(t *testing.T) {
	one := func(fields string) string { return `{"queries":[{"query":"up",` + fields + `}]}` }
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{`, 400, "read body"},
		{`{"queries":[]}`, 400, "want 1 to 200"},
		{`{"queries":[` + strings.Repeat(`{"query":"up","to":1},`, 200) + `{"query":"up","to":1}]}`, 400, "201 queries"},
		{`{"queries":[{"query":"up","to":1}],"more":1}`, 400, "more"},
		{`{"queries":[{"query":"up","to":1}]} {}`, 400, "more than one"},
		{`{"queries":[{"query":"up","to":1},{"to":1}]}`, 400, "query 1: query: want"},
		{one(`"to":0`), 400, "to: 0"},
		{one(`"to":1e300`), 400, "to: 1e+300"},
		{one(`"from":100,"to":200,"step":-5`), 400, "step: -5"},
		{one(`"from":100,"to":200,"step":1e-9`), 400, "at least 0.001"},
		{one(`"from":200,"to":100,"step":5`), 400, "from: 200"},
		{one(`"to":100,"step":5`), 400, "from: 0"},
		{one(`"from":1,"to":100000,"step":5`), 400, "20000 steps"},
		{one(`"from":100,"to":200,"step":5,"since":300`), 400, "since: 300"},
		{one(`"from":100,"to":200,"step":5,"top":-1`), 400, "top: -1"},
		{one(`"to":1,"x":"` + strings.Repeat("a", 300<<10) + `"`), 413, "longer than 256 KiB"},
	} {
		var asked []feed.Query
		w := do(answering(&asked), "POST", "/api/teescope/v1/queries", c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) || asked != nil {
			t.Errorf("%.80s: %d %s, want %d with %q", c.body, w.Code, w.Body, c.code, c.want)
		}
	}
	var asked []feed.Query
	if w := do(answering(&asked), "GET", "/api/teescope/v1/queries", ""); w.Code != 404 && w.Code != 405 {
		t.Errorf("GET: %d", w.Code)
	}
	if w := do(answering(&asked), "POST", "/api/teescope/v1/queries", `{"queries":[{"query":"up","to":1}]}`, "Origin", "http://other.example", "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("from another site: %d", w.Code)
	}
}

// TestMetered: answers to pages and the API are counted, answers to scrapers are not.
func TestMetered(t *testing.T) {
	n := 0
	h := served(func(o *Options) { o.Meter = func(f func()) { n++; f() } })
	for _, c := range []struct {
		path string
		want int
	}{{"/metrics", 0}, {"/-/ready", 0}, {"/", 1}, {"/api/teescope/v1/platform", 2}, {"/api/v1/query", 3}} {
		if w := do(h, "GET", c.path, ""); w.Code != 200 || n != c.want {
			t.Errorf("%s: %d, counted %d times, want %d", c.path, w.Code, n, c.want)
		}
	}
}

// refusal is an error that asks for a status.
type refusal int

func (r refusal) Status() int   { return int(r) }
func (r refusal) Error() string { return "the limit is 7; ask for less" }

// TestRefusedBeforeTheFirstByte: a call whose queries are all refused has the status of the first refusal; else each line has its own.
func TestRefusedBeforeTheFirstByte(t *testing.T) {
	answer := func(errs ...error) *httptest.ResponseRecorder {
		h := served(func(o *Options) {
			o.Query = func(_ context.Context, list []feed.Query, deliver func(int, feed.Answer, error), waiting func()) error {
				for i := range list {
					waiting()
					deliver(i, feed.Answer{Since: list[i].To}, errs[i])
				}
				return nil
			}
		})
		return do(h, "POST", "/api/teescope/v1/queries", `{"queries":[`+strings.TrimSuffix(strings.Repeat(`{"query":"y","to":1700000000},`, len(errs)), ",")+`]}`)
	}
	if w := answer(fmt.Errorf("query: %w", refusal(422))); w.Code != 422 || w.Body.String() != `{"error":"query: the limit is 7; ask for less"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := answer(refusal(503), refusal(422)); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := answer(refusal(503), nil, refusal(422), errors.New("parse error"))
	if lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n"); w.Code != 200 || len(lines) != 4 || !strings.Contains(lines[0], `"index":0`) || !strings.Contains(lines[0], "ask for less") || !strings.Contains(lines[2], "ask for less") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := answer(errors.New("parse error")); w.Code != 200 || !strings.Contains(w.Body.String(), `"error":"parse error"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestUploads: a body beyond the memory of all bodies is refused with 503, and what a body took is given back.
func TestUploads(t *testing.T) {
	share := quota.NewShare("requests", 64<<10)
	var asked []feed.Query
	h := served(func(o *Options) {
		o.Requests, o.Authority = share, nil
		o.Query = func(_ context.Context, list []feed.Query, deliver func(int, feed.Answer, error), _ func()) error {
			asked = list
			if share.UsedBytes() == 0 {
				t.Error("nothing is reserved for the body")
			}
			deliver(0, feed.Answer{}, nil)
			return nil
		}
	})
	if w := do(h, "POST", "/api/teescope/v1/queries", `{"queries":[{"query":"up","to":1700000000}]}`); w.Code != 200 || len(asked) != 1 || share.UsedBytes() != 0 {
		t.Errorf("%d %s, %d bytes are still reserved", w.Code, w.Body, share.UsedBytes())
	}
	if w := do(h, "POST", "/api/teescope/v1/queries", `{"queries":[{"query":"`+strings.Repeat("a", 100<<10)+`","to":1}]}`); w.Code != 503 || !strings.Contains(w.Body.String(), "try again later") || share.UsedBytes() != 0 {
		t.Errorf("%d %.300s, %d bytes are still reserved", w.Code, w.Body, share.UsedBytes())
	}
}

// TestUploadsOfTheTrusted: bodies of others that never end keep out neither small questions nor whoever may change settings.
func TestUploadsOfTheTrusted(t *testing.T) {
	share := quota.NewShare("requests", 256<<10)
	k := authority.New(authority.Options{Group: -1, Now: time.Now})
	changes := 0
	h := served(func(o *Options) {
		whole(o, &changes)
		o.Requests, o.Authority, o.Page = share, k, fstest.MapFS{}
		o.Query = func(_ context.Context, _ []feed.Query, deliver func(int, feed.Answer, error), _ func()) error {
			deliver(0, feed.Answer{}, nil)
			return nil
		}
	})
	const question = `{"queries":[{"query":"up","to":1700000000}]}`
	for { // until no more is taken of long bodies
		b := share.Body(io.NopCloser(strings.NewReader(strings.Repeat("a", 40<<10))))
		if _, err := io.Copy(io.Discard, b); err != nil {
			break
		}
	}
	if w := do(h, "POST", "/api/teescope/v1/queries", question); w.Code != 200 {
		t.Errorf("a small question: %d %s", w.Code, w.Body)
	}
	if _, err := share.Reserve(share.Limit - share.UsedBytes()); err != nil {
		t.Fatal(err)
	}
	if w := do(h, "POST", "/api/teescope/v1/queries", question); w.Code != 503 {
		t.Errorf("with nothing left: %d %s", w.Code, w.Body)
	}
	w := doAs(nil, h, "GET", "/open?link="+k.Link(authority.Who{Name: "uid 0 (root)", Socket: true}), "")
	if len(w.Result().Cookies()) != 1 {
		t.Fatalf("no session: %d %s", w.Code, w.Body)
	}
	if w := doAs(w.Result().Cookies()[0], h, "POST", "/api/teescope/v1/silences", `{}`); w.Code != 200 || changes != 1 {
		t.Errorf("a change by root: %d %s, %d changes", w.Code, w.Body, changes)
	}
}

// TestOwnSite: a page of another site cannot make a browser ask for anything; the page itself, links to it, and programs can.
func TestOwnSite(t *testing.T) {
	h := served(func(*Options) {})
	for _, c := range []struct {
		path, site string
		code       int
	}{
		{"/api/v1/query?query=up", "cross-site", 403}, {"/api/teescope/v1/platform", "cross-site", 403}, {"/metrics", "cross-site", 403},
		{"/api/v1/query?query=up", "same-origin", 200}, {"/api/v1/query?query=up", "none", 200}, {"/api/v1/query?query=up", "", 200},
		{"/", "cross-site", 200}, {"/metrics", "", 200}, {"/-/healthy", "cross-site", 200},
	} {
		var header []string
		if c.site != "" {
			header = []string{"Sec-Fetch-Site", c.site}
		}
		if w := do(h, "GET", c.path, "", header...); w.Code != c.code {
			t.Errorf("%s from %q: %d %s, want %d", c.path, c.site, w.Code, w.Body, c.code)
		}
	}
}
