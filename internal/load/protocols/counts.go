package protocols

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/teescope/teescope/internal/load"
)

// countsStatistics reads the page on which the worker's own servers report the
// resources that they and their surroundings have used.
var countsStatistics = load.Statistics{
	Name:   "counts",
	Doc:    "A JSON object of numbers at http://--stats-address/, like the one of the worker's command gateway.",
	Gauges: []string{"cpus"},
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		if o.StatisticsAddress == "" {
			return nil, nil, errors.New("want --stats-address HOST:PORT")
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.StatisticsAddress+"/", nil)
		if err != nil {
			return nil, nil, err
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return nil, nil, err
		}
		defer r.Body.Close()
		page, err := io.ReadAll(io.LimitReader(r.Body, mostCounts))
		if err != nil {
			return nil, nil, fmt.Errorf("read the page of counts: %w", err)
		}
		if r.StatusCode != http.StatusOK {
			return nil, nil, fmt.Errorf("the page of counts is not available: %.200s", page)
		}
		counts, err := parseCounts(page)
		return counts, nil, err
	},
}

// mostCounts bounds the page, in bytes: a line for each of 512 CPUs is 20 KiB.
const mostCounts = 256 << 10

// possible reports whether a server can have counted a number: it is not negative, and has not wrapped below 0.
func possible(v float64) bool { return v >= 0 && v < 1<<63 }

func parseCounts(page []byte) (map[string]float64, error) {
	var counts map[string]float64
	if err := json.Unmarshal(page, &counts); err != nil {
		return nil, fmt.Errorf("parse the page of counts: %w", err)
	}
	maps.DeleteFunc(counts, func(_ string, v float64) bool { return !possible(v) })
	if len(counts) == 0 {
		return nil, errors.New("the page of counts is empty")
	}
	return counts, nil
}
