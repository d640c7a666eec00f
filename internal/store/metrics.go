package store

// The store's metrics about itself: series, samples appended, lost and refused, errors, sizes.

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store/repair"
)

// The store's own metrics.
var (
	descSeries = &metric.Desc{Name: "teescope_store_series", Kind: metric.Gauge,
		Help: "Series in memory, local, scraped and recorded."}
	descAppended = &metric.Desc{Name: "teescope_store_samples_appended_total", Kind: metric.Counter, Better: metric.Higher,
		Help: "Samples acknowledged since the start."}
	descLost = &metric.Desc{Name: "teescope_store_lost_samples_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Samples offered but not stored since the start: disk full, failed write, refused."}
	descRefused = &metric.Desc{Name: "teescope_store_refused_samples_total", Kind: metric.Counter, Better: metric.Lower, Labels: []string{"reason"},
		Help: "Lost samples that were refused one by one since the start, while the others of their round or page were stored, by reason."}
	descWALErrors = &metric.Desc{Name: "teescope_store_wal_errors_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Failed writes after which the log was put in order."}
	descCheckpointErrors = &metric.Desc{Name: "teescope_store_checkpoint_errors_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Times that the log could not be shortened."}
	descCut = &metric.Desc{Name: "teescope_store_cut_bytes_total", Kind: metric.Counter, Better: metric.Lower,
		Help: "Bytes of damaged log cut off, at start and after failed writes."}
	descBytes = &metric.Desc{Name: "teescope_store_bytes", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Disk space of the store's folder in bytes, without its reserve, looked at each minute."}
	descUnclean = &metric.Desc{Name: "teescope_store_unclean_start", Kind: metric.Gauge, Better: metric.Lower,
		Help: "1 if the last owner of the store did not close it, else 0."}
	descDamagedParts = &metric.Desc{Name: "teescope_store_damaged_parts", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Number of damaged parts of the store: in the folder quarantine, or met by queries since the start."}
	descDamaged = &metric.Desc{Name: "teescope_store_damaged", Kind: metric.Gauge, Better: metric.Lower, Labels: []string{"part", "kind", "state", "lost"},
		Help: "1 for each damaged part of the store with which samples were lost, 0 where the rest has them all. " +
			"State quarantined is one that was moved to the folder quarantine, until it is deleted there; skipped is a block of which queries left something out since the start."}
)

// Metrics lists what Collect emits.
var Metrics = append([]*metric.Desc{descSeries, descAppended, descLost, descRefused, descWALErrors, descCheckpointErrors, descCut, descBytes, descUnclean, descDamagedParts, descDamaged, descDelay}, remoteDescs...)

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
	s.refusals.collect(emit)
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
	losses := s.Losses()
	emit(metric.Sample{Desc: descDamagedParts, Value: float64(len(losses))})
	for _, l := range losses {
		state, lost := "quarantined", 1.0
		if l.Moved.IsZero() {
			state = "skipped"
		}
		if l.Lost == repair.LostNothing {
			lost = 0
		}
		emit(metric.Sample{Desc: descDamaged, Labels: []string{l.Part, l.Kind, state, l.Lost}, Value: lost})
	}
	s.send.collect(emit)
}

// counter returns one of the database's counters, 0 if there is none.
func counter(reg prometheus.Gatherer, name string) float64 { return counterOf(reg, name, "") }

// counterOf is counter for the one with a label of that value.
func counterOf(reg prometheus.Gatherer, name, label string) float64 {
	families, err := reg.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			if label == "" || slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
