package config

import (
	"os"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/probe/sources"
)

// TestPackagedConfiguration: a monitor takes the configuration of the packages as it is, and each of its examples.
func TestPackagedConfiguration(t *testing.T) {
	b, err := os.ReadFile("../../../deploy/package/teescope.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(b, t.TempDir(), sources.All); err != nil {
		t.Errorf("as it is: %v", err)
	}
	_, examples, _ := strings.Cut(string(b), "# Examples")
	var lines []string
	for line := range strings.Lines(examples[strings.Index(examples, "\n")+1:]) {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "#"), " "))
	}
	text := strings.Join(lines, "\n")
	c, err := Parse([]byte(text), t.TempDir(), sources.All)
	if err != nil || len(c.Analysis.Rules) == 0 || len(c.Notify.Alertmanager) == 0 || c.scrape == nil {
		t.Errorf("the examples: %v\n%s", err, text)
	}
}
