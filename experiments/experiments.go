// Package experiments carries the experiment files into the program, so that `teescope bench run NAME` finds them on every machine, with the
// published documents that they answer, and the published figures that reports show behind measured ones.
package experiments

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync"
)

// The experiments, sources and claims are packed, which makes the program 150 kB smaller.
//
//go:generate go run pack.go
//go:embed files.tar.gz
var packed []byte

// unpack returns the packed files by name. Its panic would be a fault of the program's build, which a test finds.
var unpack = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Sprintf("experiments: files.tar.gz: %v", err))
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err == nil {
			out[h.Name], err = io.ReadAll(t)
		}
		if err != nil {
			panic(fmt.Sprintf("experiments: files.tar.gz: %v", err))
		}
	}
})

// Folder is a folder of the packed files.
type Folder string

// The folders.
const (
	// Files are the experiments, as NAME.yaml.
	Files Folder = "."
	// Sources are published documents, each with its tables and the experiments that answer them (package reproduce), as NAME.yaml.
	Sources Folder = "sources"
	// Claims are published tables with the claims about them, as NAME.csv; README.md there describes the format.
	Claims Folder = "claims"
)

// ReadFile returns a file of the folder. The error wraps fs.ErrNotExist where there is none.
func (f Folder) ReadFile(name string) ([]byte, error) {
	b, ok := unpack()[path.Join(string(f), name)]
	if !ok || path.Dir(path.Join(string(f), name)) != string(f) {
		return nil, &fs.PathError{Op: "open", Path: path.Join("experiments", string(f), name), Err: fs.ErrNotExist}
	}
	return b, nil
}

// List returns the names of the folder's files, in order.
func (f Folder) List() (names []string) {
	for name := range unpack() {
		if path.Dir(name) == string(f) {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names
}

// Published has cost ratios that others published, as CSV. README.md describes its columns.
//
//go:embed published.csv
var Published []byte

// Specifications has what GPUs can do at most by their vendors' specifications, as CSV.
//
//go:embed specifications.csv
var Specifications []byte
