package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/result"
)

// TestCeilings: limits come from a dated file, each with its source; what is wrong with one is said with the file's name.
func TestCeilings(t *testing.T) {
	const one = "  - {metric: operations_per_second, env: volume, value: 3000, of: gp3, source: the vendor's page}\n"
	path := filepath.Join(t.TempDir(), "ceilings.yaml")
	for text, want := range map[string]string{
		"date: 2026-11-01\nceilings:\n" + one: "",
		"ceilings:\n" + one:                   "the file needs the keys date",
		"date: soon\nceilings:\n" + one:       "the file needs the keys date",
		"date: 2026-11-01\n":                  "and ceilings",
		"":                                    "the file needs the keys date",
		"date: 2026-11-01\nceilings:\n" + strings.Replace(one, ", source: the vendor's page", "", 1): "ceiling 1 needs",
		"date: 2026-11-01\nceilings:\n" + one + strings.Replace(one, "3000", "-1", 1):                "ceiling 2 needs",
		"date: 2026-11-01\nceilings:\n" + strings.Replace(one, "3000", ".inf", 1):                    "ceiling 1 needs",
		"date: 2026-11-01\nceilings:\n" + strings.Replace(one, "value", "most", 1):                   "most",
		"{": path,
	} {
		t.Run(text, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readCeilings(path)
			if want == "" {
				if err != nil || len(got) != 1 || got[0] != (result.Ceiling{Metric: "operations_per_second", Env: "volume", Value: 3000, Source: "gp3 (the vendor's page, 2026-11-01)"}) {
					t.Errorf("%q: %+v, %v", text, got, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
			}
		})
	}
	if _, errs, code := run(t, "bench", "run", "startup", "--dry-run", "--ceilings", filepath.Join(t.TempDir(), "none")); code != exitUsage || !strings.Contains(errs, "--ceilings") {
		t.Errorf("a file that is not there: status %d, %s", code, errs)
	}
}
