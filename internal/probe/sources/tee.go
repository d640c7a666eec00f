package sources

import (
	"context"
	"strconv"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var teeInfoDesc = gauge("tee_info", "Always 1, with the detected properties of each TEE as labels; absent where there is none.",
	"kind", "variant", "role", "active", "debug")

var teeInfo = probe.Source{
	Name:    "tee",
	Doc:     "The TEEs that were detected when teescope started",
	Metrics: []*metric.Desc{teeInfoDesc},
	Open: func(_ *host.Host, facts []tee.Facts) (probe.Reader, error) {
		return reading(func(_ context.Context, out emitter) error {
			for _, f := range facts {
				out.send(teeInfoDesc, 1, f.Kind, f.Variant, string(f.Role), strconv.FormatBool(f.Active), strconv.FormatBool(f.Debug))
			}
			return nil
		}), nil
	},
}
