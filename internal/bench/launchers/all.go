// Package launchers is where a workload can run, one file per launcher.
package launchers

import "github.com/teescope/teescope/internal/bench"

// All is every launcher, in the order of `teescope bench list`.
var All = []*bench.Launcher{
	&native,
	&container,
	&gvisor,
	&qemu,
	&ssh,
}
