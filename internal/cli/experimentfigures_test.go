package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/verdict"
)

// TestExperimentFigures: each ratio with an interval in docs/experiments.md is that of a comparison in a result which its
// section names, and each kept result of an experiment is named there.
func TestExperimentFigures(t *testing.T) {
	page, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	figure := regexp.MustCompile(`\d[\d.]*x \[[^\]]+\]`)
	file := regexp.MustCompile(`experiments/results/[\w-]+\.json\.gz`)
	named, figures := map[string]bool{}, 0
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		var said strings.Builder
		for _, name := range file.FindAllString(section, -1) {
			named[name] = true
			e, err := result.Read("../../" + name)
			if err != nil {
				t.Fatalf("%s: %v", title, err)
			}
			for i := range e.Comparisons {
				said.WriteString(verdict.Sentence(e, &e.Comparisons[i]))
			}
		}
		for _, f := range figure.FindAllString(strings.ReplaceAll(section, "\n", " "), -1) {
			figures++
			if !strings.Contains(said.String(), f) {
				t.Errorf("%s: no result that it names has %s", title, f)
			}
		}
	}
	kept, err := os.ReadDir("../../experiments/results")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kept {
		if name := "experiments/results/" + f.Name(); strings.HasSuffix(name, ".gz") && !named[name] {
			t.Errorf("docs/experiments.md does not name %s", name)
		}
	}
	if figures == 0 {
		t.Error("docs/experiments.md has no figure with an interval")
	}
}

// TestCompressedResults: commands that read a result take it compressed, but for attest, which would change the file.
func TestCompressedResults(t *testing.T) {
	const file = "../../experiments/results/e4-7zip.json.gz"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"report", file, "--format", "text", "--out", "-"}, "runsc costs 1.062x"},
		{[]string{"compare", file}, "runsc costs 1.062x"},
		{[]string{"verify", file}, "unattested"},
		{[]string{"attest", file, "--provider", "sim"}, "run gunzip first"},
	} {
		t.Run(c.want, func(t *testing.T) {
			out, errs, _ := run(t, c.args...)
			if !strings.Contains(out+errs, c.want) {
				t.Errorf("%q: %s%s; want %q", c.args, out, errs, c.want)
			}
		})
	}
}
