package printable

import (
	"bytes"
	"io"
	"log"
	"sync"
)

// A Writer passes lines on as Text, without secrets. It keeps an unfinished line, because a secret or a character may be written
// in parts, until the line ends or Flush is called. Several goroutines may use it.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	line []byte // unfinished
}

// longest bounds the unfinished line, in bytes.
const longest = 4 << 20

// Run runs a program whose output passes writers of this package, as does what its packages log without a logger of their own. It
// returns the program's exit status, or 4, a tool error, if the last line could not be written. Unfinished lines are written even if the
// program panics.
func Run(stdout, stderr io.Writer, program func(stdout, stderr io.Writer) int) (status int) {
	out, errs := NewWriter(stdout), NewWriter(stderr)
	if log.Writer() == stderr {
		log.SetOutput(errs)
		defer log.SetOutput(stderr)
	}
	defer func() {
		if err := out.Flush(); err != nil && status == 0 {
			_, _ = io.WriteString(errs, "write the output: "+err.Error()+"\n")
			status = 4
		}
		_ = errs.Flush() // nobody can be told
	}()
	return program(out, errs)
}

// NewWriter returns a writer that writes to another.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := bytes.LastIndexByte(b, '\n') + 1
	w.line = append(w.line, b[:end]...)
	if end > 0 {
		if err := w.pass(); err != nil {
			return 0, err
		}
	}
	w.line = append(w.line, b[end:]...)
	if len(w.line) > longest {
		if err := w.pass(); err != nil {
			return end, err
		}
	}
	return len(b), nil
}

// pass writes what is kept.
func (w *Writer) pass() error {
	text := Text(Redact(string(w.line)))
	w.line = w.line[:0]
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w.to, text)
	return err
}

// Flush writes the unfinished line.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pass()
}

// ClearLine returns a terminal's cursor to the begin of its line and clears the line (ECMA-48, Erase in Line).
func (w *Writer) ClearLine() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.pass(); err != nil {
		return err
	}
	_, err := io.WriteString(w.to, "\r\x1b[K")
	return err
}

// Unwrap returns the writer that this one writes to: a program that draws its own screen needs the terminal itself.
func (w *Writer) Unwrap() io.Writer { return w.to }
