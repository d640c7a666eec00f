package monitor

import (
	"github.com/teescope/teescope/internal/environment"
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/explain/causes"
	"github.com/teescope/teescope/internal/explain/prices"
	"github.com/teescope/teescope/internal/verdict"
)

// judging is what the commands give a monitor.
var judging = verdict.Options{Diff: environment.Diff, Catalog: &explain.Catalog{Prices: prices.Catalog(), Causes: causes.All}}
