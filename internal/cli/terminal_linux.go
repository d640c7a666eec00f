package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal reports whether a stream is a terminal (termios(3)).
func isTerminal(stream any) bool {
	f, ok := unwrapped(stream).(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
