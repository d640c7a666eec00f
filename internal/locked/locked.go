// Package locked shows by types what a lock guards.
package locked

import "sync"

// Value holds a T that is reached only through its lock. The zero Value holds the
// zero T. A Value must not be copied after its first use.
//
//	held := value.Lock()
//	defer value.Unlock()
type Value[T any] struct {
	mu sync.Mutex
	v  T
}

// New returns a Value that holds v.
func New[T any](v T) Value[T] { return Value[T]{v: v} }

// Lock returns what l holds. The caller must not use it after Unlock.
func (l *Value[T]) Lock() *T { l.mu.Lock(); return &l.v }

// TryLock is Lock, or returns nil while another holds the lock.
func (l *Value[T]) TryLock() *T {
	if !l.mu.TryLock() {
		return nil
	}
	return &l.v
}

// Unlock ends the use of what Lock or TryLock returned.
func (l *Value[T]) Unlock() { l.mu.Unlock() }
