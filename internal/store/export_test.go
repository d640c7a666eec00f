package store

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }

// Engine answers the monitor's own queries and the recording rules.
func (s *Store) Engine() *Engine { return s.engine }
