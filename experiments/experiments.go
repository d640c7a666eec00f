// Package experiments carries the experiment files into the program, so that
// `teescope bench run NAME` finds them on every machine, and the published figures that
// reports show behind measured ones.
package experiments

import "embed"

// Files are the experiments by file name.
//
//go:embed *.yaml
var Files embed.FS

// Published has cost ratios that others published, as CSV. README.md describes its columns.
//
//go:embed published.csv
var Published []byte

// Specifications has what GPUs can do at most by their vendors' specifications, as CSV.
//
//go:embed specifications.csv
var Specifications []byte
