package bench

import (
	"fmt"
	"slices"
	"strings"
)

// SelectEnvironments limits an experiment to the environments with these labels, in its own order, so
// the first remaining one is the baseline.
func (e *Experiment) SelectEnvironments(labels []string) error {
	var have []string
	for _, env := range e.Environments {
		first, _, _ := strings.Cut(env, ",")
		label, _, _ := strings.Cut(first, "=")
		have = append(have, label)
	}
	for _, l := range labels {
		if !slices.Contains(have, l) {
			return fmt.Errorf("experiment %s: no variant %q; the variants are %s", e.Name, l, strings.Join(have, ", "))
		}
	}
	var left []string
	for i, env := range e.Environments {
		if slices.Contains(labels, have[i]) {
			left = append(left, env)
		}
	}
	e.Environments = left
	return nil
}
