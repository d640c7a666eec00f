package prices

import "github.com/teescope/teescope/internal/explain"

var copyPage = Price{
	Price:  explain.Price{Event: "copy_page", Metric: explain.BouncedBytes, Also: []string{explain.AcceptedBytes, explain.StagedBytes}, Per: 4096, How: "copying 4 KiB within the nearest cache, timed on this machine, for a byte"},
	method: "copying 4 KiB within the nearest cache: the minimum that a bounce buffer adds for each page",
	jobs:   map[string][]string{"page": timed("thread", "memory", "copy", "8192")}, unit: direct("page"),
}
