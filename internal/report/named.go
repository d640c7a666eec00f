package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// nameOf returns the name of a result of the document. Results of one name get the parameters in which they differ:
// "redis (pipeline=1)" next to "redis (pipeline=8)".
func (d Document) nameOf(e *result.Experiment) string {
	name := plainName(e)
	if name == "" {
		return ""
	}
	own := paramsOf(e)
	differs := map[string]bool{}
	for _, other := range d.Experiments {
		if other == e || plainName(other) != name {
			continue
		}
		theirs := paramsOf(other)
		for k, v := range own {
			if w, has := theirs[k]; !has || w != v {
				differs[k] = true
			}
		}
	}
	if len(differs) == 0 {
		return name
	}
	var with []string
	for _, k := range slices.Sorted(maps.Keys(differs)) {
		with = append(with, k+"="+own[k])
	}
	return name + " (" + strings.Join(with, ", ") + ")"
}

func plainName(e *result.Experiment) string { return orDefault(e.Name, e.Workload.Name) }

// paramsOf returns the values of each parameter over the cases, in their order: "1/2/4" for a sweep.
func paramsOf(e *result.Experiment) map[string]string {
	values := map[string][]string{}
	for i := range e.Cases {
		for k, v := range e.Cases[i].Params {
			if v == "" {
				v = strconv.Quote(v)
			}
			if !slices.Contains(values[k], v) {
				values[k] = append(values[k], v)
			}
		}
	}
	out := map[string]string{}
	for k, v := range values {
		out[k] = strings.Join(v, "/")
	}
	return out
}
