package store

// Files of the database are mapped into memory. After a query over a long time many of their pages stay resident and
// count as the monitor's memory; this file gives them back regularly.

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stale is the shortest time for which pages read by a query or the replay stay mapped: the interval of releasing
// them.
const stale = time.Minute

// giveBack regularly releases, until ctx ends, the memory of the files that the database maps: a query over a day
// touches tens of megabytes that the next ones do not need. The pages stay in the kernel's cache, so touching them
// again costs a page fault but no read.
func (s *Store) giveBack(ctx context.Context) {
	dir, err := filepath.Abs(s.opts.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // as the kernel names it
	}
	if err != nil {
		s.log.Warn("what was read of the blocks stays in memory", "err", err)
		return
	}
	every := time.NewTicker(stale)
	defer every.Stop()
	for {
		if db, err := s.lease(); err == nil {
			s.forget(db, dir)
			db.unlease()
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// forget releases once. No mapping may be removed during that, because another could take its place: compaction
// waits, and so does the cut of the head.
func (s *Store) forget(db *database, dir string) {
	db.DisableCompactions()
	defer db.EnableCompactions()
	s.commits.Lock()
	defer s.commits.Unlock()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer f.Close()
	for _, m := range sharedMappings(f, dir) {
		// MADV_DONTNEED loses nothing of a shared mapping (madvise(2)). If the kernel refuses, the pages stay until
		// it needs them.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// sharedMappings returns the read-only shared mappings of files below a folder, from /proc/PID/maps (proc(5)).
func sharedMappings(maps io.Reader, dir string) (out []mapping) {
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var f [5]string
		name := lines.Text() // after the five fields; it may contain blanks
		for i := range f {
			f[i], name, _ = strings.Cut(strings.TrimLeft(name, " "), " ")
		}
		if f[1] != "r--s" || !strings.HasPrefix(strings.TrimLeft(name, " "), dir+string(filepath.Separator)) {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
		end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
		if err1 == nil && err2 == nil && start < end {
			out = append(out, mapping{uintptr(start), uintptr(end)})
		}
	}
	return out
}
