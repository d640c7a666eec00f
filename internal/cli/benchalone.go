//go:build linux

package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/result"
)

// printAlone says of a result with one environment that nothing was compared, and how to measure the others on another
// machine: with the same job, order and version, so that the results can be joined. name is what the user ran.
func (f *benchFlags) printAlone(w io.Writer, name, path string, e *result.Experiment) {
	if e.Design.Kind != result.Single || len(e.Environments) == 0 {
		return
	}
	here := e.Environments[0].ID
	fmt.Fprintf(w, "\nNOTHING WAS COMPARED: %s ran alone.\n", here)
	if name == "" {
		fmt.Fprint(w, "  The load was a share of this environment's own capacity. To compare under equal load, give --param rate on both machines.\n")
		return
	}
	left := make([]string, len(e.Design.LeftOut))
	for i, x := range e.Design.LeftOut {
		left[i] = x.Env
	}
	what, suffix := "another machine", "other"
	line := []string{"teescope", "bench", "run", quoted(name)}
	switch {
	case len(left) > 0:
		what, suffix = "a machine that has "+strings.Join(left, ", "), strings.ReplaceAll(strings.Join(left, "-"), "/", "-")
		line = append(line, "--variants", quoted(strings.Join(left, ",")))
	default:
		for _, text := range f.envs {
			line = append(line, "--env", quoted(text))
		}
		if len(f.variants) > 0 {
			line = append(line, "--variants", quoted(strings.Join(f.variants, ",")))
		}
	}
	for _, kv := range f.params {
		line = append(line, "--param", quoted(kv))
	}
	if f.metric != "" {
		line = append(line, "--metric", quoted(f.metric))
	}
	if f.noCounters {
		line = append(line, "--no-counters")
	}
	out := strings.TrimSuffix(filepath.Base(path), ".json") + "-" + suffix + ".json"
	line = append(line, "--pairs", strconv.Itoa(e.Design.PairsPlanned), "--seed", strconv.FormatUint(e.Design.Seed, 10), "--out", quoted(out))
	fmt.Fprintf(w, "  on %s, with teescope %s:\n    %s\n  then, with both files:\n    teescope compare %s %s\n", what, e.Tool.Version, strings.Join(line, " "), quoted(path), quoted(out))
}
