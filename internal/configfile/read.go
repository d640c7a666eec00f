package configfile

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/teescope/teescope/internal/contain"
)

// Read has a file parsed; "" is the empty configuration. dir is where the names in the file start.
func Read(name string, parse func(text []byte, dir string) error) error {
	if name == "" {
		return nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return Check(name, b, parse)
}

// Check has the text of a file parsed. A pipe can be read once only.
func Check(name string, text []byte, parse func(text []byte, dir string) error) error {
	if err := contain.Call("reading the configuration", func() error { return parse(text, filepath.Dir(name)) }); err != nil {
		return fmt.Errorf("configuration %s: %w", name, err)
	}
	return nil
}
