package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/teescope/teescope/internal/metric"
)

// The store's own metrics.
var (
	descSeries = &metric.Desc{Name: "teescope_store_series", Kind: metric.Gauge,
		Help: "Series in memory, local, scraped and recorded."}
	descAppended = &metric.Desc{Name: "teescope_store_samples_appended_total", Kind: metric.Counter, Better: metric.Higher,
		Help: "Samples acknowledged since the start."}
	descLost = &metric.Desc{Name: "teescope_store_lost_samples_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Samples offered but not stored since the start: disk full, failed write, refused."}
	descWALErrors = &metric.Desc{Name: "teescope_store_wal_errors_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Failed writes after which the log was put in order."}
	descCheckpointErrors = &metric.Desc{Name: "teescope_store_checkpoint_errors_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Times that the log could not be shortened."}
	descCut = &metric.Desc{Name: "teescope_store_cut_bytes_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Bytes of damaged log cut off, at start and after failed writes."}
	descBytes = &metric.Desc{Name: "teescope_store_bytes", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Disk space of the store's folder in bytes, without its reserve, looked at each minute."}
	descUnclean = &metric.Desc{Name: "teescope_store_unclean_start", Kind: metric.Gauge, Better: metric.Lower,
		Help: "1 if the last owner of the store did not get to close it, else 0."}
)

// Metrics lists what Collect emits.
var Metrics = []*metric.Desc{descSeries, descAppended, descLost, descWALErrors, descCheckpointErrors, descCut, descBytes, descUnclean}

// Series is the number of series in memory; 0 while the database is being
// opened again.
func (s *Store) Series() int {
	db, err := s.lease()
	if err != nil {
		return 0
	}
	defer db.unlease()
	return int(db.Head().NumSeries())
}

// Collect emits the store's own metrics. The number of series is absent while the
// database is being reopened, and the size until it is first computed.
func (s *Store) Collect(emit func(metric.Sample)) {
	if db, err := s.lease(); err == nil {
		emit(metric.Sample{Desc: descSeries, Value: float64(db.Head().NumSeries())})
		db.unlease()
	}
	emit(metric.Sample{Desc: descAppended, Value: float64(s.appended.Load())})
	emit(metric.Sample{Desc: descLost, Value: float64(s.lost.Load())})
	emit(metric.Sample{Desc: descWALErrors, Value: float64(s.walErrors.Load())})
	emit(metric.Sample{Desc: descCheckpointErrors, Value: float64(s.checkpointErrors.Load())})
	emit(metric.Sample{Desc: descCut, Value: float64(s.cutBytes.Load())})
	if n := s.bytes.Load(); n > 0 {
		emit(metric.Sample{Desc: descBytes, Value: float64(n)})
	}
	unclean := 0.0
	if s.unclean {
		unclean = 1
	}
	emit(metric.Sample{Desc: descUnclean, Value: unclean})
}

// counter returns one of the database's counters, 0 if there is none.
func counter(reg prometheus.Gatherer, name string) float64 {
	families, err := reg.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name && len(f.Metric) > 0 {
			return f.Metric[0].GetCounter().GetValue()
		}
	}
	return 0
}
