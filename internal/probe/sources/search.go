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
	// everything is how often all processes are looked at again.
	everything = time.Minute
	// mostProcesses bounds the maps that are read in a round, mostFiles what is hooked.
	mostProcesses = 2000
	mostFiles     = 64
)

// processSearch finds processes whose mapped files are to be looked at: each in
// its first two rounds, as it may execute another program or load a library
// after it has begun, and all of them now and then.
type processSearch struct {
	host *host.Host
	// seen counts the rounds for which a process has been there; full is the last
	// look at everything.
	seen map[int]int
	full time.Time
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
	here, read := map[int]int{}, 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		here[pid] = s.seen[pid]
		if here[pid] < 2 && read < mostProcesses {
			here[pid]++
			read++
			look(pid)
		}
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
