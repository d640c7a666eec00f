//go:build !linux

package cli

import (
	"context"

	"github.com/teescope/teescope/internal/result"
)

// askEngine needs Linux: a client has no query language of its own.
func (x explainer) askEngine(context.Context, *explained) (witness, error) {
	return witness{}, needsLinux("explain --query-url")
}

// costsNow has no costs of this machine: results are made on Linux.
func costsNow(*result.Experiment, string) *result.UnitCosts {
	return &result.UnitCosts{Reason: "the result holds no unit costs, and those of its machine are not here"}
}
