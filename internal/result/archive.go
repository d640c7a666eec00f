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
	"github.com/teescope/teescope/internal/quota"
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
func (a *Archive) Get(id string) (e *Experiment, err error) {
	name, err := a.file(id)
	if err != nil {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	if e, err = a.readFile(name); !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	list, _ := a.List() // unreadable files have no id
	if i := slices.IndexFunc(list, func(e *Experiment) bool { return e.ID == id }); i >= 0 {
		return list[i], nil
	}
	return nil, err
}

// readFile returns the document of a file. Files are read one after the other, and again only once they have changed.
func (a *Archive) readFile(name string) (*Experiment, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fi, err := os.Stat(name)
	if err != nil { // also of one that is not finished, which has its own reason
		_, e, err := documentOf(name, regular)
		return e, err
	}
	en := a.entry(fi)
	if a.seen == nil {
		a.seen = map[string]entry{}
	}
	a.seen[fi.Name()] = en
	return en.e, en.err
}

// entry returns a file as it is now. a.mu is held.
func (a *Archive) entry(fi fs.FileInfo) entry {
	en, ok := a.seen[fi.Name()]
	var full *quota.Exceeded
	if ok && en.at.Equal(fi.ModTime()) && en.size == fi.Size() && !(errors.As(en.err, &full) && full.Busy()) {
		return en
	}
	en = entry{at: fi.ModTime(), size: fi.Size()}
	_, en.e, en.err = documentOf(filepath.Join(a.Dir, fi.Name()), regular)
	return en
}

// Bytes returns the file of a document as it is, whatever its name. Without such a document the error wraps
// fs.ErrNotExist.
func (a *Archive) Bytes(id string) ([]byte, error) {
	name, err := a.file(id)
	if err != nil {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	b, err := bytesOf(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	list, _ := a.List() // unreadable files have no id
	i := slices.IndexFunc(list, func(e *Experiment) bool { return e.ID == id })
	if i < 0 {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for file, en := range a.seen {
		if en.e == list[i] {
			return bytesOf(filepath.Join(a.Dir, file))
		}
	}
	return nil, err // its file has just changed
}

// regular opens a file of the archive: others may write to its folder, so it must be a regular one.
func regular(name string) (*os.File, error) {
	f, _, err := host.OpenRegular(name)
	return f, err
}

// bytesOf returns a file of the archive as it is.
func bytesOf(name string) ([]byte, error) {
	f, err := regular(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hold := memory().Growing()
	defer hold.Release()
	b, err := all(f, hold)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// rank is larger for the file of a document that counts before others of the same experiment: that with the name of its id, as for Get,
// then one that is attested.
func rank(e *Experiment, name string) int {
	switch {
	case name == e.ID+".json":
		return 2
	case e.Attestation != nil:
		return 1
	}
	return 0
}

// List returns all documents, the newest first. Unreadable ones, and further ones of the same experiment, are left out and named in the
// error. A missing folder counts as empty.
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
	places := map[string]int{} // in out, by the id of the document
	var names []string         // of the files of out
	for _, f := range files {
		fi, err := f.Info()
		if filepath.Ext(f.Name()) != ".json" || strings.HasPrefix(f.Name(), ".") || err != nil {
			continue
		}
		if !fi.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("read %s: it is not a regular file: put the result itself there", filepath.Join(a.Dir, f.Name())))
			continue
		}
		en := a.entry(fi)
		now[f.Name()] = en
		if en.err != nil {
			errs = append(errs, en.err)
			continue
		}
		at, again := places[en.e.ID]
		if !again {
			places[en.e.ID] = len(out)
			out, names = append(out, en.e), append(names, f.Name())
			continue
		}
		left := f.Name()
		if rank(en.e, left) > rank(out[at], names[at]) {
			left, names[at], out[at] = names[at], left, en.e
		}
		errs = append(errs, fmt.Errorf("read %s: it is the same experiment as %s: remove one of them", filepath.Join(a.Dir, left), names[at]))
	}
	a.seen = now
	slices.SortStableFunc(out, func(x, y *Experiment) int { return y.StartedAt.Compare(x.StartedAt) })
	return out, errors.Join(errs...)
}
