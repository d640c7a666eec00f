package sources

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/probe/bpf"
)

const (
	// everything is how often all processes are looked at again, settled when at the
	// earliest a new one is for the second time.
	everything = time.Minute
	settled    = time.Second
	// mostProcesses bounds the maps that are read in a round, mostFiles what is hooked.
	mostProcesses = 2000
	mostFiles     = 64
)

// processSearch finds processes whose mapped files are to be looked at: each when
// it is new and once more in a later round, as it may execute another program or
// load a library after it has begun, and all of them now and then.
type processSearch struct {
	host *host.Host
	// seen is how often a process was looked at, and when for the last time; full
	// is the last look at everything.
	seen map[int]looks
	full time.Time
}

type looks struct {
	n    int
	last time.Time
}

// begin begins a round and reports whether it is one of those that look at all.
func (s *processSearch) begin() (all bool) {
	now := s.host.Now()
	if s.full.IsZero() || now.Sub(s.full) >= everything || now.Before(s.full) {
		s.full, s.seen = now, nil
		return true
	}
	return false
}

// each calls look with the processes of the round; it reports whether there were
// no more of them than are looked at in a round.
func (s *processSearch) each(look func(pid int)) (complete bool, err error) {
	entries, err := s.host.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	here, read, now := make(map[int]looks, len(s.seen)), 0, s.host.Now()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		was := s.seen[pid]
		if was.n < 2 && read < mostProcesses && (was.n == 0 || now.Sub(was.last) >= settled) {
			was = looks{was.n + 1, now}
			read++
			look(pid)
		}
		here[pid] = was
	}
	s.seen = here
	return read < mostProcesses, nil
}

// openMapped opens the file behind a mapping of the process at dir: by its name
// as the process sees it, if that still leads there, else by the mapping itself.
func openMapped(h *host.Host, dir string, m mappedFile) (*bpf.Executable, error) {
	x, err := bpf.OpenExecutable(h, dir+"/root"+m.path, m.inode)
	if err == nil {
		x.Path = m.path
		return x, nil
	}
	x, ferr := bpf.OpenExecutable(h, fmt.Sprintf("%s/map_files/%x-%x", dir, m.start, m.end), 0)
	if ferr != nil {
		return nil, cmp.Or(ferr, err)
	}
	x.Path = m.path
	return x, nil
}
