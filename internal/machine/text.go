package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Faults collects what is wrong with single values while the others are read. The zero value has none.
type Faults struct {
	first []error // at most sayFaults
	more  int
}

// sayFaults is how many faults are said in full.
const sayFaults = 3

// Add adds an error, or all those of other Faults; nil is none.
func (f *Faults) Add(err error) {
	if err == nil {
		return
	}
	all := []error{err}
	if s, ok := err.(*several); ok { //nolint:errorlint // where it is wrapped, the error says more than its parts
		all = s.first
		f.more += s.more
	}
	room := min(sayFaults-len(f.first), len(all))
	f.first = append(f.first, all[:room]...)
	f.more += len(all) - room
}

// Err says the first errors and how many more there are; nil if there is none.
func (f *Faults) Err() error {
	switch {
	case len(f.first) == 0:
		return nil
	case len(f.first) == 1 && f.more == 0:
		return f.first[0]
	}
	return &several{slices.Clone(f.first), f.more}
}

// several is what Faults collected.
type several struct {
	first []error
	more  int
}

func (s *several) Error() string {
	said := make([]string, len(s.first))
	for i, err := range s.first {
		said[i] = err.Error()
	}
	text := strings.Join(said, "; ")
	if s.more > 0 {
		text += fmt.Sprintf(" (and %d more)", s.more)
	}
	return text
}

// Unwrap makes errors.Is see those that are said.
func (s *several) Unwrap() []error { return s.first }

// Text reads a file of lines with cells. What is wrong with a cell or a line costs only that: it is collected, and the
// rest is read.
type Text struct {
	File string
	// MayBeEmpty: a file without lines is no fault, as a machine may have none of what it lists.
	MayBeEmpty bool
	Faults
	line int
}

// Lines yields the lines of the file without their ends. An empty line is a fault, and so is a file without any unless it
// may be empty.
func (t *Text) Lines(b []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		t.line = 0
		for line := range strings.Lines(string(b)) {
			t.line++
			if line = strings.TrimSuffix(line, "\n"); strings.TrimSpace(line) == "" {
				t.Bad("it is empty")
			} else if !yield(line) {
				return
			}
		}
		if t.line == 0 && !t.MayBeEmpty {
			t.Add(fmt.Errorf("parse %s: it is empty: %w", t.File, fs.ErrInvalid))
		}
	}
}

// Bad notes that something is wrong with the current line.
func (t *Text) Bad(format string, args ...any) {
	t.Add(fmt.Errorf("parse line %d of %s: "+format, append([]any{t.line, t.File}, args...)...))
}

// Count reads a cell that counts something. ok is false for one that does not: it is noted.
func (t *Text) Count(name, cell string) (n uint64, ok bool) {
	n, err := ParseCount(cell)
	if err != nil {
		t.Bad("%.40s: %w", name, err)
	}
	return n, err == nil
}

// ParseCount reads a number of something: decimal, and less than 2^63, which the kernel's counters reach only by falling
// below 0.
func ParseCount(cell string) (uint64, error) {
	n, err := strconv.ParseUint(cell, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || n >= 1<<63:
		return 0, fmt.Errorf("%.40q has wrapped below 0, or is not a number", cell)
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a count", cell)
	}
	return n, nil
}
