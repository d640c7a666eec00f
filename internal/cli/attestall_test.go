package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/proof"
)

// TestAttestShippedResults: every result in experiments/results can be signed and attested, and reported with that; other tests compare them.
func TestAttestShippedResults(t *testing.T) {
	paths, err := filepath.Glob("../../experiments/results/*.json*")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d results, %v", len(paths), err)
	}
	private, _, err := proof.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir := t.TempDir()
			key, plain := filepath.Join(dir, "key.pem"), filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".gz"))
			if err := os.WriteFile(key, private, 0o600); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if strings.HasSuffix(path, ".gz") {
				text = unpacked(t, path)
			}
			if err := errors.Join(err, os.WriteFile(plain, text, 0o644)); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				args []string
				want string
				code int
			}{
				{[]string{"attest", plain, "--key", key}, ": signed: ", exitOK},
				{[]string{"verify", plain}, "signed: ", exitInconclusive},
				{[]string{"attest", plain, "--provider", "simulated", "--replace"}, ": simulated: ", exitOK},
				{[]string{"report", "--format", "text", "--out", "-", plain}, "simulated", exitOK},
			} {
				out, errs, code := run(t, c.args...)
				if code != c.code || !strings.Contains(out, c.want) {
					t.Errorf("%v: status %d\n%.1000s%.1000s", c.args, code, out, errs)
				}
			}
		})
	}
}
