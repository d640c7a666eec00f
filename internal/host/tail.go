package host

import (
	"errors"
	"io"
	"os"
)

// ReadFrom returns at most max bytes of a file from an offset on, and none at or
// beyond its end: what a log has gained since it was last read.
func (h *Host) ReadFrom(name string, offset int64, max int) ([]byte, error) {
	if err := h.fault("read", name); err != nil {
		return nil, err
	}
	defer h.enter(name)()
	f, err := os.Open(h.Path(name))
	if err != nil {
		return nil, h.errAt(err)
	}
	defer f.Close()
	b := make([]byte, max)
	n, err := f.ReadAt(b, offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], h.errAt(err)
}
