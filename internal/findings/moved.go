package findings

import (
	"time"

	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// For internal/cli, whose files move at the same time; the next commit about them removes these.
type (
	Querier      = query.Querier
	RangeQuerier = query.RangeQuerier
	Machine      = query.Machine
	Part         = rivals.Part
	Place        = rivals.Place
)

// OwnCPU fills in OwnCPUTime.
func OwnCPU(matchers, window string) string {
	return query.Scope{Here: matchers, Over: window}.Expand(OwnCPUTime)
}

// PromDuration is query.PromDuration.
func PromDuration(d time.Duration) string { return query.PromDuration(d) }
