package store

import "github.com/prometheus/prometheus/storage"

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }

// Engine answers the monitor's own queries and the recording rules.
func (s *Store) Engine() *Engine { return s.engine }

// Appendable is what scrapes and recording rules write to.
func (s *Store) Appendable() storage.Appendable { return door{s} }
