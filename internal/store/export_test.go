package store

import "github.com/prometheus/prometheus/promql"

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }

// Engine answers the monitor's own queries and the recording rules.
func (s *Store) Engine() *promql.Engine { return s.engine }
