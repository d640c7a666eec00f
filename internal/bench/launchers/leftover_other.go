//go:build !linux

package launchers

import "io/fs"

// isOurs trusts no file: environments are made on Linux, so nothing is left behind.
func isOurs(fs.FileInfo) bool { return false }

func kill(int) {}
