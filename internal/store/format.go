package store

// The format of a data folder. An older version must not open a newer folder: what it does not know would look like
// damage.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// formatName is the file in which a data folder says how its files are to be read: a number, and the version that changed it. A folder
// without it has format 1; a version that changes what older ones cannot read writes a larger number.
const (
	formatName = "format"
	format     = 1
)

// ErrNewer means that a newer version has written a data folder.
var ErrNewer = errors.New("written by a newer version of teescope")

// longestFormat is how many bytes of the file are read.
const longestFormat = 128

// checkFormat returns an error if a newer version has written a data folder: what this one does not know would look like damage, and be
// set aside. A file that states no format is damaged itself: it is renamed, which is logged.
func checkFormat(dir string, log *slog.Logger) error {
	name := filepath.Join(dir, formatName)
	moved, err := host.MoveAside(name, false)
	if err != nil {
		return err
	}
	if moved != "" {
		log.Error("the format of the data directory is not a file; it is renamed, and the folder is read as usual", "file", moved)
		return nil
	}
	f, _, err := host.OpenRegular(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // taking the lock says what to do about a folder of another user
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the format of the data directory: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestFormat))
	if err != nil {
		return fmt.Errorf("read the format of the data directory: %w", err)
	}
	number, by, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1:
		if moved, err = host.RenameDamaged(name); err != nil {
			return err
		}
		log.Error("the format of the data directory is damaged; its file is renamed, and the folder is read as usual", "file", moved, "text", fmt.Sprintf("%q", text))
	case n > format:
		if by != "" {
			by = ", of " + by
		}
		return fmt.Errorf("data directory %s: %w (format %d%s; this one reads up to %d): start that version, or choose another directory", dir, ErrNewer, n, by, format)
	}
	return nil
}
