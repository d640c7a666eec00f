package kernels

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// archiveWriter writes the "newc" form of cpio, the only one that the kernel
// unpacks (Documentation/driver-api/early-userspace/buffer-format.rst). The
// first error sticks.
type archiveWriter struct {
	w       *bufio.Writer
	err     error
	n       int
	folders map[string]bool
}

func newArchiveWriter(w io.Writer) *archiveWriter {
	return &archiveWriter{w: bufio.NewWriterSize(w, 1<<20), folders: map[string]bool{".": true, "/": true}}
}

const (
	modeFolder = 0o040755
	modeFile   = 0o100755
	modeDevice = 0o020600
)

// entry writes one header and, padded to four bytes each, name and content.
func (a *archiveWriter) entry(name string, mode, size, major, minor int, content io.Reader) {
	if a.err != nil {
		return
	}
	a.n++
	h := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", a.n, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0, name)
	if _, a.err = a.w.WriteString(h + padding(len(h))); a.err != nil || content == nil {
		return
	}
	var n int64
	if n, a.err = io.Copy(a.w, content); a.err == nil && n != int64(size) {
		a.err = fmt.Errorf("%s changed while it was packed", name)
	}
	if a.err == nil {
		_, a.err = a.w.WriteString(padding(size))
	}
}

func padding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }

func (a *archiveWriter) folder(name string) {
	if a.folders[name] {
		return
	}
	a.folder(path.Dir(name))
	a.folders[name] = true
	a.entry(name, modeFolder, 0, 0, 0, nil)
}

func (a *archiveWriter) file(name, from string) {
	if a.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	s, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.folder(path.Dir(name))
	a.entry(name, modeFile, int(s.Size()), 0, 0, f)
}

func (a *archiveWriter) text(name, content string) {
	a.folder(path.Dir(name))
	a.entry(name, modeFile, len(content), 0, 0, strings.NewReader(content))
}

// close ends the archive. A console must exist before init mounts /dev.
func (a *archiveWriter) close() error {
	a.folder("dev")
	a.entry("dev/console", modeDevice, 0, 5, 1, nil)
	a.entry("TRAILER!!!", 0, 0, 0, 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}
