package bpf

import (
	"bytes"
	"compress/gzip"
	"io"
)

// readObject decompresses an embedded object file (see compile.sh). Reading from it returns the error, if there was one.
func readObject(compressed []byte) io.ReaderAt {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return unreadable{err}
	}
	object, err := io.ReadAll(r)
	if err != nil {
		return unreadable{err}
	}
	return bytes.NewReader(object)
}

type unreadable struct{ err error }

func (u unreadable) ReadAt([]byte, int64) (int, error) { return 0, u.err }
