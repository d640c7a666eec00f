package launchers

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/mutate"
)

// TestDamagedFiles: a damaged template or experiment is refused with a reason, or is one that can be used.
func TestDamagedFiles(t *testing.T) {
	for pattern, read := range map[string]func(string, []byte) error{
		"templates/*.yaml": readTemplate, "testdata/*.yaml": readTemplate,
		"../../../experiments/*.yaml": func(name string, data []byte) error {
			e, err := bench.LoadExperiment(name, data)
			if err == nil && (e.Name == "" || e.Workload == "") {
				return errors.New("an experiment without a name or a workload is taken")
			}
			return reasoned(err)
		},
	} {
		t.Run(pattern, func(t *testing.T) {
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no files: %v", pattern, err)
			}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				mutate.Try(t, file, data, " ,:[]{}", func(m mutate.Mutation) error { return read(file, m.Data) })
			}
		})
	}
}

func reasoned(err error) error {
	if err != nil && err.Error() == "" {
		return errors.New("refused without a reason")
	}
	return nil
}

func readTemplate(name string, data []byte) error {
	l, err := FromFile(name, data)
	if err == nil && (l.Open == nil || l.Commands == nil) {
		return errors.New("a template that runs nothing is taken")
	}
	return reasoned(err)
}
