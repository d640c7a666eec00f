package store

import (
	"time"

	"github.com/prometheus/prometheus/storage"
)

// EachMinute does now what the store does each minute.
func (s *Store) EachMinute() { s.eachMinute() }

// Engine answers the monitor's own queries and the recording rules.
func (s *Store) Engine() *Engine { return s.engine }

// Appendable is what scrapes and recording rules write to.
func (s *Store) Appendable() storage.Appendable { return door{s} }

// Tear does what a failed write does.
func (q *Queue) Tear() { _ = q.note(errTorn) }

// LimitAnswers bounds an engine's answers, in bytes.
func (o *RemoteOptions) LimitAnswers(n int64) { o.limit = n }

// Poke makes the queues of remote write look at the log now, as the next round would.
func (t *tally) Poke() { t.send.Notify() }

// Reboot makes it another boot of the machine, a minute ago.
func (o *Options) Reboot(id string) {
	o.boot = func() (string, time.Duration) { return id, time.Minute }
}
