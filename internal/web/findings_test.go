package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/query"
)

// past returns a history that answers with its filter as the title of a finding, or with an error.
func past(list ...findings.Record) func(*Options) {
	return func(o *Options) {
		o.Findings = func(_ context.Context, on query.Machine) (Findings, error) {
			if on.Job == "nothing" {
				return Findings{}, fmt.Errorf("%w: machine", ErrNotFound)
			}
			return Findings{Findings: []findings.Record{{ID: "now" + on.Instance}}}, nil
		}
		o.History = func(_ context.Context, f findings.Filter) ([]findings.Record, error) {
			if f.Rule == "broken" {
				return nil, errors.New("read the history")
			}
			asked := fmt.Sprintf("from %d to %d id %q rule %q subject %v state %q limit %d machine %v", f.From.Unix(), f.To.Unix(), f.ID, f.Rule, f.Subject, f.State, f.Limit, f.Machine)
			return append([]findings.Record{{ID: "asked", Finding: findings.Finding{Title: asked}}}, list...), nil
		}
	}
}

func TestFindings(t *testing.T) {
	h := served(past())
	for target, want := range map[string]string{
		"findings":                         `"now"`,
		"findings?limit=3":                 `limit 3`,
		"findings?job=a&instance=b":        `"nowb"`,
		"findings?job=a&instance=b&rule=x": `machine {a b}`,
		"findings?job=nothing&instance=b":  `404 not found: machine`,
		"findings?from=100&to=200.5":       `from 100 to 200 `,
		"findings?from=1970-01-01T00:01Z":  `400 from: \"1970-01-01T00:01Z\": want a time`,
		"findings?to=1970-01-01T00:01:00Z": `to 60 `,
		"findings?from=9&to=8":             `400 to is before from`,
		"findings?rule=heat&state=open":    `rule \"heat\" subject <nil> state \"open\" limit 1000`,
		"findings?id=0123abc":              `id \"0123abc\" rule \"\"`,
		"findings?subject=redis.*":         `subject ^(?s:redis.*)$`,
		"findings?subject=(":               `400 subject: error parsing regexp`,
		"findings?id=a&as=markdown":        `**: from -62135596800 to -62135596800 id "a" rule ""`,
		"findings?as=text":                 `400 as: \"text\": want markdown`,
		"findings?state=ajar":              `400 state: \"ajar\": want open or closed`,
		"findings?limit=0":                 `400 limit: \"0\": want a number from 1 to 5000`,
		"findings?limit=many":              `400 limit: \"many\": want`,
		"findings?since=9":                 `400 since: no such parameter`,
		"findings?from=1e99":               `400 from: \"1e99\": want a time`,
		"findings?from=NaN":                `400 from: \"NaN\": want a time`,
		"findings?rule=broken":             `500 read the history`,
	} {
		t.Run(target, func(t *testing.T) {
			w := do(h, "GET", "/api/teescope/v1/"+target, "")
			code, text := 200, want
			if _, err := fmt.Sscanf(want, "%d", &code); err == nil {
				text = want[4:]
			}
			got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(w.Body.String())
			if w.Code != code || !strings.Contains(got, text) {
				t.Errorf("%s: %d %s, want %s", target, w.Code, got, want)
			}
		})
	}
}

func TestAnnotations(t *testing.T) {
	end := time.UnixMilli(9000)
	evil := `<img src=x onerror=alert(1)>` + "\x1b[31m\n"
	h := served(past(
		findings.Record{ID: "a", State: findings.Open, Since: time.UnixMilli(1000), LastSeen: time.UnixMilli(5000), Silenced: "s",
			Finding: findings.Finding{Rule: "heat", Subject: evil, Title: "Hot.", Severity: findings.Warning}},
		findings.Record{ID: "b", State: findings.Closed, Since: time.UnixMilli(2000), LastSeen: time.UnixMilli(8000), Until: &end,
			Finding: findings.Finding{Rule: "heat", Subject: "redis", Title: "Hot.", Severity: findings.Critical}}))
	get := func(method, body string) []Annotation {
		w := do(h, method, "/api/teescope/v1/annotations?from=1&to=2", body)
		var got []Annotation
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || len(got) != 3 {
			t.Fatalf("%s: %d %s", method, w.Code, w.Body)
		}
		return got
	}
	got := get("GET", "")
	if !strings.HasPrefix(got[0].Text, "from 1 to 2 ") || !strings.HasSuffix(got[0].Text, "limit 500 machine { }") {
		t.Errorf("asked %s", got[0].Text)
	}
	if a := got[1]; a.Time != 1000 || a.TimeEnd != 5000 || a.Title != evil+": heat" || fmt.Sprint(a.Tags) != "[heat warning open silenced]" {
		t.Errorf("open: %+v", a)
	}
	if b := got[2]; b.ID != "b" || b.TimeEnd != 9000 || b.Text != "Hot." || fmt.Sprint(b.Tags) != "[heat critical closed]" {
		t.Errorf("closed: %+v", b)
	}
	// A request as Grafana's simple JSON data source makes it; Grafana shows titles as HTML.
	got = get("POST", `{"range":{"from":"1970-01-01T00:00:03.500Z","to":"1970-01-01T00:00:04Z","raw":{}},"annotation":{"name":"x","enable":true,"query":" heat "}}`)
	if !strings.HasPrefix(got[0].Text, "from 3 to 4 id &#34;&#34; rule &#34;heat&#34;") {
		t.Errorf("asked %s", got[0].Text)
	}
	if strings.ContainsAny(got[1].Title, "<>") {
		t.Errorf("title for Grafana: %s", got[1].Title)
	}
	for _, c := range [][3]string{{"POST", "annotations", "{"}, {"GET", "annotations?from=x", ""}} {
		if w := do(h, c[0], "/api/teescope/v1/"+c[1], c[2]); w.Code != 400 {
			t.Errorf("%q: %d %s", c, w.Code, w.Body)
		}
	}
	if w := do(h, "GET", "/api/teescope/v1/", ""); w.Code != 200 { // how Grafana tests a data source
		t.Errorf("the folder: %d", w.Code)
	}
}

// keeper holds silences and dashboards, and fails when told to.
type keeper struct {
	silences []findings.Silence
	boards   []Dashboard
	err      error
}

func (k *keeper) List() []findings.Silence { return k.silences }

func (k *keeper) Add(s findings.Silence) (findings.Silence, error) {
	if k.err != nil {
		return s, k.err
	}
	s.ID = "new"
	k.silences = append(k.silences, s)
	return s, nil
}

func (k *keeper) Remove(id string) error {
	if len(k.silences) == 0 {
		return fmt.Errorf("%w: %q", findings.ErrNoSilence, id)
	}
	k.silences = nil
	return k.err
}

func (k *keeper) Dashboards() Dashboards {
	return Dashboards{Dashboards: k.boards, Locked: []Dashboard{{Name: "ours"}}}
}

func (k *keeper) SetDashboards(list []Dashboard) error {
	if k.err == nil {
		k.boards = list
	}
	return k.err
}

func TestChangesByThePage(t *testing.T) {
	k := &keeper{}
	h := served(func(o *Options) { o.Silences, o.Dashboards, o.Hosts = k, k, Hosts{Loopback: true} })
	full := fmt.Errorf("%w: no space left on device", ErrNotKept)
	for _, c := range []struct {
		method, target, body string
		err                  error
		code                 int
		want                 string
	}{
		{"GET", "silences", "", nil, 200, `{"silences":null}`},
		{"POST", "silences", `{"rule":"heat","subject":"a.*","until":"2030-01-02T03:04:05Z","comment":"<b>"}`, nil, 200, `"id":"new","rule":"heat","subject":"a.*","until":"2030-01-02T03:04:05Z","comment":"\u003cb\u003e"`},
		{"POST", "silences", `{"rule":"heat","reason":"x"}`, nil, 400, `unknown field`},
		{"POST", "silences", `{} {}`, nil, 400, `more than one JSON value`},
		{"POST", "silences", `{"until":"tomorrow"}`, nil, 400, `read body: `},
		{"POST", "silences", `{"comment":"` + strings.Repeat("x", 20_000) + `"}`, nil, 400, `too large`},
		{"POST", "silences", `{}`, errors.New("until: want a time"), 400, `until: want a time`},
		{"POST", "silences", `{}`, full, 507, `no space left`},
		{"DELETE", "silences/new", "", nil, 200, `{"silences":null}`},
		{"DELETE", "silences/new", "", nil, 404, `no such silence: \"new\"`},
		{"DELETE", "silences", "", nil, 404, `no such API call`},
		{"GET", "dashboards", "", nil, 200, `"locked":[{"name":"ours"`},
		{"PUT", "dashboards", `{"dashboards":[{"name":"mine","panels":[{"title":"t","query":"up","unit":"","kind":"graph"}]}],"locked":[{"name":"x","panels":[]}]}`, nil, 200, `"name":"mine"`},
		{"PUT", "dashboards", `{"dashboards":[{"name":"mine","rows":1}]}`, nil, 400, `unknown field`},
		{"PUT", "dashboards", `[]`, nil, 400, `read body: `},
		{"PUT", "dashboards", `{"dashboards":[{"name":"` + strings.Repeat("x", 1<<20) + `"}]}`, nil, 400, `too large`},
		{"PUT", "dashboards", `{}`, nil, 400, `dashboards: want a list`},
		{"PUT", "dashboards", `null`, nil, 400, `dashboards: want a list`},
		{"PUT", "dashboards", `{"dashboards":[]}`, &DashboardError{1, 2, "query", errors.New("1:2: parse error")}, 400, `dashboards[1].panels[2].query: 1:2: parse error`},
		{"PUT", "dashboards", `{"dashboards":[]}`, full, 507, `no space left`},
	} {
		k.err = c.err
		w := do(h, c.method, "/api/teescope/v1/"+c.target, c.body, "Host", "127.0.0.1:9780")
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s %.100s: %d %s, want %d with %s", c.method, c.target, c.body, w.Code, w.Body, c.code, c.want)
		}
	}
	// Other sites can use none of this.
	for _, c := range [][2]string{{"POST", "silences"}, {"DELETE", "silences/x"}, {"PUT", "dashboards"}, {"POST", "annotations"}} {
		if w := do(h, c[0], "/api/teescope/v1/"+c[1], "{}", "Host", "127.0.0.1:9780", "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
			t.Errorf("%s %s from another site: %d", c[0], c[1], w.Code)
		}
		if w := do(h, c[0], "/api/teescope/v1/"+c[1], "{}", "Host", "evil.example"); w.Code != http.StatusForbidden {
			t.Errorf("%s %s by another name: %d", c[0], c[1], w.Code)
		}
	}
}

// TestDashboardsMeanwhile: if two clients read the same dashboards, the second to change them gets an error and
// changes nothing.
func TestDashboardsMeanwhile(t *testing.T) {
	k := &keeper{}
	h := served(func(o *Options) { o.Dashboards = k })
	const at = "/api/teescope/v1/dashboards"
	read := do(h, "GET", at, "").Header().Get("ETag")
	put := func(name string, header ...string) *httptest.ResponseRecorder {
		return do(h, "PUT", at, `{"dashboards":[{"name":"`+name+`","panels":[]}]}`, header...)
	}
	first := put("first", "If-Match", read)
	left := first.Header().Get("ETag")
	if now := do(h, "GET", at, "").Header().Get("ETag"); first.Code != 200 || left != now || left == read || len(read) < 10 {
		t.Fatalf("%d %s: read with %s, left with %s, now %s", first.Code, first.Body, read, left, now)
	}
	for _, tags := range []string{read, "W/" + left, strings.Trim(left, `"`), `"x", ` + read, ""} {
		t.Run(tags, func(t *testing.T) {
			if w := put("second", "If-Match", tags); w.Code != http.StatusPreconditionFailed || !strings.Contains(w.Body.String(), "read the dashboards again") || k.boards[0].Name != "first" {
				t.Errorf("If-Match: %s: %d %s, %+v", tags, w.Code, w.Body, k.boards)
			}
		})
	}
	for _, tags := range []string{left, `"x", ` + left, "*"} {
		t.Run(tags, func(t *testing.T) {
			if w := put("first", "If-Match", tags); w.Code != 200 {
				t.Errorf("If-Match: %s: %d %s", tags, w.Code, w.Body)
			}
		})
	}
	if w := put("third"); w.Code != 200 || k.boards[0].Name != "third" {
		t.Errorf("without If-Match: %d %s, %+v", w.Code, w.Body, k.boards)
	}
}

// TestDashboardsAtOnce: of many simultaneous changes to the same dashboards, one succeeds.
func TestDashboardsAtOnce(t *testing.T) {
	h := served(func(o *Options) { o.Dashboards = &keeper{} })
	const at, most = "/api/teescope/v1/dashboards", 20
	tag := do(h, "GET", at, "").Header().Get("ETag")
	codes := make(chan int, most)
	for i := range most {
		go func() {
			codes <- do(h, "PUT", at, fmt.Sprintf(`{"dashboards":[{"name":"%d","panels":[]}]}`, i), "If-Match", tag).Code
		}()
	}
	seen := map[int]int{}
	for range most {
		seen[<-codes]++
	}
	if seen[200] != 1 || seen[412] != most-1 {
		t.Errorf("answers %v, want one 200 and %d 412", seen, most-1)
	}
}

func TestCheckDashboards(t *testing.T) {
	parse := func(expr string) error {
		if strings.Contains(expr, "(") {
			return errors.New("parse error")
		}
		return nil
	}
	good := Panel{Title: "t", Query: "up", Unit: "1/s", Kind: Graph}
	with := func(change func(*Panel)) []Dashboard {
		p := good
		change(&p)
		return []Dashboard{{Name: "a", Panels: []Panel{good, p}}}
	}
	for want, list := range map[string][]Dashboard{
		"":                                      {{Name: "a", Panels: []Panel{good}}, {Name: "B <b>", Panels: make50(good)}},
		"dashboards[0].name: 0 characters":      {{Panels: []Panel{good}}},
		"dashboards[0].name: 101 characters":    {{Name: strings.Repeat("ä", 101), Panels: []Panel{good}}},
		`dashboards[0].name: "a\x1b[31m": want`: {{Name: "a\x1b[31m", Panels: []Panel{good}}},
		`dashboards[0].name: "\xff": want`:      {{Name: "\xff", Panels: []Panel{good}}},
		`dashboards[0].name: another dashboard is called "ours"`: {{Name: "ours", Panels: []Panel{good}}},
		`dashboards[1].name: another dashboard is called "a"`:    {{Name: "a", Panels: []Panel{good}}, {Name: "a", Panels: []Panel{good}}},
		"dashboards[0].panels: 0 panels; want 1 to 50":           {{Name: "a"}},
		"dashboards[0].panels: 51 panels":                        {{Name: "a", Panels: append(make50(good), good)}},
		"dashboards[0].panels[1].title: 0 characters":            with(func(p *Panel) { p.Title = " " }),
		`dashboards[0].panels[1].kind: "pie"; want one of`:       with(func(p *Panel) { p.Kind = "pie" }),
		`dashboards[0].panels[1].unit: "km"; want one of`:        with(func(p *Panel) { p.Unit = "km" }),
		"dashboards[0].panels[1].query: parse error":             with(func(p *Panel) { p.Query = "up(" }),
		"dashboards[0].panels[1].query: 0 bytes":                 with(func(p *Panel) { p.Query = "" }),
		"dashboards[0].panels[1].query: 10001 bytes":             with(func(p *Panel) { p.Query = strings.Repeat("x", 10_001) }),
		"101 dashboards; want at most 100":                       make([]Dashboard, 101),
	} {
		t.Run(want, func(t *testing.T) {
			err := CheckDashboards(list, []string{"ours"}, parse)
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func make50(p Panel) []Panel {
	out := make([]Panel, 50)
	for i := range out {
		out[i] = p
	}
	return out
}

func FuzzFilter(f *testing.F) {
	f.Add("from=1&to=2&limit=3")
	f.Add("from=2006-01-02T15:04:05Z&subject=a%2Bb&state=open")
	f.Add("from=-1e13&to=1e13")
	f.Fuzz(func(t *testing.T, query string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		if x, err := filter(q); err == nil {
			x.Select([]findings.Record{{Since: time.Unix(1, 0)}})
			if x.Limit < 1 {
				t.Errorf("%q: limit %d", query, x.Limit)
			}
		}
	})
}
