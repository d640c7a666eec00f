//go:build !linux

package cli

import "os"

// isTerminal reports whether a stream is a terminal, or another device of characters.
func isTerminal(stream any) bool {
	f, ok := unwrapped(stream).(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
