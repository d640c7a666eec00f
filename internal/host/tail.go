package host

import (
	"errors"
	"io"
)

// ReadFrom returns at most max bytes of a regular file from an offset on, and none at or
// beyond its end: what a log has gained since it was last read.
func (h *Host) ReadFrom(name string, offset int64, max int) ([]byte, error) {
	f, _, err := h.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	defer h.enter(name)()
	b := make([]byte, max)
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], h.errAt(err)
}
