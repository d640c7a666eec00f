package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/teescope/teescope/internal/await"
)

// The history that both servers scrape has a sample of each series every spacing. Queries are evaluated in the middle between two samples:
// Prometheus 2 and 3 differ about a sample at the begin of a range. With rateInterval, five samples are in a range, and all rates and their
// sums are exact: Prometheus 2 and 3 add up inexact numbers in different ways, so their last digits differ.
const (
	spacing = 4 * time.Second
	rounds  = 30
	step    = 3 * spacing
	// rateInterval is Grafana's $__rate_interval for that step and the timeInterval of deploy/grafana/provisioning, 5 s: the larger one of
	// the step and one timeInterval more, and of four of them.
	rateInterval = 5 * spacing
)

// TestDashboardsWithPrometheus sends what Grafana sends for each dashboard, panel and choice to a monitor and to a stock Prometheus that
// scraped the same samples. Both answer alike, byte for byte.
func TestDashboardsWithPrometheus(t *testing.T) {
	t.Parallel()
	exe := tool(t, "prometheus", "prometheus")
	all := readDashboards(t)
	first := time.Now().Add(-10 * time.Minute).Truncate(time.Second) // clock: samples of the last hour are taken
	text, n := history(t, all, first)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(text))
	}))
	defer pages.Close()
	config := filepath.Join(t.TempDir(), "config.yaml")
	scrape := fmt.Sprintf("scrape_configs:\n- job_name: recorded\n  honor_labels: true\n  scrape_interval: 5s\n  static_configs:\n  - targets: [%q]\n", strings.TrimPrefix(pages.URL, "http://"))
	if err := os.WriteFile(config, []byte(scrape), 0o600); err != nil {
		t.Fatal(err)
	}
	ours := startMonitor(t, "monitor", "--sources", "^self$", "--config", config)
	theirs := startPrometheus(t, exe, config)
	last := first.Add((rounds - 1) * spacing)
	for name, m := range map[string]*monitor{"the monitor": ours, "Prometheus": theirs} {
		await.Event(t, name+" has the history", func() error {
			_, results := m.ask(t, "query", url.Values{"query": {`count({job="recorded"})`}, "time": {seconds(last)}})
			if want := fmt.Sprintf(`"%d"]`, n); len(results) != 1 || !strings.Contains(results[0], want) {
				return fmt.Errorf("it has %q, not %d series", results, n)
			}
			return nil
		})
	}
	own := slices.Collect(maps.Keys(ours.query(t, `teescope_source_up{job="teescope"}`, "instance")))
	if len(own) != 1 {
		t.Fatalf("the monitor's own series are of %q", own)
	}
	c := comparison{ours: ours, theirs: theirs, own: own[0], from: first, to: last}
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) { c.compare(t, d) })
	}
	t.Logf("%d answers are compared, about %d series", c.answers, n)
	if c.answers < 300 {
		t.Errorf("only %d answers are compared", c.answers)
	}
}

// dashboardFile is what Grafana reads of a file of deploy/grafana/dashboards to ask its data source.
type dashboardFile struct {
	name        string
	Panels      []grafanaPanel
	Annotations struct {
		List []struct{ Name, Expr, Step string }
	}
	Templating struct {
		List []struct {
			Name  string
			Query json.RawMessage
		}
	}
}

type grafanaPanel struct {
	Title   string
	Targets []grafanaQuery
}

type grafanaQuery struct {
	Expr    string
	Instant bool
}

func readDashboards(t *testing.T) (all []dashboardFile) {
	t.Helper()
	files, err := filepath.Glob("../deploy/grafana/dashboards/*.json")
	if err != nil || len(files) < 4 {
		t.Fatalf("dashboards %v: %v", files, err)
	}
	for _, file := range files {
		d := dashboardFile{name: strings.TrimSuffix(filepath.Base(file), ".json")}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// choice is a variable of a dashboard whose values come from the data source: those of a label of the series that a selector matches.
type choice struct{ name, selector, label string }

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func (d dashboardFile) choices(t *testing.T) (all []choice) {
	t.Helper()
	for _, v := range d.Templating.List {
		var q struct{ Query string }
		if json.Unmarshal(v.Query, &q) != nil { // the data source itself
			continue
		}
		m := labelValues.FindStringSubmatch(q.Query)
		if m == nil {
			t.Fatalf("variable %s: %q is no label_values(SELECTOR, LABEL)", v.Name, q.Query)
		}
		all = append(all, choice{v.Name, m[1], m[2]})
	}
	return all
}

// expressions are all queries of a dashboard, with the choice of everything.
func (d dashboardFile) expressions(t *testing.T) (all []string) {
	t.Helper()
	chosen := map[string]string{}
	for _, c := range d.choices(t) {
		all, chosen[c.name] = append(all, c.selector), ".*"
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, a.Expr)
	}
	for i := range all {
		all[i] = interpolate(t, all[i], chosen)
	}
	return all
}

var variableOf = regexp.MustCompile(`\$(\w+)`)

// interpolate replaces the variables of a query as Grafana does.
func interpolate(t *testing.T, expr string, chosen map[string]string) string {
	t.Helper()
	return variableOf.ReplaceAllStringFunc(expr, func(name string) string {
		if name == "$__rate_interval" {
			return rateInterval.String()
		}
		value, ok := chosen[name[1:]]
		if !ok {
			t.Errorf("%s: there is no variable %s", expr, name)
		}
		return value
	})
}

// choose returns what Grafana writes for several chosen values of a variable: a regular expression inside a string of PromQL. See
// interpolateQueryExpr and prometheusSpecialRegexEscape of its data source for Prometheus.
func choose(values []string) string {
	escaped := make([]string, len(values))
	for i, v := range values {
		escaped[i] = special.ReplaceAllString(strings.ReplaceAll(v, `\`, `\\\\`), `\\$0`)
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

var special = regexp.MustCompile(`[$^*{}\[\]'+?.()|]`)

// history is a page with all samples of the series that the dashboards ask for. Those of benchmarks are from the format's golden files;
// the others have the labels that docs/metrics.md lists, and values that the queries name.
func history(t *testing.T, dashboards []dashboardFile, first time.Time) (text string, series int) {
	t.Helper()
	var b strings.Builder
	add := func(name, labels string, value func(round int) float64) {
		for i := range rounds {
			fmt.Fprintf(&b, "%s{%s} %s %d\n", name, labels, strconv.FormatFloat(value(i), 'f', -1, 64), first.Add(time.Duration(i)*spacing).UnixMilli())
		}
		series++
	}
	golden, err := filepath.Glob("../internal/report/formats/testdata/*.openmetrics")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range golden {
		for _, m := range regexp.MustCompile(`(?m)^(teescope_bench\w*)\{(.*)\} (\S+)$`).FindAllStringSubmatch(readText(t, file), -1) {
			value, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, m[0], err)
			}
			if !known[m[1]+m[2]] {
				add(m[1], m[2], func(int) float64 { return value })
			}
			known[m[1]+m[2]], known[m[1]] = true, true
		}
	}
	rows := map[string][]string{} // the type and the labels of each metric
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(readText(t, "../docs/metrics.md"), -1) {
		rows[m[1]] = []string{m[2]}
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(m[3], -1) {
			rows[m[1]] = append(rows[m[1]], l[1])
		}
	}
	named, wanted := listNames(t, dashboards)
	for _, name := range slices.Sorted(maps.Keys(named)) {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		row, ok := rows[name]
		if !ok {
			row, ok = rows[base]
		}
		if known[name] || name == "" {
			continue
		}
		if !ok {
			t.Errorf("docs/metrics.md has no %s", name)
			continue
		}
		values := map[string][]string{"instance": {"instance.0", "instance.1"}}
		count := 2
		for _, l := range row[1:] {
			values[l] = append(named[name][l], l+".0", l+".1", l+".2")
			count = max(count, len(values[l]))
		}
		if strings.HasSuffix(name, "_bucket") {
			values["le"] = []string{"0.25", "0.5", "1", "+Inf"}
			count = 8
		}
		for i := range 2 * count {
			var pairs []string
			for _, l := range slices.Sorted(maps.Keys(values)) {
				at := i / 2
				if l == "instance" {
					at = i
				}
				pairs = append(pairs, fmt.Sprintf("%s=%q", l, values[l][at%len(values[l])]))
			}
			key := strings.Join(pairs, ",")
			if known[name+key] {
				continue
			}
			known[name+key] = true
			number := series
			add(name, key, func(round int) float64 {
				v := float64(1024*(number%50+1) + 32*(round/3)) // a gauge that changes now and then
				value, ok := wanted[name]
				switch {
				case ok && i < count: // of half the series
					v = value
				case row[0] == "gauge":
				case number%5 == 4 && round > rounds/2: // a counter that began again
					v = float64(64 + 16*round)
				default:
					v = float64(1<<16 + 16*(number%50+1)*(round+round%2))
				}
				return v
			})
		}
	}
	return b.String(), series
}

// listNames lists what the dashboards' queries name: values of labels by metric and label, and the value that they want of a metric.
func listNames(t *testing.T, dashboards []dashboardFile) (out map[string]map[string][]string, wanted map[string]float64) {
	t.Helper()
	out, wanted = map[string]map[string][]string{}, map[string]float64{}
	for _, d := range dashboards {
		for _, expr := range d.expressions(t) {
			e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
			if err != nil {
				t.Fatalf("%s: %s: %v", d.name, expr, err)
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.EQLC {
					v, isMetric := b.LHS.(*parser.VectorSelector)
					if number, ok := b.RHS.(*parser.NumberLiteral); ok && isMetric {
						wanted[v.Name] = number.Val
					}
				}
				v, ok := n.(*parser.VectorSelector)
				if !ok {
					return nil
				}
				if out[v.Name] == nil {
					out[v.Name] = map[string][]string{}
				}
				for _, m := range v.LabelMatchers {
					if m.Name == "__name__" || m.Value == ".*" {
						continue
					}
					for _, value := range strings.Split(m.Value, "|") {
						if !slices.Contains(out[v.Name][m.Name], value) {
							out[v.Name][m.Name] = append(out[v.Name][m.Name], value)
						}
					}
				}
				return nil
			})
		}
	}
	return out, wanted
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// comparison compares what two servers answer about one history.
type comparison struct {
	ours, theirs *monitor
	own          string // the monitor's own instance, which Prometheus did not scrape
	from, to     time.Time
	answers      int
}

// compare asks both servers for everything that Grafana asks for when a dashboard is open: with the choice of everything, and with two
// values of each variable.
func (c *comparison) compare(t *testing.T, d dashboardFile) {
	everything, two := map[string]string{}, map[string]string{}
	for _, v := range d.choices(t) {
		values := c.values(t, v, interpolate(t, v.selector, everything))
		c.values(t, v, interpolate(t, v.selector, two))
		if len(values) == 0 {
			t.Fatalf("variable %s has no values", v.name)
		}
		everything[v.name], two[v.name] = ".*", choose(values[:min(2, len(values))])
	}
	for name, chosen := range map[string]map[string]string{"everything": everything, "two values": two} {
		t.Run(name, func(t *testing.T) {
			series := 0
			for _, p := range d.Panels {
				for _, q := range p.Targets {
					expr := interpolate(t, q.Expr, chosen)
					got := 0
					if q.Instant {
						got = c.compareAnswers(t, p.Title, "query", url.Values{"query": {expr}, "time": {seconds(c.lastTime())}})
					} else {
						got = c.compareAnswers(t, p.Title, "query_range", c.span(expr, step))
					}
					if got == 0 && name == "everything" {
						t.Errorf("%s: no series for %s", p.Title, expr)
					}
					series += got
				}
			}
			for _, a := range d.Annotations.List {
				every, err := time.ParseDuration(a.Step)
				if err != nil {
					t.Fatal(err)
				}
				series += c.compareAnswers(t, a.Name, "query_range", c.span(interpolate(t, a.Expr, chosen), every))
			}
			if series == 0 {
				t.Error("no query has series")
			}
		})
	}
}

// lastTime is the last time at which queries are evaluated.
func (c *comparison) lastTime() time.Time { return c.to.Add(-spacing / 2) }

// span asks for a query over the history, from the first time with a whole range before it.
func (c *comparison) span(expr string, every time.Duration) url.Values {
	return url.Values{"query": {expr}, "start": {seconds(c.from.Add(rateInterval - spacing/2))}, "end": {seconds(c.lastTime())}, "step": {fmt.Sprint(every.Seconds())}}
}

// values returns the values of a variable. Grafana asks for them in two ways, which depend on its version of the data source.
func (c *comparison) values(t *testing.T, v choice, selector string) []string {
	t.Helper()
	span := url.Values{"match[]": {selector}, "start": {seconds(c.from)}, "end": {seconds(c.to)}}
	c.compareAnswers(t, v.name, "series", span)
	path := "label/" + v.label + "/values?" + span.Encode()
	var lists [2][]string
	for i, m := range []*monitor{c.ours, c.theirs} {
		body, err := fetch(m.url + "/api/v1/" + path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		var a struct{ Data []string }
		if err := json.Unmarshal([]byte(body), &a); err != nil {
			t.Fatalf("%s: %v: %.300s", path, err, body)
		}
		lists[i] = slices.DeleteFunc(a.Data, func(s string) bool { return v.label == "instance" && s == c.own })
	}
	if !slices.Equal(lists[0], lists[1]) {
		t.Errorf("variable %s: the monitor has the values %q, Prometheus %q", v.name, lists[0], lists[1])
	}
	c.answers++
	return lists[1]
}

// compareAnswers compares the answers to one request, and returns how many series they have.
func (c *comparison) compareAnswers(t *testing.T, what, path string, form url.Values) int {
	t.Helper()
	kind, got := c.ours.ask(t, path, form)
	wantKind, want := c.theirs.ask(t, path, form)
	got = slices.DeleteFunc(got, func(s string) bool { return strings.Contains(s, fmt.Sprintf(`"instance":%q`, c.own)) })
	c.answers++
	if kind != wantKind || !slices.Equal(got, want) {
		t.Errorf("%s: %s %s:\nthe monitor answers %s with %d series, Prometheus %s with %d; first difference:\n%s", what, path, form.Encode(), kind, len(got), wantKind, len(want), firstDifference(got, want))
	}
	return len(want)
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		a, b := "nothing", "nothing"
		if i < len(got) {
			a = got[i]
		}
		if i < len(want) {
			b = want[i]
		}
		if a != b {
			return a + "\n" + b
		}
	}
	return "none"
}

// ask sends a request of Prometheus' API as Grafana does, and returns the kind of answer and its series, sorted.
func (m *monitor) ask(t *testing.T, path string, form url.Values) (kind string, series []string) {
	t.Helper()
	resp, err := http.PostForm(m.url+"/api/v1/"+path, form)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	var a struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || a.Status != "success" {
		t.Fatalf("%s %s: %s: %v %s", path, form.Encode(), resp.Status, err, a.Error)
	}
	var list []any
	if path == "series" {
		err = json.Unmarshal(a.Data, &list)
	} else {
		var d struct {
			ResultType string
			Result     []any
		}
		err = json.Unmarshal(a.Data, &d)
		kind, list = d.ResultType, d.Result
	}
	if err != nil {
		t.Fatalf("%s %s: %v: %.300s", path, form.Encode(), err, a.Data)
	}
	for _, s := range list {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		series = append(series, string(text))
	}
	slices.Sort(series)
	return kind, series
}

// seconds is a time as Prometheus' API takes it.
func seconds(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000) }

// startPrometheus runs a stock Prometheus with a configuration and waits until it is ready.
func startPrometheus(t *testing.T, exe, config string, more ...string) *monitor {
	t.Helper()
	port := freePort(t)
	args := append([]string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(t.TempDir(), "tsdb"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port)}, more...)
	m := &monitor{Program: start(t, exe, args...), url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	await.Event(t, "Prometheus is ready", func() error { // it listens earlier
		resp, err := http.Get(m.url + "/-/ready")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return m
}
