package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	binaryform "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/teescope/teescope/internal/await"
)

// The attacks of the security review of 2026-11-29 (H1 to H5, M1, M3, M4, M11) and others, by clients without any right. Each runs
// against a monitor within the memory of the unit that we ship. What no speed changes is asserted here; what does is measured in
// hostile_measure_test.go.

// shippedMemory is MemoryMax of deploy/systemd/teescope.service.
const shippedMemory = 256 << 20

// target is a monitor that is attacked.
type target struct {
	*monitor
	group   memoryGroup
	http    *http.Client
	results string // the folder
}

// startTarget runs a monitor in a group with the shipped memory, with two hostile scrape targets and a hostile file of results.
func startTarget(t *testing.T) *target {
	t.Helper()
	g := newMemoryGroup(t, shippedMemory)
	data := t.TempDir()
	pages := httptest.NewServer(hostilePages())
	t.Cleanup(pages.Close)
	at := strings.TrimPrefix(pages.URL, "http://")
	config := filepath.Join(t.TempDir(), "config.yaml")
	var jobs strings.Builder
	jobs.WriteString("scrape_configs:\n")
	for _, name := range hostilePageNames {
		fmt.Fprintf(&jobs, "- {job_name: %[1]s, metrics_path: /%[1]s, scrape_interval: 5s, static_configs: [{targets: ['%[2]s']}]}\n", name, at)
	}
	if err := errors.Join(os.WriteFile(config, []byte(jobs.String()), 0o600), os.MkdirAll(filepath.Join(data, "results"), 0o755),
		os.WriteFile(filepath.Join(data, "results", "bomb.json"), resultBomb(256<<20), 0o600),
		os.WriteFile(filepath.Join(data, "results", "values.json"), resultBomb(40<<20), 0o600)); err != nil {
		t.Fatal(err)
	}
	ready := unitCosts.give(t, data)
	m := &monitor{Program: await.Start(t, g.command(binary, "monitor", "--data", data, "--listen", "127.0.0.1:0", "--config", config))}
	m.opened(t)
	ready()
	t.Cleanup(func() { _ = os.Remove(m.socket) })
	a := &target{m, g, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Minute}, filepath.Join(data, "results")}
	await.Event(t, "some rounds are stored", func() error {
		n, err := strconv.ParseFloat(m.sampleOf("count_over_time(teescope_memory_limit_bytes[1h])"), 64)
		if err != nil || n < 3 {
			return fmt.Errorf("%v rounds, %w", n, errors.Join(err))
		}
		return nil
	})
	return a
}

// sampleOf is the one value of an expression, "" if there is none yet.
func (m *monitor) sampleOf(expr string) string {
	body, err := fetch(m.url + "/api/v1/query?query=" + url.QueryEscape(expr))
	var v struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err != nil || json.Unmarshal([]byte(body), &v) != nil || len(v.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(v.Data.Result[0].Value[1])
}

// ask makes a request and returns the status; its answer is read and thrown away.
func (a *target) ask(method, path, body string, header ...string) (status int, text string) {
	req, err := http.NewRequest(method, a.url+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	head, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return resp.StatusCode, err.Error()
	}
	return resp.StatusCode, string(head)
}

// want fails unless the status is one of those wanted, and a refusal says what to do.
func (a *target) want(t *testing.T, what string, status int, text string, wanted ...int) {
	t.Helper()
	if !slices.Contains(wanted, status) {
		t.Errorf("%s: %d %.300s, want one of %v", what, status, text, wanted)
	}
}

// atOnce makes n requests at once.
func atOnce(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// unread sends a request on each of n connections and reads nothing of the answers.
func (a *target) unread(t *testing.T, n int, request string) (closeAll func()) {
	t.Helper()
	var conns []net.Conn
	for range n {
		c, err := net.Dial("tcp", strings.TrimPrefix(a.url, "http://"))
		if err != nil {
			break // the port is full, which is an answer as well
		}
		conns = append(conns, c)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = io.WriteString(c, request) // a refused connection is closed
	}
	return func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

func (a *target) get(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(a.url, "http://") + "\r\n\r\n"
}

// rangeQuery is the path of a range query over the last seconds.
func rangeQuery(expr string, seconds, step float64) string {
	now := float64(time.Now().Unix())
	return "/api/v1/query_range?" + url.Values{"query": {expr}, "start": {fmt.Sprint(int64(now - seconds))}, "end": {fmt.Sprint(int64(now))}, "step": {fmt.Sprint(step)}}.Encode()
}

// charts is a call for pages' queries, each at steps of one second.
func charts(n int, expr func(i int) string, seconds int) string {
	now := time.Now().Unix()
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"query":%q,"from":%d,"to":%d,"step":1}`, expr(i), now-int64(seconds), now))
	}
	return `{"queries":[` + strings.Join(list, ",") + `]}`
}

const everything = `{__name__=~".+"}`

// attacks are what hostile clients do, with the statuses that they may get.
var attacks = []struct {
	name string
	do   func(t *testing.T, a *target)
}{
	{"H1 and H2: files and globs", func(t *testing.T, a *target) {
		status, text := a.ask("POST", "/api/teescope/v1/sources/gramine", `{"on":true,"files":["/*/*/*/*/*/*/*/*/*","/root/*","/dev/zero"]}`)
		a.want(t, "files over HTTP", status, text, 403)
	}},
	{"H3: one small query with a large answer", func(t *testing.T, a *target) {
		status, text := a.ask("POST", "/api/teescope/v1/queries", charts(1, func(int) string { return everything }, 10_990))
		a.want(t, "all series at 10,990 steps", status, text, 422)
		if !strings.Contains(text, "MiB") && !strings.Contains(text, "limit") || !strings.Contains(text, "longer step") {
			t.Errorf("the refusal does not name the limit or what to do: %s", text)
		}
	}},
	{"H3: very many of them", func(t *testing.T, a *target) {
		status, text := a.ask("POST", "/api/teescope/v1/queries", charts(40, func(i int) string { return fmt.Sprintf(`{__name__=~".+",instance!="%d"}`, i) }, 900))
		a.want(t, "40 charts of all series", status, text, 200, 422, 503)
	}},
	{"H5: many large answers", func(t *testing.T, a *target) {
		atOnce(60, func(int) {
			status, text := a.ask("GET", rangeQuery(everything, 600, 1), "")
			a.want(t, "all series for ten minutes", status, text, 200, 422, 503)
		})
	}},
	{"H5: clients that do not read", func(t *testing.T, a *target) {
		defer a.unread(t, 60, a.get(rangeQuery(everything, 600, 1)))()
		defer a.unread(t, 60, a.get("/api/v1/series?match[]="+url.QueryEscape(everything)))()
		defer a.unread(t, 20, a.get("/metrics"))()
		status, text := a.ask("GET", "/-/healthy", "")
		a.want(t, "healthy meanwhile", status, text, 200)
	}},
	{"H5: bodies that never end", func(t *testing.T, a *target) {
		head := "POST /api/teescope/v1/queries HTTP/1.1\r\nHost: " + strings.TrimPrefix(a.url, "http://") + "\r\nContent-Length: 200000\r\n\r\n"
		defer a.unread(t, 600, head+`{"queries":[{"query":"`+strings.Repeat("a", 40_000))()
		status, text := a.ask("GET", "/-/healthy", "")
		a.want(t, "healthy meanwhile", status, text, 200)
	}},
	{"M1: subqueries without end", func(t *testing.T, a *target) {
		for _, expr := range []string{
			`max_over_time((max_over_time(vector(1)[12h:1s]))[1d:1s])`,
			`max_over_time((max_over_time(vector(1)[1d:1s]))[10d:1s])`,
			`sum_over_time(vector(1)[365d:1ms])`,
			`quantile_over_time(0.5, (deriv((vector(1))[1h:1s]))[6h:1s])`,
		} {
			status, text := a.ask("GET", "/api/v1/query?query="+url.QueryEscape(expr), "")
			a.want(t, expr, status, text, 422)
			if !strings.Contains(text, "steps with") || !strings.Contains(text, "longer step") {
				t.Errorf("%s: the refusal does not name the cost or what to do: %s", expr, text)
			}
		}
	}},
	{"M1: clients that leave", func(t *testing.T, a *target) {
		atOnce(20, func(int) {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+rangeQuery(`sum(quantile_over_time(0.9, `+everything+`[5m:1s]))`, 3600, 10), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := a.http.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}},
	{"M1: a page of another site", func(t *testing.T, a *target) {
		status, text := a.ask("GET", "/api/v1/query?query=up", "", "Sec-Fetch-Site", "cross-site")
		a.want(t, "from another site", status, text, 403)
		status, text = a.ask("GET", "/api/v1/query?query=up", "", "Sec-Fetch-Site", "same-origin")
		a.want(t, "from the page", status, text, 200)
	}},
	{"M3: pages that are bombs", func(t *testing.T, a *target) {
		await.Event(t, "the hostile targets were read and refused", func() error {
			var v struct {
				Data struct {
					ActiveTargets []struct{ ScrapePool, LastError, Health string }
				}
			}
			body, err := fetch(a.url + "/api/v1/targets")
			if err == nil {
				err = json.Unmarshal([]byte(body), &v)
			}
			for _, x := range v.Data.ActiveTargets {
				if slices.Contains(hostilePageNames, x.ScrapePool) && x.Health != "down" {
					err = errors.Join(err, fmt.Errorf("%s is %s", x.ScrapePool, x.Health))
				}
			}
			return err
		})
	}},
	{"M4: results that are bombs", func(t *testing.T, a *target) {
		status, text := a.ask("GET", "/api/teescope/v1/results", "")
		a.want(t, "the list of results", status, text, 200)
		if !strings.Contains(text, "bomb.json") || !strings.Contains(text, "values.json") {
			t.Errorf("the list does not say that it cannot read the files: %s", text)
		}
		for _, id := range []string{"bomb", "values"} {
			status, text = a.ask("GET", "/api/teescope/v1/results/"+id, "")
			a.want(t, id, status, text, 422)
		}
	}},
	{"own: the deepest expressions", func(t *testing.T, a *target) {
		atOnce(20, func(int) {
			status, text := a.ask("POST", "/api/v1/query", url.Values{"query": {strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000)}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
			a.want(t, "10,000 brackets", status, text, 400)
		})
	}},
	{"own: a query that is too long", func(t *testing.T, a *target) {
		status, text := a.ask("POST", "/api/v1/query", "query="+strings.Repeat("1%2B", 40_000)+"1", "Content-Type", "application/x-www-form-urlencoded")
		a.want(t, "160 KB of text", status, text, 413)
	}},
	{"own: lists of all series and labels", func(t *testing.T, a *target) {
		atOnce(30, func(i int) {
			path := []string{"/api/v1/series?match[]=" + url.QueryEscape(everything), "/api/v1/labels", "/api/v1/label/__name__/values", "/api/v1/metadata", "/api/v1/status/tsdb"}[i%5]
			status, text := a.ask("GET", path, "")
			a.want(t, path, status, text, 200, 503)
		})
	}},
	{"own: remote read of garbage", func(t *testing.T, a *target) {
		for _, body := range []string{"", "garbage", "\xff\xff\xff\xff\x0f", "\xfe\xff\xff\xff\x07" + strings.Repeat("\xff", 10_000)} {
			status, text := a.ask("POST", "/api/v1/read", body, "Content-Encoding", "snappy")
			a.want(t, "remote read", status, text, 400, 413)
		}
	}},
	{"review 2: remote read of all, a hundred times", func(t *testing.T, a *target) {
		status, text := a.ask("POST", "/api/v1/read", remoteReadCall(100), "Content-Encoding", "snappy")
		a.want(t, "100 queries", status, text, 422)
		// Sixteen take more than the share, or, of a monitor that has just started, not.
		atOnce(4, func(int) {
			status, text := a.ask("POST", "/api/v1/read", remoteReadCall(16), "Content-Encoding", "snappy")
			a.want(t, "16 queries", status, text, 200, 422, 503)
		})
	}},
	{"review 2: remote readers that do not read", func(t *testing.T, a *target) {
		call := remoteReadCall(1)
		head := fmt.Sprintf("POST /api/v1/read HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", strings.TrimPrefix(a.url, "http://"), len(call))
		defer a.unread(t, 10, head+call)()
		status, text := a.ask("GET", "/api/v1/labels", "")
		a.want(t, "labels meanwhile", status, text, 200)
	}},
	{"review 2: very many selectors", func(t *testing.T, a *target) {
		selectors := strings.TrimSuffix(strings.Repeat("match[]="+url.QueryEscape(`{__name__!=""}`)+"&", 1400), "&")
		for _, path := range []string{"series", "labels"} {
			atOnce(2, func(int) {
				status, text := a.ask("POST", "/api/v1/"+path, selectors, "Content-Type", "application/x-www-form-urlencoded")
				a.want(t, path, status, text, 422)
			})
		}
	}},
	{"review 2: nesting that is only parsed or formatted", func(t *testing.T, a *target) {
		for _, expr := range []string{strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000), "1" + strings.Repeat("+1", 4000), strings.Repeat("-", 5000) + "1"} {
			for _, path := range []string{"format_query", "parse_query"} {
				status, text := a.ask("POST", "/api/v1/"+path, "query="+url.QueryEscape(expr), "Content-Type", "application/x-www-form-urlencoded")
				a.want(t, path+" "+expr[:3], status, text, 422)
			}
		}
	}},
	{"review 2: distributions of subqueries", func(t *testing.T, a *target) {
		now := time.Now().Unix()
		status, text := a.ask("GET", "/api/teescope/v1/distributions?"+url.Values{"query": {`max_over_time((max_over_time(vector(1)[1d:1s]))[10d:1s])`},
			"from": {fmt.Sprint(now - 600)}, "to": {fmt.Sprint(now)}, "windows": {"10"}}.Encode(), "")
		a.want(t, "distributions", status, text, 422)
	}},
	{"review 2: labels that grow", func(t *testing.T, a *target) {
		expr := `label_replace(` + everything + `,"x","aaaaaaaa","","")`
		for range 8 {
			expr = `label_join(` + expr + `,"x","","x","x","x","x","x","x","x","x")`
		}
		status, text := a.ask("GET", rangeQuery(expr, 600, 1), "")
		a.want(t, "label_join in label_join", status, text, 422)
	}},
	{"review 2: a query in the far future", func(t *testing.T, a *target) {
		status, text := a.ask("GET", "/api/v1/query_range?"+url.Values{"query": {`max_over_time((max_over_time(vector(1)[1d:1s]))[10d:1s])`},
			"start": {"33000000000"}, "end": {"33000003600"}, "step": {"1"}}.Encode(), "")
		a.want(t, "the year 3015", status, text, 422)
	}},
	{"review 2: results at the same time", func(t *testing.T, a *target) {
		long := resultBomb(14 << 20) // within the length that a text may have
		for i := range 6 {
			if err := os.WriteFile(filepath.Join(a.results, fmt.Sprintf("parallel%d.json", i)), long, 0o600); err != nil {
				t.Error(err)
			}
		}
		atOnce(24, func(i int) {
			id := fmt.Sprintf("parallel%d", i%6)
			status, text := a.ask("GET", "/api/teescope/v1/results/"+id, "")
			a.want(t, id, status, text, 422)
			status, text = a.ask("GET", "/api/teescope/v1/results/"+id+"/origin", "")
			a.want(t, id+"'s origin", status, text, 422)
		})
	}},
	{"review 2: root's access during slow bodies", func(t *testing.T, a *target) {
		head := "POST /api/teescope/v1/queries HTTP/1.1\r\nHost: " + strings.TrimPrefix(a.url, "http://") + "\r\nContent-Length: 200000\r\n\r\n"
		defer a.unread(t, 150, head+`{"queries":[{"query":"`+strings.Repeat("a", 40_000))()
		defer a.unread(t, 100, head+`{"queries":[{"query":"`+strings.Repeat("a", 100))()
		status, text := a.ask("POST", "/api/teescope/v1/queries", charts(1, func(int) string { return "up" }, 60))
		a.want(t, "the page meanwhile", status, text, 200)
		root := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", a.socket)
		}}}
		resp, err := root.Post("http://localhost/api/teescope/v1/silences", "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		a.want(t, "root's silence, which names nothing", resp.StatusCode, string(b), 400)
	}},
	{"own: regular expressions that explode", func(t *testing.T, a *target) {
		for _, re := range []string{strings.Repeat("(", 500) + "a" + strings.Repeat("*)", 500), "(a{0,1000}){0,1000}", strings.Repeat("(a|b|c)?", 2000)} {
			status, text := a.ask("GET", "/api/v1/query?query="+url.QueryEscape(fmt.Sprintf("{__name__=~%q}", re)), "")
			a.want(t, re[:10], status, text, 200, 400, 422)
		}
	}},
	{"own: every series joined with every other", func(t *testing.T, a *target) {
		for _, expr := range []string{everything + ` * on() group_left() ` + everything, `count_values("v", ` + everything + `)`, `label_replace(` + everything + `, "x", "$1$1$1$1", "__name__", "(.*)")`, `topk(100000, ` + everything + `)`} {
			status, text := a.ask("GET", rangeQuery(expr, 600, 1), "")
			a.want(t, expr, status, text, 200, 422, 503)
		}
	}},
	{"own: connections that say nothing", func(t *testing.T, a *target) {
		defer a.unread(t, 700, "")()
		status, text := a.ask("GET", "/-/healthy", "")
		a.want(t, "healthy meanwhile", status, text, 200)
	}},
	{"own: headers without end", func(t *testing.T, a *target) {
		status, text := a.ask("GET", "/-/healthy", "", "X-Long", strings.Repeat("a", 2<<20))
		a.want(t, "two megabytes of header", status, text, 431, 0) // 0: the connection was closed while it was sent
	}},
	{"own: JSON that is nested", func(t *testing.T, a *target) {
		atOnce(20, func(int) {
			status, text := a.ask("POST", "/api/teescope/v1/queries", `{"queries":`+strings.Repeat("[", 200_000))
			a.want(t, "200,000 brackets", status, text, 400, 503, 0) // 0: the answer came while the body was sent
		})
	}},
	{"own: changes with large bodies", func(t *testing.T, a *target) {
		atOnce(20, func(int) {
			status, text := a.ask("PUT", "/api/teescope/v1/dashboards", strings.Repeat("a", 8<<20))
			a.want(t, "eight megabytes from nobody", status, text, 403, 0)
		})
	}},
	{"own: requests in a row without reading", func(t *testing.T, a *target) {
		defer a.unread(t, 20, strings.Repeat(a.get("/metrics"), 500))()
		status, text := a.ask("GET", "/-/healthy", "")
		a.want(t, "healthy meanwhile", status, text, 200)
	}},
}

// remoteReadCall is a call of Prometheus' remote read with n queries for all series of the last hour.
func remoteReadCall(n int) string {
	now := time.Now().UnixMilli()
	query := &prompb.Query{StartTimestampMs: now - time.Hour.Milliseconds(), EndTimestampMs: now,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}}
	b, err := (&prompb.ReadRequest{Queries: slices.Repeat([]*prompb.Query{query}, n)}).Marshal()
	if err != nil {
		panic(err) // it is made of constants
	}
	return string(snappy.Encode(nil, b))
}

// hostilePageNames are the jobs that scrape hostilePages.
var hostilePageNames = []string{"bomb", "endless", "series"}

// hostilePages answers scrapes: a page that expands a thousandfold, one that never ends, and one with very many series.
func hostilePages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 1 << 10 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, "endless{i=\"%d\"} 1\n", i); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/series", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 150_000 { // below the largest page, and more than fit
			if _, err := fmt.Fprintf(w, "m{i=\"%d\"} 1\n", i); err != nil {
				return
			}
		}
	})
	return mux
}

// resultBomb is a file of results with very many values.
func resultBomb(size int) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, `{"schema_version":"2.0","x":[0`) // writing to memory cannot fail
	part := []byte(strings.Repeat(",0", 1<<19))
	for n := 0; n < size; n += len(part) {
		_, _ = z.Write(part)
	}
	_, _ = io.WriteString(z, "]}")
	_ = z.Close()
	return b.Bytes()
}

// sparseLibrary is a file of some KiB on disk whose tables of symbols have 64 MiB each, mapped as a program maps a library (H4).
func sparseLibrary(t *testing.T) {
	t.Helper()
	const table = 64 << 20
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 4, Shstrndx: 3, Shoff: 4096}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	names := "\x00.symtab\x00.strtab\x00.shstrtab\x00"
	sections := []elf.Section64{{}, {Name: 1, Type: uint32(elf.SHT_SYMTAB), Off: 1 << 20, Size: table, Link: 2, Entsize: 24, Addralign: 8},
		{Name: 9, Type: uint32(elf.SHT_STRTAB), Off: 1<<20 + table, Size: table}, {Name: 17, Type: uint32(elf.SHT_STRTAB), Off: 8192, Size: uint64(len(names))}}
	f, err := os.Create(filepath.Join(t.TempDir(), "libssl.so.3"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := func(off int64, v any) {
		if err := binaryform.Write(io.NewOffsetWriter(f, off), binaryform.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	at(0, h)
	at(4096, sections)
	at(8192, []byte(names))
	if err := f.Truncate(1<<20 + 2*table); err != nil {
		t.Fatal(err)
	}
	m, err := syscall.Mmap(int(f.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(m) })
}

// held is what a process holds: open descriptors, and goroutines.
func (a *target) held(t *testing.T) (files, goroutines int, err error) {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	body, err := fetch(a.url + "/api/v1/status/runtimeinfo")
	var info struct{ Data struct{ GoroutineCount int } }
	if err == nil {
		err = json.Unmarshal([]byte(body), &info)
	}
	return len(list), info.Data.GoroutineCount, err
}

// TestHostileClients: no attack ends a monitor in the memory of the unit that we ship; each gets the status that it should; and when
// the clients are gone, so are the descriptors and goroutines that they took.
func TestHostileClients(t *testing.T) {
	a := startTarget(t)
	sparseLibrary(t)
	files, goroutines, err := a.held(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, attack := range attacks {
		began := time.Now()
		attack.do(t, a)
		t.Logf("%-45s %v", attack.name, time.Since(began).Round(time.Millisecond)) // clock: only logged
		if n := a.group.kills(t); n > 0 {
			t.Fatalf("%s: the kernel killed the monitor", attack.name)
		}
	}
	await.Event(t, "what the clients took is given back", func() error {
		f, g, err := a.held(t)
		// Scrapes, rules and blocks open some files and goroutines for a moment.
		if err == nil && (f > files+10 || g > goroutines+20) {
			err = fmt.Errorf("%d descriptors and %d goroutines, %d and %d before", f, g, files, goroutines)
		}
		return err
	})
	if a.sampleOf("teescope_memory_limit_bytes") != strconv.Itoa(shippedMemory) {
		t.Errorf("the monitor takes %s for its limit", a.sampleOf("teescope_memory_limit_bytes"))
	}
	await.Event(t, "the memory of answers, requests and results is given back", func() error {
		if n := a.sampleOf(`sum(teescope_memory_share_used_bytes{share!="queries"})`); n != "0" { // the rules' and this one's own
			return fmt.Errorf("%s bytes are reserved", n)
		}
		return nil
	})
	if code := a.Stop(syscall.SIGTERM); code != 0 {
		t.Errorf("the monitor ends with %d: %s", code, a.Last())
	}
	if n := a.group.kills(t); n > 0 {
		t.Error("the kernel killed the monitor")
	}
	t.Logf("at most %d MiB of %d, with files that can be dropped", a.group.peak()>>20, shippedMemory>>20)
}
