package host

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// MoveAside renames what is in the place of a folder, or of a regular file, and is none, such as a device, a pipe or a link that leads to
// itself, so that one can be made there. It returns the new name, PATH.damaged; "" where nothing is there or nothing is wrong.
func MoveAside(path string, folder bool) (to string, err error) {
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ELOOP), err == nil && folder && !fi.IsDir(), err == nil && !folder && !fi.Mode().IsRegular():
		return RenameDamaged(path)
	}
	return "", nil //nolint:nilerror // opening it has the error
}

// RenameDamaged renames a file or folder to PATH.damaged, or to PATH.damaged.2 and so on where that is taken, and returns the new name.
func RenameDamaged(path string) (to string, err error) {
	to = path + ".damaged"
	for i := 2; ; i++ {
		if _, err := os.Lstat(to); errors.Is(err, os.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
		to = fmt.Sprintf("%s.damaged.%d", path, i)
	}
	if err := os.Rename(path, to); err != nil {
		return "", fmt.Errorf("move %s away, because nothing can be kept in its place: %w: move it yourself", path, err)
	}
	return to, nil
}
