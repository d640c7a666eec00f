package web

import (
	"math"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/teescope/teescope/internal/metric"
)

// asProtobuf returns the format of a scrape that asks for protobuf, as Prometheus does first when it uses the times at
// which series began: they have no place in the text.
func asProtobuf(h http.Header) (expfmt.Format, bool) {
	if !strings.Contains(h.Get("Accept"), "application/vnd.google.protobuf") {
		return "", false
	}
	f := expfmt.NegotiateAccept(h, expfmt.NewFormat(expfmt.TypeProtoDelim), expfmt.NewFormat(expfmt.TypeTextPlain))
	return f, f.FormatType() == expfmt.TypeProtoDelim
}

// writeProtobuf writes samples, which are ordered by name.
func writeProtobuf(w http.ResponseWriter, f expfmt.Format, samples []metric.Sample) {
	w.Header().Set("Content-Type", string(f))
	to := expfmt.NewEncoder(w, f)
	for i := 0; i < len(samples); {
		d := samples[i].Desc
		family := &dto.MetricFamily{Name: proto.String(d.Name), Help: proto.String(d.Help), Type: typeOf[d.Kind].Enum()}
		for ; i < len(samples) && samples[i].Desc == d; i++ {
			family.Metric = append(family.Metric, message(&samples[i]))
		}
		if to.Encode(family) != nil {
			return // the scraper went away
		}
	}
}

var typeOf = map[metric.Kind]dto.MetricType{
	metric.Counter: dto.MetricType_COUNTER, metric.Gauge: dto.MetricType_GAUGE,
	metric.Histogram: dto.MetricType_HISTOGRAM, metric.Untyped: dto.MetricType_UNTYPED,
}

func message(s *metric.Sample) *dto.Metric {
	m := &dto.Metric{}
	for i, v := range s.Labels {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(s.Desc.Labels[i]), Value: proto.String(v)})
	}
	switch s.Desc.Kind {
	case metric.Counter:
		m.Counter = &dto.Counter{Value: &s.Value, CreatedTimestamp: created(s.Zero)}
	case metric.Gauge:
		m.Gauge = &dto.Gauge{Value: &s.Value}
	case metric.Untyped:
		m.Untyped = &dto.Untyped{Value: &s.Value}
	case metric.Histogram:
		h := &dto.Histogram{SampleSum: &s.Hist.Sum, CreatedTimestamp: created(s.Zero)}
		var n uint64
		for i, c := range s.Hist.Counts {
			n += c
			le := math.Inf(1)
			if i < len(s.Hist.Bounds) {
				le = s.Hist.Bounds[i]
			}
			h.Bucket = append(h.Bucket, &dto.Bucket{UpperBound: proto.Float64(le), CumulativeCount: proto.Uint64(n)})
		}
		h.SampleCount = proto.Uint64(n)
		m.Histogram = h
	}
	return m
}

// created is when a series was 0; nil if that is unknown.
func created(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
