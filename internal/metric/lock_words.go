package metric

import (
	"slices"
	"strings"
)

// lockKinds are the labels of locks whose memory has no name, and the one of those beyond the limits.
var lockKinds = []string{"heap", "stack", "shared memory", "variables", "other"}

// LockVariable is the label of a lock in a variable. One whose name is another label says that it is a variable.
func LockVariable(name string) string {
	if slices.Contains(lockKinds, name) || strings.HasPrefix(name, "in ") {
		return "variable " + name
	}
	return name
}

// LockWords names a lock in a sentence, from the label lock of tee_sampled_lock_wait_seconds_total.
func LockWords(label string) string {
	if function, ok := strings.CutPrefix(label, "in "); ok {
		return "a lock taken in " + function
	}
	switch label {
	case "heap", "stack":
		return "locks on its " + label
	case "shared memory":
		return "locks in shared memory"
	case "variables":
		return "locks in its variables"
	}
	return "the lock " + label
}
