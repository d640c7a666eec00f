package store

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"

	"github.com/teescope/teescope/internal/store/repair"
)

// recordLoss records and logs a loss.
func (s *Store) recordLoss(l repair.Loss) {
	have := s.losses.Lock()
	known := slices.ContainsFunc(*have, func(o repair.Loss) bool { return o.Part == l.Part })
	if known {
		*have = slices.DeleteFunc(*have, func(o repair.Loss) bool { return o.Part == l.Part })
	}
	*have = append(*have, l)
	slices.SortFunc(*have, func(a, b repair.Loss) int { return cmp.Compare(a.Part, b.Part) })
	s.losses.Unlock()
	if !l.Moved.IsZero() {
		s.trouble.set("damaged", errors.Join(s.trouble.get("damaged"), l))
	}
	if !known && l.Kind == repair.Future {
		s.log.Error("the clock went back; samples from the future are set aside, and the monitor goes on recording", "part", l.Part, "reason", l.Reason, "lost", l.Lost,
			"action", "moved to "+filepath.Join(s.opts.Dir, repair.QuarantineName))
	} else if !known {
		action := "moved to " + filepath.Join(s.opts.Dir, repair.QuarantineName)
		if l.Moved.IsZero() {
			action = "left out of answers"
		}
		s.log.Error("stored data is damaged; the monitor goes on without it", "kind", l.Kind, "part", l.Part, "reason", l.Reason, "lost", l.Lost, "action", action)
	}
}

// Losses returns the damaged parts: those in the quarantine, also of earlier starts, and those that queries met since
// the start.
func (s *Store) Losses() []repair.Loss {
	held := s.losses.Lock()
	defer s.losses.Unlock()
	return slices.Clone(*held)
}

// lossesIn returns those that may concern [mint, maxt], in milliseconds.
func (s *Store) lossesIn(mint, maxt int64) []repair.Loss {
	return slices.DeleteFunc(s.Losses(), func(l repair.Loss) bool {
		return !l.Overlaps(mint, maxt) || l.Kind == repair.Future && !s.jumpedOver(l) // else it was never the time that it names
	})
}

// readQuarantine updates the losses from the folder: parts from earlier starts, and parts that the user has deleted
// since.
func (s *Store) readQuarantine() {
	found := repair.Quarantined(filepath.Join(s.opts.Dir, repair.QuarantineName))
	have := s.losses.Lock()
	defer s.losses.Unlock()
	for _, l := range *have {
		if l.Moved.IsZero() && repair.Exists(filepath.Join(s.opts.Dir, l.Part)) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b repair.Loss) int { return cmp.Compare(a.Part, b.Part) })
	*have = found
}
