package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/experiments"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/reproduce"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// TestResultsPage: docs/lab/results.md has each case of each kept result, and each experiment that has none.
func TestResultsPage(t *testing.T) {
	files, err := filepath.Glob("../../experiments/results/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d results, %v", len(files), err)
	}
	docs := map[string]string{} // of the experiments, by name
	var names, missing []string
	for _, file := range experiments.Files.List() {
		data, err := experiments.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		x, err := bench.LoadExperiment(file, data)
		if err != nil {
			t.Fatal(err)
		}
		docs[x.Name] = x.Doc
		names = append(names, x.Name)
	}
	var b bytes.Buffer
	b.WriteString("# Kept results\n\nAll cases of the results under [experiments/results](../../experiments/results). What they mean: [experiments.md](../experiments.md), and for each published\n" +
		"table the [pages of the documents](../sources/README.md). A cost above 1 is worse. In brackets is the interval (95 %).\n" +
		"`go test ./internal/cli -run TestResultsPage -update-sources` writes this page.\n")
	kept := map[string]bool{}
	for _, file := range files {
		e, err := result.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		x := reproduce.ExperimentOf(e.Name, names)
		kept[x] = true
		writeResult(&b, strings.TrimPrefix(file, "../../"), docs[x], e)
	}
	for _, n := range names {
		if !kept[n] {
			missing = append(missing, "`"+n+"`")
		}
	}
	fmt.Fprintf(&b, "\n## Experiments without a kept result\n\n%d of %d: %s.\n", len(missing), len(names), strings.Join(missing, ", "))
	const page = "../../docs/lab/results.md"
	if *updatePages {
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was, err := os.ReadFile(page); err != nil || !bytes.Equal(was, b.Bytes()) {
		t.Errorf("docs/lab/results.md is out of date (%v): `go test ./internal/cli -run TestResultsPage -update-sources` writes it", err)
	}
}

// writeResult writes the section of one result.
func writeResult(b *bytes.Buffer, file, doc string, e *result.Experiment) {
	name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
	fmt.Fprintf(b, "\n## %s\n\n", name)
	if doc != "" {
		fmt.Fprintf(b, "%s ", doc)
	}
	fmt.Fprintf(b, "Measured on %s with teescope %s: [result](../../%s).\n", e.StartedAt.UTC().Format("2006-01-02"), e.Tool.Version, file)
	if len(e.Comparisons) == 0 {
		b.WriteString("\nIt has one environment, so nothing is compared.\n")
		return
	}
	fmt.Fprintf(b, "\n| case | arm | against | cost, by %s | verdict | grade | pairs |\n|---|---|---|---|---|---|---|\n", e.Design.Primary)
	for i := range e.Comparisons {
		c := &e.Comparisons[i]
		if !c.Primary {
			continue
		}
		cost, word := "none", string(c.Verdict)
		if c.Cost != nil && c.CostLow != nil && c.CostHigh != nil {
			cost = metric.TimesOf(*c.Cost, *c.CostLow, *c.CostHigh)
		}
		if c.Verdict == stats.Invalid {
			cost, word = "none", "refused"
		}
		if c.StandIn != "" {
			word += " (stand-in)"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d |\n", strings.ReplaceAll(c.Case, "|", `\|`), c.Treatment, c.Baseline, cost, word, c.Grade, c.Pairs)
	}
}
