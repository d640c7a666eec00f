package bpf

// Executables are read for symbols and for runtimes, and any user can provide very large or very many of them. This
// file bounds how much all sources together read, and remembers what was found for each file.

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

// Limits of what all sources together read of executables: any user can map files that look like a runtime or a library, and
// hold locks in them. So the names of locks have limits of their own.
const (
	inspectedPeriod = time.Minute
	inspectedBytes  = 256 << 20 // in inspectedPeriod
	mostInspected   = 1024      // questions that are remembered
	lockBytes       = 64 << 20  // in inspectedPeriod
	lockFileBytes   = 32 << 20  // of one file
	mostLockAnswers = 256
)

// ErrLater is wrapped by the error of a file that was not inspected because too much was read of others; a later look may.
var ErrLater = errors.New("it is inspected later")

// inspections reads the symbols of files, one file at a time, so memory is one block however many are looked at. Each file is
// read once for the same question, also one that was refused.
type inspections struct {
	// bytes is what may be read in a period, each what may be read of one file, most how many answers are remembered.
	bytes, each, most int

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
	symbols  map[uint64]Symbol
	err      error
}

func newInspections() *inspections {
	return &inspections{bytes: inspectedBytes, each: inspectedBytes, most: mostInspected}
}

func newLockInspections() *inspections {
	return &inspections{bytes: lockBytes, each: lockFileBytes, most: mostLockAnswers}
}

type (
	inspectionsKey     struct{}
	lockInspectionsKey struct{}
)

// inspectionsOf returns those of a machine.
func inspectionsOf(h *host.Host) *inspections {
	return sharedInspections(h, inspectionsKey{}, newInspections())
}

// lockInspectionsOf returns those of a machine for the names of locks.
func lockInspectionsOf(h *host.Host) *inspections {
	return sharedInspections(h, lockInspectionsKey{}, newLockInspections())
}

// sharedInspections are those of a machine with a key; fresh ones at first. A fixture has none to share.
func sharedInspections(h *host.Host, key any, fresh *inspections) *inspections {
	if h.Shared == nil {
		return fresh
	}
	all, _ := h.Shared.LoadOrStore(key, fresh)
	return all.(*inspections)
}

// inspect finds functions in a file. now is the machine's clock.
func (s *inspections) inspect(x *Executable, names []string, now time.Time) inspection {
	return s.readSymbols(x, strings.Join(names, "\x00"), now, func(t *symbolTables, found *inspection) (err error) {
		found.offsets, err = t.find(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" }))
		return err
	})
}

// readSymbols answers a question about a file, once. now is the machine's clock.
func (s *inspections) readSymbols(x *Executable, question string, now time.Time, answer func(*symbolTables, *inspection) error) inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := inspected{x.stat.Dev, x.stat.Ino, x.stat.Size, x.stat.Mtim.Nano(), question}
	if known, ok := s.known[key]; ok {
		return known
	}
	if age := now.Sub(s.began); s.began.IsZero() || age >= inspectedPeriod || age < 0 {
		s.began, s.left = now, s.bytes
	}
	if s.block == nil {
		s.block = make([]byte, symbolBlock)
	}
	found := s.read(x, answer)
	if errors.Is(found.err, ErrLater) || errors.Is(found.err, unix.EIO) {
		return found
	}
	for other := range s.known {
		if len(s.known) < s.most {
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
	used := 0
	t, err := openSymbolTables(x.content, x.stat.Size, s.block, func(n int) error {
		switch {
		case used+n > s.each:
			return fmt.Errorf("its symbols have more than the %d MiB that are read of a file", s.each>>20)
		case n > s.left:
			return fmt.Errorf("%d MiB were read of executables in the last minute: %w", s.bytes>>20, ErrLater)
		}
		used += n
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
