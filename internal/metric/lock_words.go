package metric

import "strings"

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
