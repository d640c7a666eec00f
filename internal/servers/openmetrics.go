package servers

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/teescope/teescope/internal/host"
)

// openMetrics reads a page of metrics in the text format that all exporters know.
var openMetrics = App{
	Name:    "openmetrics",
	Doc:     "A counter of any server that has a page of metrics for Prometheus; all series of that name are added, and the number of observations stands for a histogram or a summary",
	Address: "http://127.0.0.1:9100/metrics",
	Check:   CheckURL,
	Counter: true,
	Read: func(ctx context.Context, h *host.Host, t Target) (float64, error) {
		q, err := t.question(h)
		if err != nil {
			return 0, err
		}
		page, _, err := get(ctx, q, "text/plain;version=0.0.4")
		if err != nil {
			return 0, err
		}
		return counterOf(page, t.Counter)
	},
}

// counterOf adds up the series of a counter.
func counterOf(page []byte, name string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return 0, fmt.Errorf("its page of metrics: %.160q", err.Error())
	}
	family := families[name]
	if family == nil {
		// The number of observations has a name of its own on the page, and none here.
		family = families[strings.TrimSuffix(name, "_count")]
		if family == nil || family.GetType() != dto.MetricType_HISTOGRAM && family.GetType() != dto.MetricType_SUMMARY {
			return 0, fmt.Errorf("its page of metrics has no %s", name)
		}
	}
	sum := 0.0
	for _, m := range family.GetMetric() {
		v := 0.0
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			v = m.GetCounter().GetValue()
		case dto.MetricType_UNTYPED:
			v = m.GetUntyped().GetValue()
		case dto.MetricType_HISTOGRAM:
			v = float64(m.GetHistogram().GetSampleCount())
		case dto.MetricType_SUMMARY:
			v = float64(m.GetSummary().GetSampleCount())
		default:
			return 0, fmt.Errorf("its metric %s is a %s; want a counter", name, strings.ToLower(family.GetType().String()))
		}
		const wrapped = 1 << 63 // a number that fell below 0
		if !(v >= 0 && v < wrapped) {
			return 0, fmt.Errorf("its counter %s is %g", name, v)
		}
		sum += v
	}
	return sum, nil
}
