// Package launchers holds the places where a workload can run, one file per launcher.
package launchers

import (
	"slices"

	"github.com/teescope/teescope/internal/bench"
)

// All is every launcher, in the order of `teescope bench list`; those that are
// command templates come last.
var All = slices.Concat([]*bench.Launcher{
	&native,
	&beside,
	&dmcrypt,
	&container,
	&gvisor,
	&qemu,
	&ssh,
	&pod,
	&fake,
}, templates())
