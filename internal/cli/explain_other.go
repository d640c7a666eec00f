//go:build !linux

package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/teescope/teescope/internal/monitor/client"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/result"
)

// askEngine needs Linux: a client has no query language of its own.
func (x *explainer) askEngine(context.Context) (client.Backend, error) {
	return client.Backend{}, needsLinux("explain --query-url")
}

// watchHere needs Linux: a client asks a monitor elsewhere.
func (x *explainer) watchHere(_ context.Context, _ Env, base *url.URL) (client.Backend, func() error, error) {
	return client.Backend{}, func() error { return nil }, fmt.Errorf("no monitor answers at %s, and %w; name a monitor with --server", printable.URL(base), needsLinux("explain without a monitor"))
}

// costsNow has no costs of this machine: results are made on Linux.
func costsNow(*result.Experiment, string) *result.UnitCosts {
	return &result.UnitCosts{Reason: "the result has no unit costs, and the unit costs of the result's machine are not available here"}
}
