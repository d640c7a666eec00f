package report

import (
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestNameOf: results of one name are told apart by the parameters in which they differ, and only by those.
func TestNameOf(t *testing.T) {
	of := func(name, workload string, cases ...map[string]string) *result.Experiment {
		e := &result.Experiment{Name: name, Workload: result.Workload{Name: workload}}
		for _, p := range cases {
			e.Cases = append(e.Cases, result.Case{Params: p})
		}
		return e
	}
	p := func(pipeline, keys, binary string) map[string]string {
		return map[string]string{"pipeline": pipeline, "keys": keys, "binary": binary}
	}
	for _, c := range []struct {
		name string
		es   []*result.Experiment
		want []string
	}{
		{"one", []*result.Experiment{of("", "redis", p("1", "9", ""))}, []string{"redis"}},
		{"one parameter", []*result.Experiment{of("", "redis", p("1", "9", "")), of("", "redis", p("8", "9", ""))}, []string{"redis (pipeline=1)", "redis (pipeline=8)"}},
		{"two parameters", []*result.Experiment{of("", "redis", p("1", "9", "")), of("", "redis", p("8", "9", "/a"))}, []string{`redis (binary="", pipeline=1)`, "redis (binary=/a, pipeline=8)"}},
		{"a sweep", []*result.Experiment{of("", "redis", p("1", "9", ""), p("2", "9", "")), of("", "redis", p("1", "9", ""))}, []string{"redis (pipeline=1/2)", "redis (pipeline=1)"}},
		{"equal ones", []*result.Experiment{of("", "redis", p("1", "9", "")), of("", "redis", p("1", "9", ""))}, []string{"redis", "redis"}},
		{"other names", []*result.Experiment{of("a", "redis", p("1", "9", "")), of("b", "redis", p("8", "9", "")), of("", "fio", p("4", "9", ""))}, []string{"a", "b", "fio"}},
		{"a parameter of one", []*result.Experiment{of("", "redis", p("1", "9", "")), of("", "redis", map[string]string{"pipeline": "1", "keys": "9"})}, []string{`redis (binary="")`, "redis"}},
		{"unnamed", []*result.Experiment{of("", "", p("1", "9", "")), of("", "", p("8", "9", ""))}, []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Document{Experiments: c.es}
			for i, e := range c.es {
				if got := d.nameOf(e); got != c.want[i] {
					t.Errorf("%s: result %d is named %q, want %q", c.name, i, got, c.want[i])
				}
			}
		})
	}
}

// TestNamesOnPage: the title, the headings and the summary of a page have these names.
func TestNamesOnPage(t *testing.T) {
	d := Document{}
	for _, pipeline := range []string{"1", "8"} {
		d.Experiments = append(d.Experiments, &result.Experiment{Workload: result.Workload{Name: "redis"},
			Cases: []result.Case{{ID: "default", Params: map[string]string{"pipeline": pipeline, "keys": "9"}}}})
	}
	page := Compose(d)
	if page.Title != "redis (pipeline=1), redis (pipeline=8)" {
		t.Errorf("title %q", page.Title)
	}
	for i, want := range []string{"redis (pipeline=1)", "redis (pipeline=8)"} {
		t.Run(want, func(t *testing.T) {
			if got := page.Parts[i].Title; got != want {
				t.Errorf("heading %d is %q, want %q", i, got, want)
			}
			if got := page.Summary[0].Tables[0].Rows[i][0].Text; got != want {
				t.Errorf("row %d of the summary is %q, want %q", i, got, want)
			}
		})
	}
}
