package result

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// Archive is a folder of finished documents, one file per experiment. Add names a file by the id of its document; a
// run that writes here itself may use another name. Its methods may be called from several goroutines.
type Archive struct {
	Dir string

	mu   sync.Mutex
	seen map[string]entry // by file name
}

type entry struct {
	at   time.Time
	size int64
	e    *Experiment
	err  error
}

// Add copies a document into the archive.
func (a *Archive) Add(e *Experiment) (string, error) {
	name, err := a.file(e.ID)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return "", err
	}
	return name, Write(name, e)
}

func (a *Archive) file(id string) (string, error) {
	if id == "" || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
		return "", fmt.Errorf("experiment id %q: want letters, digits, - and _", id)
	}
	return filepath.Join(a.Dir, id+".json"), nil
}

// Get returns a document by its id, whatever its file name. Without such a document the error wraps fs.ErrNotExist.
func (a *Archive) Get(id string) (*Experiment, error) {
	name, err := a.file(id)
	if err != nil {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	e, err := readRegular(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	all, _ := a.List() // unreadable files have no id
	if i := slices.IndexFunc(all, func(e *Experiment) bool { return e.ID == id }); i >= 0 {
		return all[i], nil
	}
	return nil, err
}

// Bytes returns the file of a document as it is, whatever its name. Without such a document the error wraps
// fs.ErrNotExist.
func (a *Archive) Bytes(id string) ([]byte, error) {
	name, err := a.file(id)
	if err != nil {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	b, err := regular(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	all, _ := a.List() // unreadable files have no id
	i := slices.IndexFunc(all, func(e *Experiment) bool { return e.ID == id })
	if i < 0 {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for file, en := range a.seen {
		if en.e == all[i] {
			return regular(filepath.Join(a.Dir, file))
		}
	}
	return nil, err // its file has just changed
}

// regular returns a file of the archive: others may write to its folder, so it must be a regular one.
func regular(name string) ([]byte, error) { return host.ReadRegular(name, mostText()) }

func readRegular(name string) (*Experiment, error) {
	_, e, err := documentOf(name, regular)
	return e, err
}

// List returns all documents, the newest first. Unreadable ones are left out and named in the error. A missing folder
// counts as empty.
func (a *Archive) List() ([]*Experiment, error) {
	files, err := os.ReadDir(a.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := map[string]entry{}
	var out []*Experiment
	var errs []error
	for _, f := range files {
		fi, err := f.Info()
		if filepath.Ext(f.Name()) != ".json" || strings.HasPrefix(f.Name(), ".") || err != nil || !fi.Mode().IsRegular() {
			continue
		}
		en, ok := a.seen[f.Name()]
		if !ok || !en.at.Equal(fi.ModTime()) || en.size != fi.Size() {
			en = entry{at: fi.ModTime(), size: fi.Size()}
			en.e, en.err = readRegular(filepath.Join(a.Dir, f.Name()))
		}
		now[f.Name()] = en
		if en.err != nil {
			errs = append(errs, en.err)
			continue
		}
		out = append(out, en.e)
	}
	a.seen = now
	slices.SortStableFunc(out, func(x, y *Experiment) int { return y.StartedAt.Compare(x.StartedAt) })
	return out, errors.Join(errs...)
}
