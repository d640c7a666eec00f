// Package formats is how results are written, one file per format. All of them
// print the word "missing" and the reason where there is no value.
package formats

import "github.com/teescope/teescope/internal/report"

// All is every format, in the order of the help text.
var All = []*report.Format{text, markdown, html, csvSamples, csvComparisons, jsonFormat, summary, openmetrics, gobench}
