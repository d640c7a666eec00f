package probe

import (
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/host"
)

const (
	// Everything is how often Processes looks at all processes again, settled when at
	// the earliest at a new one for the second time.
	Everything = time.Minute
	settled    = time.Second
	// mostProcesses limits the processes of a round.
	mostProcesses = 2000
)

// Processes finds processes whose mapped files are to be looked at: each when it is
// new and once more in a later round, because it may execute another program or load
// a library after it has begun, and all of them every minute.
type Processes struct {
	Host *host.Host
	// seen is how often a process was looked at, and when for the last time; full
	// is the last look at everything.
	seen map[int]lookedAt
	full time.Time
}

type lookedAt struct {
	n    int
	last time.Time
}

// Begin begins a round and reports whether it is one of those that look at all.
func (s *Processes) Begin() (all bool) {
	now := s.Host.Now()
	if s.full.IsZero() || now.Sub(s.full) >= Everything || now.Before(s.full) {
		s.full, s.seen = now, nil
		return true
	}
	return false
}

// Each calls look for the processes of the round, and reports whether there were no
// more of them than one round looks at.
func (s *Processes) Each(look func(pid int)) (complete bool, err error) {
	entries, err := s.Host.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	here, read, now := make(map[int]lookedAt, len(s.seen)), 0, s.Host.Now()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		was := s.seen[pid]
		if was.n < 2 && read < mostProcesses && (was.n == 0 || now.Sub(was.last) >= settled) {
			was = lookedAt{was.n + 1, now}
			read++
			look(pid)
		}
		here[pid] = was
	}
	s.seen = here
	forgetMapped(s.Host, func(pid int) bool { _, ok := here[pid]; return ok })
	return read < mostProcesses, nil
}
