// Package experiments carries the experiment files into the program, so that
// `teescope bench run NAME` finds them on every machine, and the published figures that
// reports show behind measured ones.
package experiments

import "embed"

// Files are the experiments by file name.
//
//go:embed *.yaml
var Files embed.FS

// Sources are published documents, each with its tables and the experiments that answer them (package reproduce).
//
//go:embed sources/*.yaml
var Sources embed.FS

// Claims are published tables with the claims about them. README.md there describes the format.
//
//go:embed claims/*.csv
var Claims embed.FS

// Published has cost ratios that others published, as CSV. README.md describes its columns.
//
//go:embed published.csv
var Published []byte

// Specifications has what GPUs can do at most by their vendors' specifications, as CSV.
//
//go:embed specifications.csv
var Specifications []byte
