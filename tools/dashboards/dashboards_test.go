package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const folder = root + "/deploy/grafana/dashboards"

// files are the dashboards of the repository, by name.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(folder + "/*.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(name), ".json")] = text
	}
	if len(out) != len(all) {
		t.Errorf("%s has %d dashboards, and %d are described", folder, len(out), len(all))
	}
	return out
}

// TestGenerated: the files are what the description says.
func TestGenerated(t *testing.T) {
	help, err := readHelp(root)
	if err != nil {
		t.Fatal(err)
	}
	there := files(t)
	for _, b := range all {
		t.Run(b.name, func(t *testing.T) {
			text, err := b.encode(help)
			if err != nil {
				t.Fatal(err)
			}
			if string(text) != string(there[b.name]) {
				t.Errorf("%s.json is not what tools/dashboards describes: run `go -C tools/dashboards run .`", b.name)
			}
		})
	}
}

// TestSchema: the files are what Grafana's schema describes. Each is then damaged at every kind of place, once: an object gets a field that
// the schema does not know, and a value another type. All that is refused.
func TestSchema(t *testing.T) {
	tried := map[string]bool{}
	for name, text := range files(t) {
		t.Run(name, func(t *testing.T) {
			if err := validate(text); err != nil {
				t.Fatal(err)
			}
			var d any
			if err := json.Unmarshal(text, &d); err != nil {
				t.Fatal(err)
			}
			damage(d, "", func(place string) {
				if tried[place] {
					return
				}
				tried[place] = true
				damaged, err := json.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				if err := validate(damaged); err == nil {
					t.Errorf("%s is taken", place)
				}
			})
		})
	}
	if len(tried) < 200 {
		t.Errorf("only %d kinds of places are damaged: %q", len(tried), slices.Sorted(maps.Keys(tried)))
	}
}

// free are places where the schema takes anything.
var free = []string{
	".templating.list[].query.", // what a data source asks for its values is its own matter
}

// damage changes v at one place after another, calls try with the kind of the place, and takes the change back. Panels differ by their type.
func damage(v any, place string, try func(place string)) {
	if slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(place+".", p) }) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		v["unheardOf"] = true
		try(place + " with an unknown field")
		delete(v, "unheardOf")
		if plugin, ok := v["type"].(string); ok && strings.HasSuffix(place, "panels[]") {
			place = strings.TrimSuffix(place, "[]") + "[" + plugin + "]"
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			was, at := v[name], place+"."+name
			switch was := was.(type) {
			case map[string]any:
				v[name] = "a word"
			case []any:
				v[name] = map[string]any{"a": "b"}
			case string:
				v[name] = 1.5
			default: // a number or a truth value
				v[name] = fmt.Sprint(was)
			}
			if !slices.ContainsFunc(free, func(p string) bool { return at+"." == p }) {
				try(at + " with another type")
			}
			v[name] = was
			damage(was, at, try)
		}
	case []any:
		for i, item := range v {
			v[i] = []any{}
			try(place + "[] with another type")
			v[i] = item
			damage(item, place+"[]", try)
		}
	}
}

// TestDamaged: mistakes that people make are refused, and the message names the place.
func TestDamaged(t *testing.T) {
	text := string(files(t)["containers"])
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown field of a panel":     {`"options": {`, `"optoins": {`, "optoins"},
		"unknown field of its options": {`"graphMode": `, `"graphmode": `, "panels[1].options.graphMode"},
		"wrong type of an option":      {`"wideLayout": true`, `"wideLayout": "yes"`, "panels[1].options.wideLayout"},
		"unknown field of its style":   {`"fillOpacity": `, `"fillopacity": `, "fillopacity"},
		"unknown type of panel":        {`"type": "stat"`, `"type": "singlestat"`, `panels[1]: the schema has no type of panel "singlestat"`},
		"no type of panel":             {`"type": "stat",`, ``, "panels[1]"},
		"unknown field of a query":     {`"expr": "count(`, `"expression": "count(`, "expression"},
		"query of another data source": {`"type": "prometheus"`, `"type": "loki"`, `a data source of type "loki"`},
		"no dashboard":                 {text, "[]", "array"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 1
			if strings.Contains(name, "another data source") {
				n = -1
			}
			damaged := strings.Replace(text, c.from, c.to, n)
			if damaged == text {
				t.Fatalf("the dashboard has no %s", c.from)
			}
			if err := validate([]byte(damaged)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}

// TestDescription: a metric's meaning has one home.
func TestDescription(t *testing.T) {
	help := map[string]string{"a_total": "All of a.", "b_seconds": "Time of b.", "c": "What c is."}
	for name, c := range map[string]struct {
		panel     panel
		want, err string
	}{
		"one metric":                {panel{queries: []query{{expr: `topk(10, sum by (x, y) (rate(a_total{x=~"$x"}[$__rate_interval])))`}}}, "All of a.", ""},
		"with a note":               {panel{note: "Here in cores.", queries: []query{{expr: `sum(a_total{})`}}}, "All of a. Here in cores.", ""},
		"a histogram":               {panel{queries: []query{{expr: `sum by (le) (rate(b_seconds_bucket{}[$__rate_interval]))`}}}, "Time of b.", ""},
		"an info":                   {panel{queries: []query{{expr: `c_info{}`}}}, "What c is.", ""},
		"own words of one":          {panel{about: "A.", queries: []query{{expr: `rate(a_total{x=~"$x"}[$__rate_interval])`}}}, "", "that metric's help is its description"},
		"own words of what is made": {panel{about: "Share of a.", queries: []query{{expr: `a_total{} / 2`}}}, "Share of a.", ""},
		"several without words":     {panel{queries: []query{{expr: `a_total{} / b_seconds_sum{}`}}}, "", `["a_total" "b_seconds"]`},
		"unknown without words":     {panel{queries: []query{{expr: `d{}`}}}, "", "no description"},
		"a note beside own words":   {panel{about: "A.", note: "B.", queries: []query{{expr: `a_total{} / 2`}}}, "", "note"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.panel.description(help)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}
