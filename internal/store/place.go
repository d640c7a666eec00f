package store

// Notices that the data folder was deleted or replaced while it is in use. Writes would go to files that nobody can
// reach any more.

import (
	"errors"
	"fmt"
	"os"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/locked"
)

// ErrReplaced means that the data folder's path no longer leads to the folder that is in use: what is written to its open files
// would be lost.
var ErrReplaced = errors.New("the data folder was removed or replaced while it is in use; samples are refused until it is back, or teescope is restarted")

// place holds what the paths of a data folder led to when it was opened.
type place struct {
	was locked.Value[map[string]os.FileInfo]
}

// note remembers what paths lead to now.
func (p *place) note(paths ...string) error {
	was := p.was.Lock()
	defer p.was.Unlock()
	if *was == nil {
		*was = map[string]os.FileInfo{}
	}
	for _, path := range paths {
		fi, err := disk.Stat(path)
		if err != nil {
			return err
		}
		(*was)[path] = fi
	}
	return nil
}

// check returns an error that wraps ErrReplaced if a path leads elsewhere by now. That it cannot be looked at is no such error:
// writing tells.
func (p *place) check() error {
	was := p.was.Lock()
	defer p.was.Unlock()
	for path, fi := range *was {
		switch now, err := disk.Stat(path); {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("%s is gone: %w", path, ErrReplaced)
		case err == nil && !os.SameFile(fi, now):
			return fmt.Errorf("%s is another folder by now: %w", path, ErrReplaced)
		}
	}
	return nil
}
