package formats

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"golang.org/x/perf/benchfmt"

	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/golden"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noValue matches what must not appear, in any format, for a missing value.
var noValue = regexp.MustCompile(`\bNaN\b|[+-]?\bInf\b|<nil>|%!|\b0001-01-01|<no value>|<td[^>]*></td>|\| +\|`)

// TestFormats writes the same documents in every format.
func TestFormats(t *testing.T) {
	docs := documents(t)
	for _, f := range All {
		if f.Name == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("format %q: the name is missing or the doc %q is no sentence", f.Name, f.Doc)
		}
		for _, name := range slices.Sorted(maps.Keys(docs)) {
			t.Run(f.Name+"/"+name, func(t *testing.T) {
				var b bytes.Buffer
				err := f.Write(&b, docs[name])
				if f == summary && len(docs[name].Experiments) != 1 {
					if err == nil || !strings.Contains(err.Error(), "one file for each") {
						t.Errorf("a summary of several results: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				got := b.Bytes()
				if !utf8.Valid(got) {
					t.Error("not UTF-8")
				}
				if f == jsonFormat || f == summary {
					got = bytes.ReplaceAll(got, []byte(`"0001-01-01T00:00:00Z"`), nil) // a time in the document cannot be null
				}
				if bad := noValue.FindAll(withoutStates(got), 5); bad != nil {
					t.Errorf("stands for a missing value: %q", bad)
				}
				got = b.Bytes()
				if f == html && name != wholePage {
					checkParts(t, name, string(got))
				} else if f != summary && (name != "suite" || f == text) { // the other formats write one document after the other; a summary has what json has
					checkGolden(t, filepath.Join("testdata", name+"."+f.Name), got)
				}
				if err := f.Write(failing{}, docs[name]); !errors.Is(err, io.ErrClosedPipe) && len(got) > 0 {
					t.Errorf("a writer that fails gives %v", err)
				}
			})
		}
	}
}

// wholePage is the document whose whole page is kept; the browser tests open it.
const wholePage = "four"

// keptParts are the parts of the pages of other documents that are kept, each in a file of its own: "top" is what stands
// before the first section, the others are sections by their ids. Sections that the whole page has are kept once more
// where their values are missing.
var keptParts = map[string][]string{
	"blank":     {"top"},
	"empty":     {"top"},
	"invalid":   {"top", "e1-guards"},
	"ladder":    {"top", "e1-why"},
	"missing":   {"top", "e1-platforms", "e1-costs", "e1-runs", "e1-why", "e1-guards", "e1-harness", "e1-published", "e1-environments", "e1-missing", "e1-raw", "e1-reproduce"},
	"overhead":  {"top", "e1-published", "findings"},
	"platforms": {"top", "e1-platforms"},
	"relative":  {"top"},
	"suite":     {"top", "summary", "platforms"},
	"sweep":     {"top", "e1-costs"},
}

// checkParts compares the parts of a document's page that are kept.
func checkParts(t *testing.T, name, page string) {
	t.Helper()
	parts := partsOf(page)
	if len(keptParts[name]) == 0 {
		t.Errorf("keptParts has no part of %s", name)
	}
	for _, id := range keptParts[name] {
		if parts[id] == "" {
			t.Errorf("the page has no part %s", id)
		}
		checkGolden(t, filepath.Join("testdata", "html", name+"-"+strings.TrimPrefix(id, "e1-")+".html"), []byte(parts[id]))
	}
}

var section = regexp.MustCompile(`(?s)<section id="([^"]+)">.*?</section>\n`)

// partsOf cuts a page into its parts, by their names.
func partsOf(page string) map[string]string {
	_, body, _ := strings.Cut(page, "<main>\n")
	body, _, _ = strings.Cut(body, "</main>")
	parts := map[string]string{"top": body}
	for i, m := range section.FindAllStringSubmatchIndex(body, -1) {
		if i == 0 {
			parts["top"] = body[:m[0]]
		}
		parts[body[m[2]:m[3]]] = body[m[0]:m[1]]
	}
	return parts
}

// withoutStates leaves out the one place where +Inf is a word of the format.
func withoutStates(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`le="+Inf"`), nil) }

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func checkGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		golden.Write(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at `go test ./internal/report/formats -update` and git diff", path)
	}
}

func written(t *testing.T, f *report.Format, doc report.Document) string {
	t.Helper()
	var b strings.Builder
	if err := f.Write(&b, doc); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestMissingIsSaid: for the document in which everything is missing, every format that prints values has the word
// and the reason.
func TestMissingIsSaid(t *testing.T) {
	doc := documents(t)["missing"]
	for _, f := range All {
		out := written(t, f, doc)
		if !strings.Contains(out, "missing") {
			t.Errorf("%s does not say that anything is missing", f.Name)
		}
		reason := "no run in native has startup_ready_seconds: the worker printed no ready line"
		if f == csvSamples || f == gobench || f == text {
			reason = "the worker printed no ready line"
		}
		if !strings.Contains(out, reason) {
			t.Errorf("%s does not give the reason %q:\n%s", f.Name, reason, out)
		}
	}
}

// TestConclusionsAreSaid: each format that has sentences has the headline of every primary comparison.
func TestConclusionsAreSaid(t *testing.T) {
	for name, doc := range documents(t) {
		for _, f := range []*report.Format{markdown, jsonFormat, csvComparisons} {
			out := written(t, f, doc)
			for _, e := range doc.Experiments {
				for i := range e.Comparisons {
					if c := &e.Comparisons[i]; c.Primary && !strings.Contains(strings.NewReplacer(`\[`, "[", `""`, `"`).Replace(out), strings.TrimPrefix(c.Headline, string(c.Verdict)+": ")) {
						t.Errorf("%s of %s does not say %q", f.Name, name, c.Headline)
					}
				}
			}
		}
	}
}

// TestHeadlines: no headline has more than 25 words or more than one ratio, in the golden documents and in all results that are
// shipped.
func TestHeadlines(t *testing.T) {
	docs := documents(t)
	for _, pattern := range []string{"../../../experiments/results/*.json*", "../../../e2e/browser/testdata/results/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 4 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			e, err := result.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			docs[file] = report.Document{Experiments: []*result.Experiment{verdict.Concluded(e, verdict.Options{Diff: environment.Diff, Catalog: catalog})}, Catalog: catalog}
		}
	}
	ratio := regexp.MustCompile(`[\d.]+x`)
	said := 0
	for name, doc := range docs {
		page := report.Compose(doc)
		for _, part := range page.Parts {
			for _, c := range part.Conclusions {
				said++
				if n := len(strings.Fields(c.Headline)); n > verdict.MostWords {
					t.Errorf("%s: %d words: %s", name, n, c.Headline)
				}
				if n := len(ratio.FindAllString(c.Headline, -1)); n > 1 {
					t.Errorf("%s: %d ratios: %s", name, n, c.Headline)
				}
			}
		}
		for _, e := range doc.Experiments {
			for _, c := range e.Comparisons {
				if n := len(strings.Fields(c.Headline)); n > verdict.MostWords {
					t.Errorf("%s: %d words: %s", name, n, c.Headline)
				}
			}
		}
	}
	if said < 30 {
		t.Errorf("only %d headlines", said)
	}
}

// TestStandInsAreSaid: in the page of every format a stand-in's word comes before its ratio, it has no grade and is not called a
// cost, and a report of several arms begins with the table of arms.
func TestStandInsAreSaid(t *testing.T) {
	doc := documents(t)["four"]
	e := doc.Experiments[0]
	part := report.Compose(doc).Parts[0]
	if part.Arms == nil || len(part.Arms.Rows) != len(part.Conclusions) || !slices.Equal(part.Arms.Columns, []string{"arm", "cost", "sure?"}) {
		t.Fatalf("table of arms: %+v", part.Arms)
	}
	stand := 0
	for i, c := range part.Conclusions {
		standIn := e.Comparisons[slices.IndexFunc(e.Comparisons, func(x result.Comparison) bool {
			return x.Primary && x.Headline == c.Headline || strings.HasSuffix(x.Headline, c.Headline)
		})].StandIn != ""
		row := part.Arms.Rows[i]
		if !standIn {
			continue
		}
		stand++
		if c.Kind != "stand-in" || c.Word != "stand-in" || c.Number != "ratio" || strings.Contains(c.Headline, "cost") || slices.ContainsFunc(c.Facts, func(f report.Fact) bool { return f.Name == "grade" }) {
			t.Errorf("conclusion %+v", c)
		}
		if !strings.HasPrefix(row[1].Text, "stand-in ") || !strings.HasPrefix(row[2].Text, "no: stand-in") || row[2].Kind != "stand-in" {
			t.Errorf("row %+v", row)
		}
		if slices.ContainsFunc(c.Next, func(s string) bool { return strings.Contains(s, "probably decide") }) {
			t.Errorf("more pairs make no VM of an emulator: %q", c.Next)
		}
	}
	if stand < 3 { // the guest, what stands in for TDX, and one against the other
		t.Errorf("%d stand-ins", stand)
	}
	number := regexp.MustCompile(`[\d.]+x \\?\[`)
	for _, f := range []*report.Format{text, markdown, html} {
		out := written(t, f, doc)
		first := number.FindStringIndex(out)
		if table := strings.Index(out, "sure?"); first == nil || table < 0 || table > first[0] {
			t.Errorf("%s does not begin with the table of arms", f.Name)
		}
	}
}

// TestOneDirection: the first ratio of a headline is the cost that stands below it and in the table, and the guards of a document are
// those of the product.
func TestOneDirection(t *testing.T) {
	ratio, said := regexp.MustCompile(`[\d.]+x`), 0
	for name, doc := range documents(t) {
		for _, part := range report.Compose(doc).Parts {
			for _, c := range part.Conclusions {
				got := ratio.FindString(c.Headline)
				switch {
				case c.Big.Reason != "" && c.Kind == "invalid" && got == "":
				case c.Big.Reason != "" || got != strings.TrimLeft(c.Big.Text, "≤≥ "):
					t.Errorf("%s: %s %q is the headline above cost %s (%s)", name, c.Word, c.Headline, c.Big.Text, c.Big.Reason)
				default:
					said++
				}
			}
		}
		for _, e := range doc.Experiments {
			for _, g := range e.Guards {
				if g.ID != "" && !slices.ContainsFunc(verdict.Guards, func(o verdict.Guard) bool { return o.ID == g.ID }) {
					t.Errorf("%s: there is no guard %s", name, g.ID)
				}
			}
		}
	}
	if said < 15 {
		t.Errorf("%d headlines with a ratio", said)
	}
}

// TestNotANumber: a value that could not be computed is missing, not "NaN". JSON cannot hold it and returns an error.
func TestNotANumber(t *testing.T) {
	doc := documents(t)["overhead"]
	e := doc.Experiments[0]
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		c.Ratio, c.Cost, c.CostLow, c.CostHigh, c.MDE = num(math.NaN()), num(math.NaN()), num(math.Inf(-1)), num(math.Inf(1)), num(math.NaN())
	}
	for i := range e.Runs {
		e.Runs[i].Metrics[0].Value = num(math.NaN())
	}
	for _, f := range All {
		var b bytes.Buffer
		switch err := f.Write(&b, doc); {
		case (f == jsonFormat || f == summary) && err == nil:
			t.Errorf("%s writes what is not JSON", f.Name)
		case f != jsonFormat && f != summary && err != nil:
			t.Errorf("%s: %v", f.Name, err)
		}
		if bad := noValue.FindAll(withoutStates(b.Bytes()), 5); bad != nil {
			t.Errorf("%s: %q", f.Name, bad)
		}
	}
	for _, p := range report.Plots(doc) {
		checkPlot(t, "not a number", p)
	}
}

func TestTextWidth(t *testing.T) {
	for name, doc := range documents(t) {
		for n, l := range strings.Split(written(t, text, doc), "\n") {
			if w := utf8.RuneCountInString(l); w > columns && !strings.HasPrefix(l, "  teescope ") {
				t.Errorf("%s, line %d has %d columns: %s", name, n+1, w, l)
			}
		}
	}
}

// TestTwentyPlatforms: a table of many platforms is readable on a terminal of 80 columns: each platform's name stands in one
// block, above all its values, and the date tells results apart that were made years apart.
func TestTwentyPlatforms(t *testing.T) {
	e := joined(t, 20)
	out := written(t, text, report.Document{Experiments: []*result.Experiment{e}, Made: day})
	_, table, _ := strings.Cut(out, "\nenvironment ")
	table, _, _ = strings.Cut("environment "+table, "\n\nCost ratios")
	var dates []string
	for n, l := range strings.Split(table, "\n") {
		if w := utf8.RuneCountInString(l); w > narrow {
			t.Errorf("line %d has %d columns: %s", n+1, w, l)
		}
		if strings.HasPrefix(l, "date ") {
			dates = append(dates, strings.Fields(l)[1:]...)
		}
	}
	if len(dates) != len(e.Environments) || dates[0] != "2026-11-20" || dates[len(dates)-1] != "2045-11-20" {
		t.Errorf("dates %v of %d environments", dates, len(e.Environments))
	}
	for _, v := range e.Environments {
		if got := strings.Count(strings.Join(strings.Fields(table), " "), v.ID); got != 1 {
			t.Errorf("%s stands there %d times", v.ID, got)
		}
	}
}

// TestTwentyPlatformsOnAPhone: below 720 pixels, the page of a report shows each cell on a line of its own behind its column's
// name, so every value of a table of many platforms must name its platform.
func TestTwentyPlatformsOnAPhone(t *testing.T) {
	e := joined(t, 20)
	page := written(t, html, report.Document{Experiments: []*result.Experiment{e}, Made: day})
	_, narrow, ok := strings.Cut(page, "@media (max-width:719px){")
	if !ok || !strings.Contains(narrow, "td::before{content:attr(data-label)") {
		t.Fatal("a narrow page does not show the names of columns")
	}
	_, table, _ := strings.Cut(page, "<caption>Platforms</caption>")
	table, _, ok = strings.Cut(table, "</table>")
	if !ok {
		t.Fatal("the page has no table of platforms")
	}
	rows := strings.Count(table, `role="rowheader"`)
	if rows < 5 {
		t.Errorf("the table has %d rows", rows)
	}
	for _, v := range e.Environments {
		if got := strings.Count(table, `data-label="`+v.ID+`"`); got != rows {
			t.Errorf("%s names %d values of %d", v.ID, got, rows)
		}
	}
}

// TestCSVColumns: each row has as many fields as the head, none of them empty, and the head is the same for every
// document.
func TestCSVColumns(t *testing.T) {
	for _, f := range []*report.Format{csvSamples, csvComparisons} {
		head := ""
		for name, doc := range documents(t) {
			rows, err := csv.NewReader(strings.NewReader(written(t, f, doc))).ReadAll()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if h := strings.Join(rows[0], " "); head == "" {
				head = h
			} else if h != head {
				t.Errorf("%s has other columns: %s", name, h)
			}
			for n, r := range rows {
				for c, cell := range r {
					if strings.TrimSpace(cell) == "" {
						t.Errorf("%s, %s, row %d: %s is empty", f.Name, name, n, rows[0][c])
					}
				}
			}
		}
	}
}

// TestCSVHasNoFormulas: a spreadsheet computes nothing of a document's texts, and numbers stay numbers.
func TestCSVHasNoFormulas(t *testing.T) {
	for _, f := range []*report.Format{csvSamples, csvComparisons} {
		for name, doc := range documents(t) {
			for _, e := range doc.Experiments {
				e.Name = `=HYPERLINK("http://host/","x")`
				e.Workload.Name = "@SUM(A1)"
				e.ID = "-2+3+cmd|' /C calc'!A0"
			}
			rows, err := csv.NewReader(strings.NewReader(written(t, f, doc))).ReadAll()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, r := range rows[1:] {
				if r[0] != "'-2+3+cmd|' /C calc'!A0" || r[1] != `'=HYPERLINK("http://host/","x")` || r[2] != "'@SUM(A1)" {
					t.Errorf("%s, %s: %q", f.Name, name, r[:3])
				}
				for _, cell := range r {
					if _, err := strconv.ParseFloat(cell, 64); err != nil && strings.ContainsAny(cell[:1], "=+-@\t\r") {
						t.Errorf("%s, %s: %q", f.Name, name, cell)
					}
				}
			}
		}
	}
}

func TestJSONIsTheDocument(t *testing.T) {
	for name, doc := range documents(t) {
		var back struct{ Experiments []json.RawMessage }
		if err := json.Unmarshal([]byte(written(t, jsonFormat, doc)), &back); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, e := range doc.Experiments {
			want, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := json.Compact(&got, back.Experiments[i]); err != nil || got.String() != string(want) {
				t.Errorf("%s: experiment %d comes back changed (%v)", name, i, err)
			}
		}
	}
}

// TestOpenMetricsParses reads the exposition with Prometheus' own parser.
func TestOpenMetricsParses(t *testing.T) {
	for name, doc := range documents(t) {
		out := written(t, openmetrics, doc)
		if !strings.HasSuffix(out, "# EOF\n") {
			t.Errorf("%s does not end in # EOF", name)
		}
		p := textparse.NewOpenMetricsParser([]byte(out), promlabels.NewSymbolTable())
		series, seen := 0, map[string]bool{}
		for {
			kind, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if kind != textparse.EntrySeries {
				continue
			}
			series++
			var l promlabels.Labels
			p.Labels(&l)
			if seen[l.String()] {
				t.Errorf("%s: %s stands twice", name, l)
			}
			seen[l.String()] = true
			if n := l.Get("__name__"); !strings.HasPrefix(n, prefix) {
				t.Errorf("%s: %s has a foreign name", name, n)
			}
		}
		if series == 0 && len(doc.Experiments) > 0 {
			t.Errorf("%s has no series", name)
		}
	}
}

// TestGobenchParses reads the lines with the parser of benchstat.
func TestGobenchParses(t *testing.T) {
	lines := map[string]int{}
	for name, doc := range documents(t) {
		r := benchfmt.NewReader(strings.NewReader(written(t, gobench, doc)), name)
		for r.Scan() {
			switch rec := r.Result().(type) {
			case *benchfmt.Result:
				lines[name]++
				if len(rec.Values) == 0 || rec.GetConfig("workload") == "" {
					t.Errorf("%s: %s has no values or no workload", name, rec.Name)
				}
			case *benchfmt.SyntaxError:
				t.Errorf("%s: %v", name, rec)
			}
		}
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]int{"overhead": 19, "ladder": 30, "sweep": 96, "platforms": 36, "missing": 0, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			if lines[name] != want {
				t.Errorf("%s has %d benchmark lines, want %d", name, lines[name], want)
			}
		})
	}
}

// TestHTMLStandsAlone: no script, and nothing that a browser would fetch.
func TestHTMLStandsAlone(t *testing.T) {
	fetches := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|<object|\bsrc=|\bhref=|url\(|@import|@font-face`)
	for name, doc := range documents(t) {
		if found := fetches.FindAllString(written(t, html, doc), -1); found != nil {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// TestHTMLEscapes: text from a document stays text, also inside drawings.
func TestHTMLEscapes(t *testing.T) {
	doc := documents(t)["ladder"]
	e := doc.Experiments[0]
	evil := `<script>alert("1")</script>`
	e.Name, e.Environments[2].ID = evil, evil
	for i := range e.Runs {
		if e.Runs[i].Env == "gramine-sgx" {
			e.Runs[i].Env = evil
		}
	}
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		c.Headline += evil
		c.Reasons = append(c.Reasons, evil)
		if c.Treatment == "gramine-sgx" {
			c.Treatment = evil
		}
	}
	if out := written(t, html, doc); strings.Contains(out, "<script") {
		t.Error("text of the document became markup")
	}
}

// TestPlots: each drawing is well-formed and decodes, alone and on a page.
func TestPlots(t *testing.T) {
	want := map[string][]string{
		"overhead": {"cost-ratios", "distribution-default", "run-order", "counters"},
		"ladder":   {"cost-ratios", "distribution-default", "run-order", "ladder", "counters"},
		"sweep":    {"cost-ratios", "average-costs", "scaling", "distribution-threads-1", "run-order"},
		"empty":    nil, "blank": nil, "missing": nil,
	}
	for name, doc := range documents(t) {
		var names []string
		for _, p := range report.Plots(doc) {
			names = append(names, p.Name)
			checkPlot(t, name, p)
		}
		if w, ok := want[name]; ok && !slices.Equal(names, w) {
			t.Errorf("%s has the plots %q, want %q", name, names, w)
		}
		if i := slices.Sorted(slices.Values(names)); len(slices.Compact(i)) != len(names) {
			t.Errorf("%s: two plots have one name: %q", name, names)
		}
	}
}
