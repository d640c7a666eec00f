//go:build !linux

package result

import "os"

// lockFile does nothing: a client makes no experiments, so nothing writes.
func lockFile(*os.File, bool) error { return nil }
