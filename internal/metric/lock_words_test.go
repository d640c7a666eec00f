package metric

import "testing"

// TestLockVariable: no variable is taken for a kind of memory or for a function.
func TestLockVariable(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "the lock orders", "heap": "the lock variable heap", "other": "the lock variable other",
		"variables": "the lock variable variables", "in main": "the lock variable in main",
	} {
		t.Run(name, func(t *testing.T) {
			if got := LockWords(LockVariable(name)); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
	}
}
