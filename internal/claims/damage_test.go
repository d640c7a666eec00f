package claims

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	damage "github.com/teescope/teescope/internal/mutate"
)

// TestDamagedTables: a damaged table is refused with a reason, or read and reported in numbers. A decimal comma is
// refused with its line wherever it stands.
func TestDamagedTables(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/clean/*.csv", "testdata/numbers/*.csv", "../../experiments/claims/*.csv"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(errors.Join(err, errors.New("no tables in "+pattern)))
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		damage.Try(t, file, data, " ,\t\"()[]=/", func(m damage.Mutation) error {
			if err := sound(m.Data); err != nil {
				return err
			}
			for line := range strings.Lines(string(m.Data)) {
				if _, err := Parse(m.Data); err == nil && strings.Contains(line, "\"0,512\"") && !strings.HasPrefix(line, "#") {
					return errors.New("a decimal comma is read")
				}
			}
			return nil
		})
	}
}

// sound reads, checks and prints a table.
func sound(data []byte) error {
	table, err := Parse(data)
	if err != nil {
		if err.Error() == "" {
			return errors.New("refused without a reason")
		}
		return nil
	}
	var b strings.Builder
	if err := table.Check().Text(&b, "damaged"); err != nil {
		return err
	}
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(b.String(), bad) && !strings.Contains(string(data), bad) {
			return fmt.Errorf("the report says %s:\n%s", bad, b.String())
		}
	}
	return nil
}
