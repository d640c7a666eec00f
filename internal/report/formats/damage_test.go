package formats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/teescope/teescope/internal/mutate"
	"github.com/teescope/teescope/internal/report"
	"github.com/teescope/teescope/internal/result"
)

// TestDamagedDocuments: a damaged document is refused with a reason, or every format writes it, and no run of it has a
// value that cannot be.
func TestDamagedDocuments(t *testing.T) {
	docs := documents(t)
	for _, name := range []string{"overhead", "ladder"} {
		t.Run(name, func(t *testing.T) {
			for _, e := range docs[name].Experiments {
				e.Runs = e.Runs[:6] // they have every kind of field, and the work is quadratic
				data, err := json.MarshalIndent(e, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := result.Parse(data); err != nil {
					t.Fatalf("%s: undamaged: %v", name, err)
				}
				read := 0
				mutate.Try(t, name, data, " :,\"[]{}", func(m mutate.Mutation) error {
					e, err := result.Parse(m.Data)
					if err != nil {
						if err.Error() == "" {
							return errors.New("refused without a reason")
						}
						return nil
					}
					read++
					for i := range e.Runs {
						for name, why := range result.Impossible(e.Workload.Metrics, e.Runs[i].Metrics) {
							return fmt.Errorf("run %s: %s: %s", e.Runs[i].ID, name, why)
						}
					}
					for _, f := range All {
						var b bytes.Buffer
						if err := f.Write(&b, report.Document{Experiments: []*result.Experiment{e}}); err != nil {
							return fmt.Errorf("%s: %w", f.Name, err)
						}
						if !utf8.Valid(b.Bytes()) {
							return fmt.Errorf("%s is no text", f.Name)
						}
					}
					return nil
				})
				if read == 0 {
					t.Errorf("%s: every damage was refused, so no format was tried", name)
				}
			}
		})
	}
}
