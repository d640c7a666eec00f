package store

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }
