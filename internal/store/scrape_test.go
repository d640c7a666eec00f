package store_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/store"
)

func TestParseScrape(t *testing.T) {
	want := map[string]string{
		"good.yml":              "",
		"unknown-key.yml":       "line 5: unknown key scrape_intervall",
		"unknown-discovery.yml": "line 3: unknown key ec2_sd_configs",
		"not-ours.yml":          "line 3: unknown key remote_read",
		"own-job.yml":           "job_name teescope is the monitor's own",
		"bad-duration.yml":      `not a valid duration string: "often"`,
		"bad-yaml.yml":          "line 2: found unexpected end of stream",
		"list.yml":              "line 1: want keys and values",
		"twice.yml":             `multiple scrape configs with job name "a"`,
	}
	files, err := os.ReadDir("testdata/scrape")
	must(t, err)
	if len(files) != len(want) {
		t.Errorf("%d files, want %d", len(files), len(want))
	}
	for name, want := range want {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata/scrape", name))
			must(t, err)
			c, err := store.ParseScrape(text, "testdata/scrape", "analysis")
			switch {
			case want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case want == "" && !slices.Equal(c.Jobs(), []string{"files", "http", "pods", "static"}):
				t.Errorf("jobs %v", c.Jobs())
			case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("error %v, want one line with %q", err, want)
			}
		})
	}
	if c, err := store.ParseScrape(nil, ""); err != nil || len(c.Jobs()) != 0 {
		t.Errorf("empty text: %v, %v", c, err)
	}
}

// TestScrapeForms: it does not matter how a file is written: JSON or YAML, lines, the order of keys, aliases.
func TestScrapeForms(t *testing.T) {
	type target struct {
		ScrapePool, ScrapeInterval string
		Labels                     map[string]string
	}
	scraping := map[string]string{} // URLs: a scraper takes seconds to know its targets, so all begin first
	const job = `{"job_name": "a", "scrape_interval": "7s", "static_configs": [{"targets": ["localhost:1"], "labels": {"yes": "no", "n": "1e3"}}]}`
	for name, text := range map[string]string{
		"alone":            `{"scrape_configs": [` + job + `]}`,
		"ours first":       `{"analysis": {"every": "15s"}, "scrape_configs": [` + job + `]}`,
		"ours last":        `{"scrape_configs": [` + job + `], "analysis": {"every": "15s"}}`,
		"ours around":      `{"analysis": {}, "scrape_configs": [` + job + `], "sources": {"disk": {"on": true}}}`,
		"lines":            "{\n\t\"analysis\": {\n\t\t\"every\": \"15s\"\n\t}, \"scrape_configs\":\n[" + job + "\n]}",
		"key on its line":  "{\"analysis\": {\"every\": \"15s\"},\n\"scrape_configs\": [" + job + "]}\n",
		"value below":      "analysis: {every:\n  15s}\nscrape_configs:\n- " + job + "\n",
		"carriage return":  "analysis: {every: 15s}\r\nscrape_configs:\r\n- " + job + "\r\n",
		"mark":             "\ufeffscrape_configs:\n- " + job + "\n",
		"comment":          "# ours\nanalysis: # scrape_configs:\n  every: 15s\n\nscrape_configs: # yours\n- " + job + "\n",
		"text of ours":     "analysis:\n  doc: |\n    scrape_configs:\n    - job_name: b\nscrape_configs:\n- " + job + "\n",
		"alias to ours":    "analysis: {every: &i 7s}\nscrape_configs:\n- {job_name: a, scrape_interval: *i, static_configs: [{targets: ['localhost:1'], labels: {'yes': 'no', n: '1e3'}}]}\n",
		"alias to theirs":  "scrape_configs: &x\n- " + job + "\nanalysis: *x\n",
		"list in ours":     "sources: &x\n- " + job + "\nscrape_configs: *x\n",
		"merge in a job":   "analysis: &d {scrape_interval: 7s}\nscrape_configs:\n- {<<: *d, job_name: a, static_configs: [{targets: ['localhost:1'], labels: {'yes': 'no', n: '1e3'}}]}\n",
		"merge at the top": "analysis: &d\n  scrape_configs:\n  - " + job + "\n<<: *d\n",
		"document marks":   "%YAML 1.1\n---\nscrape_configs:\n- " + job + "\n...\n",
		"quoted keys":      "'analysis': {}\n\"scrape_configs\":\n- " + job + "\n",
	} {
		c, err := store.ParseScrape([]byte(text), "", "analysis", "sources")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := open(t, options(t))
		must(t, s.ApplyConfig(c))
		srv := httptest.NewServer(s.Handler())
		defer srv.Close()
		scraping[name] = srv.URL
	}
	for name, url := range scraping {
		t.Run(name, func(t *testing.T) {
			var d struct{ ActiveTargets []target }
			eventually(t, "the target", func() bool {
				get(t, url, "targets", &d)
				d.ActiveTargets = slices.DeleteFunc(d.ActiveTargets, func(g target) bool { return g.ScrapePool == "teescope" })
				return len(d.ActiveTargets) > 0
			})
			if got := fmt.Sprint(d.ActiveTargets); got != "[{a 7s map[instance:localhost:1 job:a n:1e3 yes:no]}]" {
				t.Errorf("the targets are %s", got)
			}
		})
	}
	for text, want := range map[string]string{
		"scrape_configs:\n- job_name: a\nscrape_configs:\n- job_name: b\n":                                          "line 3: repeated key scrape_configs, as in line 1",
		"analysis: {}\n---\nscrape_configs:\n- job_name: a\n":                                                       "line 2: a second YAML document; want one",
		"analysis: {}\nsources: &s {n: &x often}\n\nscrape_configs: [{job_name: a,\nscrape_interval: *x}]":          `line 4: scrape_configs: not a valid duration string: "often"`,
		"analysis: {}\nscrape_configs: [{job_name: a},\n{job_name: b,\n  sample_limits: 1}]":                        "line 4: unknown key sample_limits",
		"{\"analysis\": {},\n\n\"scrape_configs\": [{\"job_name\": \"a\", \"sample_limit\": \"x\"}]}":               `line 3: "x": want a whole number`,
		"analysis: {}\nglobal:\n  scrape_interval: never\n":                                                         `line 3: not a valid duration string: "never"`,
		"analysis: {}\nremote_write:\n- {url: 'http://a'}\n- {urll: 'http://b'}":                                    "line 4: unknown key urll",
		"scrape_configs:\n- job_name: a\nremote_write:\n- {url: 'http://a', name: x}\n- {url: 'http://b', name: x}": `line 5: remote_write: found multiple remote write configs with job name "x"`,
		"remote_write:\n- url: 'http://a'\n- name: b":                                                               "line 3: remote_write: url for remote_write is empty",
		"remote_write: [{url: 'http://a', protobuf_message: v3}]":                                                   "line 1: remote_write: invalid protobuf_message value: unknown type for remote write protobuf message v3, supported: prometheus.WriteRequest, io.prometheus.write.v2.Request",
		"remote_write:\n- {url: 'http://a', basic_auth: {username: b}, bearer_token: c}":                            "line 2: remote_write: at most one of basic_auth, oauth2, bearer_token & bearer_token_file must be configured",
		"remote_write: {url: 'http://a'}":                                                                           "line 1: want a list",
		"scrape_configs: &a [*a]":                                                                                   "line 1: the document is too large, or an alias contains itself",
		"scrape_configs: {}":                                                                                        "line 1: want a list",
		"scrape_configs:\n- job_name: ''":                                                                           "line 2: scrape_configs: job_name is empty",
	} {
		t.Run(text, func(t *testing.T) {
			if _, err := store.ParseScrape([]byte(text), "", "analysis", "sources"); err == nil || err.Error() != want {
				t.Errorf("%s\nerror %v, want %s", text, err, want)
			}
		})
	}
}

// checkScrape parses a text and checks the promise: each job of the file is there, or the file is refused with the line.
func checkScrape(t *testing.T, text []byte) {
	t.Helper()
	c, err := store.ParseScrape(text, "", "analysis")
	if err != nil {
		if !whereRefused.MatchString(err.Error()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200q is refused with %q, want one line that names the line", text, err)
		}
		return
	}
	var file struct {
		Jobs []struct {
			Name string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Errorf("%.200q is taken, but %v", text, err)
	}
	var want []string
	for _, j := range file.Jobs {
		want = append(want, j.Name)
	}
	if got := c.Jobs(); !slices.Equal(got, want) {
		t.Errorf("%.200q: the jobs are %q, want %q", text, got, want)
	}
}

// whereRefused is a line, or an error of the YAML library about all of the text.
var whereRefused = regexp.MustCompile(`\bline [1-9]|^(control characters are not allowed|invalid .*UTF-8|incomplete UTF-|.*did not find|.*found |.*invalid leading UTF-8|unknown anchor|.*exceeded|.*not allowed)`)

// TestDamagedScrapeConfig: whatever is damaged, each job of the file is there, or the file is refused with the line.
func TestDamagedScrapeConfig(t *testing.T) {
	text, err := os.ReadFile("testdata/scrape/good.yml")
	must(t, err)
	for m := range mutate.Lines(text, " \n:[]{},\"") {
		t.Run(m.Name, func(t *testing.T) { checkScrape(t, m.Data) })
	}
	var any map[string]any
	must(t, yaml.Unmarshal(text, &any))
	pretty, err := json.MarshalIndent(any, "", " ")
	must(t, err)
	for m := range mutate.Lines(pretty, " \n:[]{},\"") {
		t.Run("JSON, "+m.Name, func(t *testing.T) { checkScrape(t, m.Data) })
	}
}

func FuzzParseScrape(f *testing.F) {
	files, err := filepath.Glob("testdata/scrape/*.yml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkScrape(t, text) })
}

// eventually waits for the effect of another goroutine.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await.Event(t, what, func() error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestScrape: a target joins, is listed with its metadata, is kept within its
// limit, and leaves, with its series, when the configuration no longer names it.
func TestScrape(t *testing.T) {
	var series atomic.Int64
	series.Store(2)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# HELP app_requests_total Requests.\n# TYPE app_requests_total counter")
		for i := range series.Load() {
			fmt.Fprintf(w, "app_requests_total{path=\"%d\"} 7\n", i)
		}
	}))
	defer target.Close()
	s := open(t, options(t))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	apply := func(text []byte) {
		t.Helper()
		c, err := store.ParseScrape(text, "")
		must(t, err)
		must(t, s.ApplyConfig(c))
	}
	apply(fmt.Appendf(nil, `
scrape_configs:
  - job_name: app
    scrape_interval: 500ms
    scrape_timeout: 500ms
    sample_limit: 3
    static_configs:
      - targets: [%q]
`, strings.TrimPrefix(target.URL, "http://")))
	must(t, s.Append(time.Now(), []metric.Sample{{Desc: load, Value: 1}}))

	eventually(t, "scraped series", func() bool {
		return len(query(t, s, `app_requests_total{job="app"} == 7`, time.Now())) == 2
	})
	var d struct {
		ActiveTargets []struct{ ScrapePool, Health, LastError string }
	}
	get(t, srv.URL, "targets", &d)
	if len(d.ActiveTargets) != 2 {
		t.Errorf("targets %+v, want app and teescope", d)
	}
	var md map[string][]struct{ Type string }
	get(t, srv.URL, "metadata", &md)
	if len(md["app_requests_total"]) != 1 || len(md["node_load1"]) != 1 {
		t.Errorf("metadata %v, want that of both targets", md)
	}

	series.Store(10)
	eventually(t, "a target past its limit is down", func() bool {
		p := query(t, s, `up{job="app"}`, time.Now())
		return len(p) == 1 && p[0].Value == 0
	})
	if p := query(t, s, `app_requests_total`, time.Now()); len(p) > 2 {
		t.Errorf("%d series of a target past its limit", len(p))
	}

	apply(nil)
	eventually(t, "the target leaves", func() bool {
		get(t, srv.URL, "targets", &d)
		return len(d.ActiveTargets) == 1
	})
	eventually(t, "its series end", func() bool { return len(query(t, s, `{job="app"}`, time.Now())) == 0 })
}

// TestPageTooLarge: a target whose page never ends, or is too large, is down for a reason that names the limit, and its
// page is not read to its end. The others are not affected.
func TestPageTooLarge(t *testing.T) {
	const line = "app_requests_total{path=\"/a/path/of/some/length/to/make/the/line/as/long/as/those/of/an/agent/are/or/so\"} 7\n"
	part := bytes.Repeat([]byte(line), 1000)
	var most atomic.Int64 // bytes of an endless page that a connection took
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		switch r.URL.Path {
		case "/sound":
			fmt.Fprint(w, "app_requests_total 7\n")
		case "/large":
			_, _ = w.Write(bytes.Repeat(part, 2<<20/len(part)))
		case "/compressed":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(bytes.Repeat(part, 2<<20/len(part)))
			_ = z.Close()
		case "/endless":
			var n int
			for err := error(nil); err == nil; {
				var more int
				more, err = w.Write(part)
				n += more
			}
			most.Store(max(most.Load(), int64(n)))
		}
	}))
	defer srv.Close()
	instance := strings.TrimPrefix(srv.URL, "http://")
	s := open(t, options(t))
	bad := []string{"large", "compressed", "endless"}
	var b strings.Builder
	b.WriteString("global: {body_size_limit: 1MiB}\nscrape_configs:\n")
	for _, job := range append([]string{"sound"}, bad...) {
		fmt.Fprintf(&b, "- {job_name: %s, metrics_path: /%s, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: [%q]}]}\n", job, job, instance)
	}
	must(t, s.ApplyConfig(parsed(t, b.String())))
	for _, job := range bad {
		t.Run(job, func(t *testing.T) {
			const want = "body size limit exceeded: its page is larger than 1MiB, the body_size_limit of its job"
			eventually(t, job+" is down for the reason", func() bool { return s.Failure(job, instance) == want })
			if up := one(t, s, `max_over_time(up{job="`+job+`"}[1h])`, time.Now()); up != 0 {
				t.Errorf("%s was up", job)
			}
			if p := query(t, s, `last_over_time(app_requests_total{job="`+job+`"}[1h])`, time.Now()); len(p) > 0 {
				t.Errorf("%v of %s is stored", p, job)
			}
		})
	}
	eventually(t, "the other target is up", func() bool {
		return len(query(t, s, `count_over_time(app_requests_total{job="sound"}[1h]) >= 2`, time.Now())) == 1
	})
	eventually(t, "reading the endless page stops", func() bool { return most.Load() > 0 })
	// Twice the limit and 1 MiB are read; the rest is what kernels buffer.
	if n := most.Load(); n > 3<<20+64<<20 {
		t.Errorf("%d bytes of a page that never ends were taken", n)
	}
}

// TestClocksApart: the samples of a target have the monitor's time, whatever its own clock says. What a page dates in the
// future is refused, and costs no other sample.
func TestClocksApart(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Header().Set("Date", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		fmt.Fprintf(w, "app_time_seconds %d\nearly 1 %d\nlast 1\n", time.Now().Add(time.Hour).Unix(), time.Now().Add(time.Hour).UnixMilli())
	}))
	defer srv.Close()
	s := open(t, options(t))
	before := time.Now()
	must(t, s.ApplyConfig(parsed(t, fmt.Sprintf("scrape_configs: [{job_name: app, scrape_interval: 500ms, scrape_timeout: 500ms, static_configs: [{targets: [%q]}]}]",
		strings.TrimPrefix(srv.URL, "http://")))))
	for _, name := range []string{"app_time_seconds", "last", "up"} {
		t.Run(name, func(t *testing.T) {
			eventually(t, name+" is stored again and again", func() bool {
				return len(query(t, s, `count_over_time(`+name+`{job="app"}[1h]) >= 3`, time.Now())) == 1
			})
			now := time.Now()
			if at := one(t, s, `timestamp(`+name+`{job="app"})`, now); at < float64(before.Unix()) || at > float64(now.Unix()+1) {
				t.Errorf("%s has the time %.0f, asked from %d to %d", name, at, before.Unix(), now.Unix())
			}
		})
	}
	if p := query(t, s, `early`, time.Now().Add(time.Hour)); len(p) > 0 {
		t.Errorf("stored of the future: %v", p)
	}
}
