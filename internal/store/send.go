package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage/remote"

	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
)

// sender copies what is written to the log to other engines: Prometheus' remote write. It reads the log, so the log is
// its queue on disk; in memory it has a few batches for each receiver. A receiver that was away gets what the log still
// has. A new process begins with its own samples, as Prometheus does.
type sender struct {
	dir     string // its log is in the folder wal
	log     *slog.Logger
	reg     *prometheus.Registry
	flush   time.Duration
	scraper func() *scrape.Manager // whose metadata is sent

	storage atomic.Pointer[remote.Storage] // nil until there is a receiver
	queues  locked.Value[queues]
}

// queues are the receivers in use.
type queues struct {
	config *config.Config
	since  time.Time // when they began to read the log, by the wall clock
}

// flushWithin is how long the end of a queue waits for its receiver.
const flushWithin = 5 * time.Second

// smallQueues bounds the memory of a queue that sets no bound itself. It has up to 12,000 samples of some 100 bytes for
// each shard, and takes more shards while its receiver is slow: Prometheus' 50 would be more than a monitor's budget.
var smallQueues = sync.OnceFunc(func() {
	config.DefaultRemoteWriteConfig.QueueConfig.MaxShards = 10
})

func newSender(o Options, dir string, log *slog.Logger, scraper func() *scrape.Manager) *sender {
	return &sender{dir: dir, log: slog.New(seldom{log.Handler(), &said{at: map[string]time.Time{}}}), reg: prometheus.NewRegistry(),
		flush: o.flush, scraper: scraper}
}

// Get returns the scrapes of whose targets the metadata is sent.
func (s *sender) Get() (*scrape.Manager, error) { return s.scraper(), nil }

// begin returns Prometheus' part, and makes it when it is needed first.
func (s *sender) begin() *remote.Storage {
	if r := s.storage.Load(); r != nil {
		return r
	}
	r := remote.NewStorage(s.log, s.reg, nil, s.dir, s.flush, s, false)
	s.storage.Store(r)
	return r
}

// apply replaces the receivers. Those that stay keep their queues.
func (s *sender) apply(c *config.Config) error {
	q := s.queues.Lock()
	defer s.queues.Unlock()
	if len(c.RemoteWriteConfigs) == 0 && s.storage.Load() == nil {
		return nil
	}
	only := &config.Config{GlobalConfig: c.GlobalConfig, RemoteWriteConfigs: c.RemoteWriteConfigs}
	if err := s.begin().ApplyConfig(only); err != nil {
		return fmt.Errorf("apply remote_write: %w", err)
	}
	if q.config == nil {
		q.since = wall()
	}
	q.config = only
	return nil
}

// restart lets the queues read a log that was begun anew: its references to series mean others.
func (s *sender) restart() {
	q := s.queues.Lock()
	defer s.queues.Unlock()
	s.restartQueues(q)
}

func (s *sender) restartQueues(q *queues) {
	r := s.storage.Load()
	if r == nil || q.config == nil {
		return
	}
	err := r.ApplyConfig(&config.Config{GlobalConfig: q.config.GlobalConfig})
	if err == nil {
		err = r.ApplyConfig(q.config)
	}
	if err != nil {
		s.log.Warn("restart the queues of remote_write", "err", err)
	}
	q.since = wall()
}

// wrote tells the queues of n samples in the log, the last of them at a time in milliseconds. They take no sample that
// is older than their begin: after the clock went back behind that, they begin again.
func (s *sender) wrote(n int, last int64) {
	r := s.storage.Load()
	if r == nil || n == 0 {
		return
	}
	a := r.Appender(context.Background()) // it only counts
	for range n {
		_, _ = a.Append(0, labels.EmptyLabels(), last, 0)
	}
	_ = a.Commit()
	q := s.queues.Lock()
	defer s.queues.Unlock()
	if wall().Before(q.since) {
		s.restartQueues(q)
	}
}

// Notify makes the queues read the log.
func (s *sender) Notify() {
	if r := s.storage.Load(); r != nil {
		r.Notify()
	}
}

// close waits until the receivers have what is in memory, but not for long.
func (s *sender) close() error {
	r := s.storage.Load()
	if r == nil {
		return nil
	}
	s.queues.Lock()
	defer s.queues.Unlock()
	return r.Close()
}

// wall is the clock without its monotonic part, which does not go back.
func wall() time.Time { return time.Now().Round(0) }

// remoteLabels are the labels of a queue's metrics.
var remoteLabels = []string{"remote_name", "url"}

// The metrics of queues have Prometheus' names, so dashboards and alerts for these work.
var (
	descDelay = &metric.Desc{Name: "teescope_remote_write_delay_seconds", Kind: metric.Gauge, Better: metric.Lower, Labels: remoteLabels,
		Help: "Age of the newest sample that the receiver has, in seconds; since the start if it has none."}
	remoteDescs = []*metric.Desc{
		{Name: "prometheus_remote_storage_samples_total", Kind: metric.Counter, Labels: remoteLabels,
			Help: "Samples sent to a receiver of remote write, with those that failed."},
		{Name: "prometheus_remote_storage_samples_failed_total", Kind: metric.Counter, Better: metric.Lower, Labels: remoteLabels,
			Help: "Samples that a receiver refused for good (HTTP 4xx): they are lost there."},
		{Name: "prometheus_remote_storage_samples_retried_total", Kind: metric.Counter, Better: metric.Lower, Labels: remoteLabels,
			Help: "Samples that were sent again, because a receiver was away or answered HTTP 5xx."},
		{Name: "prometheus_remote_storage_samples_dropped_total", Kind: metric.Counter, Better: metric.Lower, Labels: append(remoteLabels[:2:2], "reason"),
			Help: "Samples that were read from the log and not sent, by reason: write_relabel_configs, too old, series unknown."},
		{Name: "prometheus_remote_storage_samples_pending", Kind: metric.Gauge, Better: metric.Lower, Labels: remoteLabels,
			Help: "Samples in memory that wait for a receiver. More may wait in the log."},
		{Name: "prometheus_remote_storage_bytes_total", Kind: metric.Counter, Better: metric.Lower, Labels: remoteLabels,
			Help: "Bytes sent to a receiver, compressed."},
		{Name: "prometheus_remote_storage_shards", Kind: metric.Gauge, Labels: remoteLabels,
			Help: "Requests to a receiver that may run at once."},
		{Name: "prometheus_remote_storage_shards_desired", Kind: metric.Gauge, Labels: remoteLabels,
			Help: "Requests at once that a queue would need to keep up."},
		{Name: "prometheus_remote_storage_shards_max", Kind: metric.Gauge, Labels: remoteLabels,
			Help: "Most requests at once (queue_config.max_shards)."},
		{Name: highestSent, Kind: metric.Gauge, Labels: remoteLabels,
			Help: "Unix time of the newest sample that a receiver has; 0 until it has one."},
		{Name: "prometheus_remote_storage_highest_timestamp_in_seconds", Kind: metric.Gauge,
			Help: "Unix time of the newest sample that was written to the log."},
	}
)

const highestSent = "prometheus_remote_storage_queue_highest_sent_timestamp_seconds"

// collect emits the metrics of the queues; none without a receiver.
func (s *sender) collect(emit func(metric.Sample)) {
	if s.storage.Load() == nil {
		return
	}
	since := s.queues.Lock().since
	s.queues.Unlock()
	families, err := s.reg.Gather()
	if err != nil {
		return // a queue was replaced in that moment
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	for _, d := range remoteDescs {
		for _, m := range byName[d.Name].GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() // it has one of them
			emit(metric.Sample{Desc: d, Labels: labelsOf(m, d.Labels), Value: v})
			if d.Name == highestSent {
				newest := time.UnixMilli(int64(v * 1000))
				if newest.Before(since) {
					newest = since
				}
				emit(metric.Sample{Desc: descDelay, Labels: labelsOf(m, remoteLabels), Value: max(0, wall().Sub(newest).Seconds())})
			}
		}
	}
}

// labelsOf returns the values of a metric's labels, in the order of names.
func labelsOf(m *dto.Metric, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		for _, l := range m.GetLabel() {
			if l.GetName() == name {
				out[i] = printable.Redact(l.GetValue()) // of the URL
			}
		}
	}
	return out
}
