// Package experiments carries the experiment files into the program, so that
// `teescope bench run NAME` finds them on every machine.
package experiments

import "embed"

// Files are the experiments by file name.
//
//go:embed *.yaml
var Files embed.FS
