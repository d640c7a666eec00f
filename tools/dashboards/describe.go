package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// board describes a dashboard.
type board struct {
	name, title, about string
	refresh, from      string
	variables          []variable
	findings           string // the query of the findings that are marked on every panel
	rows               []row
}

// variable is a choice at the top of a dashboard, of the values that its query returns.
type variable struct{ name, label, query string }

// row is a headline and the panels below it, from left to right.
type row struct {
	title  string
	panels []panel
}

// panel describes a panel. Its place follows from those before it.
type panel struct {
	kind  kind
	title string
	unit  string
	w, h  uint32 // in Grafana's grid, which is 24 wide
	// about says what the panel shows. A panel of one metric has none: it shows that metric's help, and after it the note.
	about, note string
	signed      bool // the axis of lines need not begin at 0
	queries     []query
}

// query is a query, and how its series are named; of one series or of a table, not at all.
type query struct{ expr, legend string }

// readHelp returns what the metrics mean, by name: of the monitor's from docs/metrics.md, of a benchmark's result from what its format
// writes, which the golden files have. Both are generated from the descriptions in the code.
func readHelp(root string) (map[string]string, error) {
	help := map[string]string{}
	golden, err := filepath.Glob(filepath.Join(root, "internal/report/formats/testdata/*.openmetrics"))
	if err != nil {
		return nil, err
	}
	for _, file := range append(golden, filepath.Join(root, "docs/metrics.md")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read what the metrics mean: %w", err)
		}
		for _, m := range helpLine.FindAllSubmatch(text, -1) {
			help[string(m[1])+string(m[3])] = string(m[2]) + string(m[4])
		}
	}
	return help, nil
}

// helpLine is a line of metadata in OpenMetrics, or a row of the tables of docs/metrics.md: name, type, labels, help.
var helpLine = regexp.MustCompile("(?m)^(?:# HELP (\\S+) (.+)|\\| `(\\w+)` \\| [^|]* \\| [^|]* \\| (.+) \\|)$")

// metricsOf lists the metrics of the panel's queries. Their series may have endings that the metrics lack.
func (p panel) metricsOf(help map[string]string) (names []string) {
	for _, q := range p.queries {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(q.expr, -1) {
			for _, ending := range []string{"", "_bucket", "_sum", "_count", "_info"} {
				name, ok := strings.CutSuffix(word, ending)
				if ok && help[name] != "" {
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
					break
				}
			}
		}
	}
	return names
}

// asItIs matches a query that shows a metric as it is, or its rate: of all series, summed up, or only of the largest.
var asItIs = regexp.MustCompile(`^(?:topk\(\d+, )?(?:sum(?: by \([\w, ]+\) )?\()?(?:rate\()?\w+\{[^}]*\}(?:\[\$__rate_interval\])?\)*$`)

// description says what the panel shows. What a metric means is said in one place, so a panel that shows one as it is must have no words
// of its own for it.
func (p panel) description(help map[string]string) (string, error) {
	names := p.metricsOf(help)
	isPlain := len(p.queries) == 1 && len(names) == 1 && asItIs.MatchString(p.queries[0].expr)
	switch {
	case p.about != "" && p.note != "":
		return "", errors.New("it has a note beside its own description")
	case p.about != "" && isPlain:
		return "", fmt.Errorf("it describes %s in its own words; that metric's help is its description", names[0])
	case p.about != "":
		return p.about, nil
	case len(names) != 1:
		return "", fmt.Errorf("it has no description, and shows not one metric but %q", names)
	}
	return strings.TrimSpace(help[names[0]] + " " + p.note), nil
}
