// Package formats is how results are written, one file per format.
package formats

import "github.com/teescope/teescope/internal/report"

// All is every format, in the order of the help text.
var All = []*report.Format{}
