package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// formatName is the file in which a data folder says how its files are to be read: a number, and the version that changed it. A folder
// without it has format 1; a version that changes what older ones cannot read writes a larger number.
const (
	formatName = "format"
	format     = 1
)

// ErrNewer means that a newer version has written a data folder.
var ErrNewer = errors.New("written by a newer version of teescope")

// checkFormat returns an error if this version cannot read a data folder. What it does not know would look like damage, and be set aside.
func checkFormat(dir string) error {
	name := filepath.Join(dir, formatName)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the format of the data directory: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 128))
	if err != nil {
		return fmt.Errorf("read the format of the data directory: %w", err)
	}
	number, by, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1:
		return fmt.Errorf("%s has no number of a format, but %q: restore it, or choose another data directory", name, text)
	case n > format:
		if by != "" {
			by = ", of " + by
		}
		return fmt.Errorf("data directory %s: %w (format %d%s; this one reads up to %d): start that version, or choose another directory", dir, ErrNewer, n, by, format)
	}
	return nil
}
