package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClaims: contradictions decide the exit status, in text and in JSON.
func TestClaims(t *testing.T) {
	const gateway, clean = "../../experiments/claims/phala-gateway.csv", "../claims/testdata/clean/phala-gateway.csv"

	out, errs, code := run(t, "claims", gateway)
	if code != exitRegression || errs != "" {
		t.Errorf("exit status %d, %s", code, errs)
	}
	for _, s := range []string{"2 contradictions", "difference-as-ratio", "(791.3 ms - 89.8 ms) / 89.8 ms = +781.2 %", "701.5 ms"} {
		t.Run(s, func(t *testing.T) {
			if !strings.Contains(out, s) {
				t.Errorf("the report does not say %q:\n%s", s, out)
			}
		})
	}
	if out, errs, code = run(t, "claims", clean); code != exitOK || errs != "" || !strings.Contains(out, "nothing contradicts") {
		t.Errorf("a clean table: exit status %d, %s%s", code, out, errs)
	}

	out, _, code = run(t, "claims", "--json", clean, gateway)
	var reports []struct {
		File     string `json:"file"`
		Findings []struct {
			Kind string `json:"kind"`
			Line int    `json:"line"`
		} `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &reports); err != nil || code != exitRegression {
		t.Fatalf("exit status %d, %v:\n%s", code, err, out)
	}
	if len(reports) != 2 || reports[0].Findings == nil || len(reports[0].Findings) != 0 || reports[1].File != gateway || reports[1].Findings[0].Kind != "difference-as-ratio" || reports[1].Findings[0].Line != 9 {
		t.Errorf("reports %+v", reports)
	}
}

// TestClaimsBadFiles: a bad file is a tool error that names file and line, and nothing
// is printed for the good ones.
func TestClaimsBadFiles(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("# source: x\n# colum: a arm\na\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		`bad.csv: line 2: unknown key "colum"`: {"claims", "../../experiments/claims/phala-gateway.csv", bad},
		"no such file":                         {"claims", filepath.Join(dir, "none.csv")},
		"is a directory":                       {"claims", dir},
		"received 0; want `teescope claims FILE.csv...`; see `teescope claims --help`": {"claims"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := run(t, args...)
			if code != exitUsage || out != "" || !strings.Contains(errs, name) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%q: exit status %d, %q, %q", args, code, out, errs)
			}
		})
	}
	if out, errs, code := run(t, "claims", "--help"); code != 0 || errs != "" || !strings.Contains(out, "Examples:\n  teescope claims") {
		t.Errorf("claims --help: exit status %d, %s%s", code, errs, out)
	}
}
