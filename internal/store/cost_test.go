package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/quota"
	"github.com/teescope/teescope/internal/store"
)

// TestEstimate: what an expression costs follows from its steps, windows and series, subqueries included.
func TestEstimate(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		expr          string
		span, step    time.Duration
		looked, alone float64
	}{
		{"up", 0, 0, 10, 1},
		{"up", time.Hour, time.Minute, 10 * 61, 61},
		{"rate(x[1m])", time.Hour, time.Minute, 10 * 61 * 12, 61 * 12}, // samples every five seconds
		{"sum(rate(x[1m]))", time.Hour, time.Minute, 10*61*12 + 61, 61 * 12},
		{"quantile_over_time(0.5, x[1m])", 0, 0, 1 + 10*12*16, 12 * 16},
		{"max_over_time(vector(1)[1h:1m])", 0, 0, 1 + 60, 60},
		{"max_over_time(up[1h:1m])", 0, 0, 10 * (61 + 60), 61},
		{"quantile_over_time(scalar(y), x[1m:1s] @ end())", time.Hour, time.Minute, 10 * (61 + 61 + 61*60*16), 61 * 60 * 16}, // looks again at each step
		{"x offset 30d", 24 * time.Hour, time.Minute, 10, 1},
		{"max_over_time((max_over_time(vector(1)[12h:1s]))[1d:1s])", 0, 0, 43200 * 86401, 43200 * 86401},
		{"sum_over_time(vector(1)[365d:1ms])", 0, 0, 365 * 86400e3, 365 * 86400e3},
		{"avg_over_time(x[15d])", 15 * day, time.Hour, 10 * 361 * 15 * 17280, 361 * 15 * 17280},
		{"x + on() y", time.Hour, time.Minute, 3 * 10 * 61, 61},
		{"x @ 1", 0, 0, 10, 1},
		{"x @ 1", time.Hour, time.Minute, 10, 1}, // once
	} {
		looked, alone, err := store.Estimate(c.expr, c.span, c.step, 10)
		near := func(got, want float64) bool { return got >= 0.99*want && got <= 1.02*want+11 }
		if err != nil || !near(looked, c.looked) || !near(alone, c.alone) {
			t.Errorf("%s over %v in steps of %v: %g values, %g of one series, %v; want %g and %g", c.expr, c.span, c.step, looked, alone, err, c.looked, c.alone)
		}
	}
}

// TestEstimateFindsSeries: series count wherever an expression looks for them, in forms that read another time than that of the steps too.
func TestEstimateFindsSeries(t *testing.T) {
	db, _, now := small(t, 4000)
	past := fmt.Sprintf(" @ %d", now.Unix())
	const far = 1000 * time.Hour
	for _, c := range []struct {
		expr       string
		from, span time.Duration // from now
		step       time.Duration
		lookback   time.Duration
		least      float64 // of values in memory
	}{
		{"tee_test_total", 3 * time.Second, 247 * time.Second, 25 * time.Millisecond, 5 * time.Minute, 4000 * 9880}, // lookback
		{"tee_test_total", time.Hour, 500 * time.Second, time.Second, 2 * time.Hour, 4000 * 501},
		{"tee_test_total" + past, far, 9900 * time.Second, time.Second, 5 * time.Minute, 4000 * 9901},
		{"tee_test_total @ start() offset -1s", time.Second, 9900 * time.Second, time.Second, 5 * time.Minute, 4000 * 9901},
		{"tee_test_total @ end() offset 9900s", 0, 9900 * time.Second, time.Second, 5 * time.Minute, 4000 * 9901},
		{"tee_test_total offset 1000h", far, 1000 * time.Second, time.Second, 5 * time.Minute, 4000 * 301},
		{"rate(tee_test_total[5m]" + past + ")", far, 9900 * time.Second, time.Second, 5 * time.Minute, 4000 * 9901},
		{"max_over_time(tee_test_total[5m:1s]" + past + ")", far, 0, 0, 5 * time.Minute, 4000 * 301},
		{"max_over_time(tee_test_total[1000s:1s] @ start())", 0, far, time.Hour, 5 * time.Minute, 4000 * 1001},
		{"max_over_time(tee_test_total[1000h:1h] @ end())", 0, far, time.Hour, 5 * time.Minute, 4000 * 1001},
		{"max_over_time((tee_test_total" + past + ")[1000s:1s] @ end())", far, far, time.Hour, 5 * time.Minute, 4000 * 1001},
		{"tee_test_total", far, 1000 * time.Second, time.Second, 5 * time.Minute, 0}, // nothing is found, and nothing refused
	} {
		values, _, err := db.Cost(t.Context(), c.expr, now.Add(c.from), now.Add(c.from+c.span), c.step, c.lookback)
		if err != nil || values < c.least {
			t.Errorf("%s from %v over %v: %g values, %v; want %g or more", c.expr, c.from, c.span, values, err, c.least)
		}
	}
}

// TestLabelsOfLabels: a query whose labels would multiply is refused before, with what they would take; usual ones are not.
func TestLabelsOfLabels(t *testing.T) {
	db, _, now := small(t, 2000)
	nested := func(of, format string, times int) string {
		for range times {
			of = fmt.Sprintf(format, of)
		}
		return of
	}
	const joined, doubled = `label_join(%s,"x","","x","x","x","x","x","x","x","x")`, `label_replace(%s,"n","$1$1","n","(.*)")`
	start := `label_replace({__name__=~".+"},"x","aaaaaaaa","","")`
	for _, c := range []struct{ expr, want string }{
		{nested(start, joined, 5), "bytes of labels, the limit is 65536: use label_join and label_replace with shorter values"},
		{nested(`label_replace(vector(1),"x","aaaaaaaa","","")`, joined, 7), "bytes of labels, the limit is 65536"},
		{nested("tee_test_total", doubled, 40), "bytes of labels, the limit is 65536"},
		{nested(`label_replace(tee_test_total,"n","`+strings.Repeat("a", 20_000)+`","","")`, doubled, 1), "bytes of labels, the limit is 17 million: use label_join and label_replace on fewer series"},
		{nested(start, joined, 2), ""},
		{nested("tee_test_total", `label_replace(%s,"m","$1","n","(.*)")`, 30), ""},
		{`count_values("v", tee_test_total)`, ""},
		{`tee_test_total * on (n) group_left (job) tee_test_total`, ""},
	} {
		_, err := store.Eval(t.Context(), db.Pages(), db.Queryable(), "count("+c.expr+")", now)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.120s: %.300v, want %q", c.expr, err, c.want)
		}
	}
}

// TestLinesOfNamesThatCameAndWent: where each name has few samples, lines with room for all steps are what a query needs; one with too
// many is refused with the numbers before it is evaluated, and the same names in few lines are answered.
func TestLinesOfNamesThatCameAndWent(t *testing.T) {
	o := options(t)
	o.Query.Memory, o.Query.Lookback = quota.New(256<<20, "a test"), 10*time.Second
	db := open(t, o)
	d := &metric.Desc{Name: "tee_test_total", Help: "Test.", Kind: metric.Counter, Labels: []string{"n", "group"}}
	now := time.Now().Truncate(time.Second)
	for round := range 60 {
		var samples []metric.Sample
		for i := range 10 {
			samples = append(samples, metric.Sample{Desc: d, Labels: []string{strconv.Itoa(10*round + i), strconv.Itoa(i % 5)}, Value: 1})
		}
		must(t, db.Append(now.Add(time.Duration(round-60)*10*time.Second), samples))
	}
	const refused = "the limit is 2.1 million: its largest part has 600 lines with 4001 steps each"
	for expr, want := range map[string]string{
		"sum by (n) (tee_test_total)":                                                                refused,
		"sum without (group) (tee_test_total)":                                                       refused,
		"sum by (n) (sum without (group) (tee_test_total))":                                          refused,
		"sum by (group, n) (rate(tee_test_total[30s]))":                                              refused,
		"tee_test_total * 2":                                                                         refused,
		"abs(tee_test_total)":                                                                        refused,
		"tee_test_total + on (n) tee_test_total":                                                     refused,
		"topk(5, tee_test_total)":                                                                    refused,
		`sum by (g) (label_replace(tee_test_total, "g", "$1", "n", "(.*)"))`:                         refused,
		`count_values("v", tee_test_total)`:                                                          "use a longer step or a shorter range, aggregate by fewer labels",
		"sum by (group) (tee_test_total)":                                                            "",
		"sum without (n) (tee_test_total)":                                                           "",
		"sum(tee_test_total)":                                                                        "",
		"sum by (group) (rate(tee_test_total[30s])) / sum by (group) (tee_test_total)":               "",
		"topk(2, sum by (group) (tee_test_total)) + 1":                                               "",
		`label_replace(tee_test_total, "g", "$1", "n", "(.*)")`:                                      "",
		`sum by (group) (label_replace(tee_test_total, "g", "$1", "n", "(.*)"))`:                     "",
		"sum by (group) (tee_test_total) * on (group) group_left () sum by (group) (tee_test_total)": "",
	} {
		_, err := store.EvalRange(t.Context(), db.Pages(), db.Queryable(), expr, now.Add(-600*time.Second), now, 150*time.Millisecond)
		var status interface{ Status() int }
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", expr, err)
		case want != "" && (!errors.As(err, &status) || status.Status() != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want 422 with %q", expr, err, want)
		}
	}
}

// TestPagesAreNeverRefused: the most expensive charts of the page, over all of 15 days on a host with very many series, are far
// within the limits.
func TestPagesAreNeverRefused(t *testing.T) {
	const names, days = 1024, 15 * 24 * time.Hour
	for _, expr := range []string{
		`sum by (process) (rate(tee_process_cpu_seconds_total{job="teescope"}[14400s]))`,
		`sum by (process, syscall) (rate(tee_syscalls_total{job="teescope"}[14400s]))`,
		`histogram_quantile(0.99, sum by (le, process) (rate(tee_syscall_latency_seconds_bucket{job="teescope"}[14400s])))`,
		`max(max_over_time(teescope_source_up[14400s]))`,
		`sum by (process) (avg_over_time(process:tee_syscalls:rate1m[3600s]))`,
	} {
		looked, alone, err := store.Estimate(expr, days, time.Hour, 10*names)
		if err != nil || looked > store.MaxLooked*0.8 || alone > store.MaxAlone/10 {
			t.Errorf("%s: %g values, %g of one series, %v", expr, looked, alone, err)
		}
	}
}

// small is a store with 256 MiB of memory and some series.
func small(t *testing.T, series int) (*store.Store, *quota.Budget, time.Time) {
	t.Helper()
	return smallSince(t, series, 0)
}

// smallSince is small with a second sample of each series, so long before.
func smallSince(t *testing.T, series int, ago time.Duration) (*store.Store, *quota.Budget, time.Time) {
	t.Helper()
	o := options(t)
	o.Query.Memory = quota.New(256<<20, "a test")
	db := open(t, o)
	now := time.Now()
	d := &metric.Desc{Name: "tee_test_total", Help: "Test.", Kind: metric.Counter, Labels: []string{"n"}}
	var samples []metric.Sample
	for i := range series {
		samples = append(samples, metric.Sample{Desc: d, Labels: []string{strconv.Itoa(i)}, Value: 1})
	}
	if ago > 0 {
		must(t, db.Append(now.Add(-ago), samples))
	}
	must(t, db.Append(now, samples))
	return db, o.Query.Memory, now
}

// ask makes a GET request and returns status and body.
func ask(t *testing.T, u string) (int, string) {
	t.Helper()
	resp, err := http.Get(u)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// TestCostlyQueries: queries that would run for minutes are refused before they are evaluated, with their cost and what to do; and what
// rules ask is not.
func TestCostlyQueries(t *testing.T) {
	db, _, now := small(t, 100)
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	for expr, want := range map[string]string{
		"max_over_time((max_over_time(vector(1)[12h:1s]))[1d:1s])":                  "about 3.7 billion values, the limit is 100 million: its most expensive part has 86401 steps with 43200 values each in 1 series",
		"max_over_time((max_over_time(vector(1)[1d:1s]))[10d:1s])":                  "the query would look at about 75 billion values, the limit is 20 billion",
		"sum(max_over_time((max_over_time(vector(1)[1d:1s]))[10d:1s])) + vector(1)": "use a longer step, a shorter range or window, or name fewer series",
	} {
		code, body := ask(t, srv.URL+"/api/v1/query?query="+url.QueryEscape(expr))
		if code != http.StatusUnprocessableEntity || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 422 with %q", expr, code, body, want)
		}
	}
	if _, _, err := db.Steps(t.Context(), "max_over_time((max_over_time(vector(1)[12h:1s]))[1d:1s])", now, now, 0); err == nil {
		t.Error("a page's query was evaluated")
	}
	if _, err := db.Query(t.Context(), "max_over_time((count_over_time(tee_test_total[1h:1s]))[5s:1s])", now); err != nil {
		t.Errorf("a rule's query: %v", err)
	}
}

// TestAnswersBeyondMemory: an answer of a page with very many gaps is refused with the numbers, one of the API with very many points
// too; and then all memory is given back.
func TestAnswersBeyondMemory(t *testing.T) {
	db, memory, now := smallSince(t, 4000, 1000*time.Second)
	_, _, err := db.Steps(t.Context(), `{n=~".+"}`, now.Add(-710*time.Second), now.Add(10*time.Second), time.Second) // samples only in the first and last 10 s
	var status interface{ Status() int }
	if !errors.As(err, &status) || status.Status() != 422 || !strings.Contains(err.Error(), "the answer has 4000 lines, with more than 1398101 values and gaps, which is the limit: use a longer step") {
		t.Errorf("a page: %v", err)
	}
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	q := url.Values{"query": {`{n=~".+"}`}, "start": {strconv.FormatInt(now.Unix(), 10)}, "end": {strconv.FormatInt(now.Unix()+290, 10)}, "step": {"1"}}
	code, body := ask(t, srv.URL+"/api/v1/query_range?"+q.Encode())
	if code != http.StatusUnprocessableEntity || !strings.Contains(body, "all answers together may have 32 MiB") {
		t.Errorf("the API: %d %.300s", code, body)
	}
	await.Event(t, "the memory is given back", func() error {
		if n := memory.Answers.UsedBytes() + memory.Queries.UsedBytes(); n != 0 {
			return fmt.Errorf("%d bytes are reserved", n)
		}
		return nil
	})
}

// TestAnswersOfOthers: while answers that are not sent yet have the memory, further ones are refused at once with 503 and the reason.
func TestAnswersOfOthers(t *testing.T) {
	db, memory, _ := small(t, 10)
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	others, err := memory.Answers.Reserve(memory.Answers.Limit)
	must(t, err)
	for _, path := range []string{"/api/v1/query?query=tee_test_total", "/api/v1/series?match[]=tee_test_total", "/api/v1/labels", "/api/v1/status/config"} {
		code, body := ask(t, srv.URL+path)
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "other answers have 32 MiB of the 32 MiB that all may have") {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	others()
	for _, path := range []string{"/api/v1/query?query=tee_test_total", "/api/v1/series?match[]=tee_test_total", "/api/v1/labels", "/api/v1/status/config"} {
		if code, body := ask(t, srv.URL+path); code != http.StatusOK {
			t.Errorf("%s afterwards: %d %s", path, code, body)
		}
	}
}

// TestQueueOverHTTP: the time of a call counts from its beginning: one that finds no place ends with 503, not with a fault of its
// expression, and one whose client left with none.
func TestQueueOverHTTP(t *testing.T) {
	o := options(t)
	o.Query.Concurrent, o.Query.Timeout = 1, 50*time.Millisecond
	db := open(t, o)
	s := stuck{make(chan struct{}), make(chan struct{})}
	first := make(chan error)
	go func() {
		_, err := store.Eval(context.Background(), db.Pages(), s, "up", time.Now())
		first <- err
	}()
	<-s.in
	srv := httptest.NewServer(db.Handler())
	defer srv.Close()
	code, body := ask(t, srv.URL+"/api/v1/query?query=up")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "waiting for 1 other queries") || !strings.Contains(body, "the limit is 50ms") {
		t.Errorf("%d %s", code, body)
	}
	close(s.out)
	if err := <-first; !errors.As(err, new(promql.ErrQueryTimeout)) {
		t.Errorf("the one that was stuck: %v", err)
	}
}

// TestClientLeaves: a query whose client left ends at its next step.
func TestClientLeaves(t *testing.T) {
	db, memory, now := small(t, 200)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { // minutes, if nobody ends it
		_, _, err := db.Steps(ctx, "sum(quantile_over_time(0.5, tee_test_total[1h:5s]))", now, now.Add(3000*time.Second), time.Second)
		ended <- err
	}()
	await.Event(t, "the query is evaluated", func() error {
		if memory.Queries.UsedBytes() == 0 {
			select {
			case err := <-ended:
				t.Fatal("it has ended: ", err)
			default:
				return errors.New("nothing is reserved")
			}
		}
		return nil
	})
	cancel()
	if err := <-ended; !errors.As(err, new(promql.ErrQueryCanceled)) {
		t.Error(err)
	}
}

// TestSeriesBeyondMemory: a target with more new series than memory allows fails as a whole, with the numbers; targets whose series are
// known go on, and so do the monitor's own.
func TestSeriesBeyondMemory(t *testing.T) {
	var many atomic.Bool
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		n := 10
		if many.Load() && r.URL.Path == "/many" {
			n = 500
		}
		for i := range n {
			fmt.Fprintf(w, "m{i=\"%d\"} 1\n", i)
		}
	}))
	defer target.Close()
	o := options(t)
	o.Query.Memory = quota.New(256<<20, "the memory limit of a test")
	o.Query.Memory.Series = 200
	db := open(t, o)
	host := strings.TrimPrefix(target.URL, "http://")
	c, err := store.ParseScrape(fmt.Appendf(nil, "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n- {job_name: many, metrics_path: /many, static_configs: [{targets: [%[1]q]}]}\n- {job_name: few, static_configs: [{targets: [%[1]q]}]}\n", host), "")
	must(t, err)
	must(t, db.ApplyConfig(c))
	eventually(t, "both targets are up", func() bool { return len(query(t, db, "up == 1", time.Now())) >= 2 })
	many.Store(true)
	eventually(t, "the target with many series fails", func() bool {
		return strings.Contains(db.Failure("many", host), "the most that its memory allows (the memory limit of a test: 256 MiB)")
	})
	eventually(t, "the other one goes on", func() bool {
		return db.Failure("few", host) == "" && len(query(t, db, `up{job="few"} == 1`, time.Now())) == 1
	})
	if n := len(query(t, db, `m{job="many",i="400"}`, time.Now())); n != 0 {
		t.Errorf("%d series of the refused page are stored", n)
	}
	must(t, db.Append(time.Now(), []metric.Sample{{Desc: load, Value: 1}}))
}

// TestManyNames: a chart with the steps of 15 days shows more than 3,000 names, and twenty at the same time, with long expressions,
// are all answered.
func TestManyNames(t *testing.T) {
	db, memory, now := small(t, 3500)
	end := now.Add(299 * time.Second)
	lines, _, err := db.Steps(t.Context(), `{n=~".+"}`, end.Add(-360*time.Second), end, time.Second)
	if err != nil || len(lines) != 3500 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	long := `tee_test_total{n=~"` + strings.Repeat("some-name|", 5000) + `1"}` // 50 kB
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if points, err := store.Eval(t.Context(), db.Pages(), db.Queryable(), long, now); err != nil || len(points) != 1 {
				t.Errorf("%d points, %.300v", len(points), err)
			}
		})
	}
	all.Wait()
	if n := memory.Requests.UsedBytes(); n != 0 {
		t.Errorf("%d bytes are reserved for expressions", n)
	}
}

// TestExpressionsBeyondMemory: an expression whose parsing or evaluation would take too much is refused before it is parsed, with what to
// do, while usual ones of any length are not; an answer that is being sent holds no expression.
func TestExpressionsBeyondMemory(t *testing.T) {
	db, memory, now := small(t, 10)
	for expr, want := range map[string]string{
		"1" + strings.Repeat("+1", 2000):                                                    "shorten the query, with fewer operators",
		"a" + strings.Repeat(" or a", 2000):                                                 "shorten the query, with fewer operators",
		`{a=~"` + strings.Repeat("a{1000}", 200) + `"}`:                                     "simpler regular expressions",
		`{a=~"((abcdefghijkl{10}){10}){10}` + strings.Repeat("(abcdefghij){50}", 30) + `"}`: "simpler regular expressions",
		`{a=~"` + strings.Repeat(`\\pL`, 1000) + `"}`:                                       "simpler regular expressions",
		strings.Repeat("(", 101) + "1" + strings.Repeat(")", 101):                           "more than 100 brackets",
		strings.Repeat("sum(", 90) + "vector(1)" + strings.Repeat(")", 90):                  "",
		"vector(1)" + strings.Repeat("+1", 500):                                             "",
		`vector(1) or {a=~"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}`:                     "",
		"vector(1)" + strings.Repeat(" ", 60_000):                                           "",
	} {
		_, err := store.Eval(t.Context(), db.Pages(), db.Queryable(), expr, now)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %.300v, want %q", expr, err, want)
		}
	}
	q, err := db.Pages().NewInstantQuery(t.Context(), db.Queryable(), nil, "tee_test_total", now)
	must(t, err)
	defer q.Close()
	if memory.Requests.UsedBytes() == 0 {
		t.Error("an expression that waits for its evaluation holds no memory")
	}
	if res := q.Exec(t.Context()); res.Err != nil || memory.Requests.UsedBytes() != 0 || memory.Answers.UsedBytes() == 0 {
		t.Errorf("%v; after the evaluation %d bytes are reserved for expressions and %d for answers", res.Err, memory.Requests.UsedBytes(), memory.Answers.UsedBytes())
	}
}

// TestLargeQueriesInTurn: of queries that each need most of the memory one runs after the other, also while others hold their
// expressions; none is refused.
func TestLargeQueriesInTurn(t *testing.T) {
	db, memory, now := small(t, 1000)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			lines, _, err := db.Steps(t.Context(), fmt.Sprintf(`{n=~".+",job!="%d"}`, i), now.Add(-1000*time.Second), now, time.Second)
			if err != nil || len(lines) != 1000 {
				t.Errorf("%d lines, %v", len(lines), err)
			}
		})
	}
	all.Wait()
	if memory.Queries.UsedBytes() != 0 {
		t.Errorf("%d bytes are still reserved", memory.Queries.UsedBytes())
	}
}
