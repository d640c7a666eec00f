package bpf

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// Limits of what all sources together read of executables: any user can map files that look like a runtime or a library.
const (
	inspectedBytes  = 256 << 20 // in inspectedPeriod
	inspectedPeriod = time.Minute
	mostInspected   = 1024 // files that are remembered
)

// ErrLater is wrapped by the error of a file that was not inspected because too much was read of others; a later look may.
var ErrLater = errors.New("it is inspected later")

// inspections reads the symbols of files, one file at a time, so memory is one block however many are looked at. Each file is
// read once for the same question, also one that was refused.
type inspections struct {
	mu    sync.Mutex
	block []byte
	known map[inspected]inspection
	// left is what may be read until a period after began.
	left  int
	began time.Time
}

// inspected is a file as it was, and what was asked about it.
type inspected struct {
	device, inode  uint64
	size, modified int64
	question       string
}

// inspection is what was found.
type inspection struct {
	offsets  map[string]uint64
	machine  elf.Machine
	stripped bool
	symbol   Symbol
	err      error
}

type inspectionsKey struct{}

// inspectionsOf returns those of a machine. A fixture has none to share.
func inspectionsOf(h *host.Host) *inspections {
	if h.Shared == nil {
		return new(inspections)
	}
	all, _ := h.Shared.LoadOrStore(inspectionsKey{}, new(inspections))
	return all.(*inspections)
}

// inspect finds functions in a file. now is the machine's clock.
func (s *inspections) inspect(x *Executable, names []string, now time.Time) inspection {
	return s.look(x, strings.Join(names, "\x00"), now, func(t *symbolTables, found *inspection) (err error) {
		found.offsets, err = t.find(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" }))
		return err
	})
}

// look answers a question about a file, once. now is the machine's clock.
func (s *inspections) look(x *Executable, question string, now time.Time, answer func(*symbolTables, *inspection) error) inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := inspected{x.stat.Dev, x.stat.Ino, x.stat.Size, x.stat.Mtim.Nano(), question}
	if known, ok := s.known[key]; ok {
		return known
	}
	if age := now.Sub(s.began); s.began.IsZero() || age >= inspectedPeriod || age < 0 {
		s.began, s.left = now, inspectedBytes
	}
	if s.block == nil {
		s.block = make([]byte, symbolBlock)
	}
	found := s.read(x, answer)
	if errors.Is(found.err, ErrLater) || errors.Is(found.err, unix.EIO) {
		return found
	}
	for other := range s.known {
		if len(s.known) < mostInspected {
			break
		}
		delete(s.known, other)
	}
	if s.known == nil {
		s.known = map[inspected]inspection{}
	}
	s.known[key] = found
	return found
}

// read inspects a file that is not known.
func (s *inspections) read(x *Executable, answer func(*symbolTables, *inspection) error) (found inspection) {
	t, err := openSymbolTables(x.content, x.stat.Size, s.block, func(n int) error {
		if n > s.left {
			return fmt.Errorf("%d MiB were read of executables in the last minute: %w", inspectedBytes>>20, ErrLater)
		}
		s.left -= n
		return nil
	})
	if err == nil {
		found.machine, found.stripped = t.machine, t.stripped()
		err = answer(t, &found)
	}
	found.err = err
	return found
}
