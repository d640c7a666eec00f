package result

import (
	"os"

	"golang.org/x/sys/unix"
)

// lockFile locks a file for one writer or for several readers, or fails at once (flock(2)).
func lockFile(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	return unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
}
