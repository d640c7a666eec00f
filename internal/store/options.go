package store

import (
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/tsdb"
)

// Options say where and how long to keep data. Start from DefaultOptions.
type Options struct {
	// Dir is the database's own folder; it is made if missing.
	Dir string
	// Retention is how long samples are kept. MaxBytes additionally bounds the size of
	// the blocks on disk; 0 is no limit. Whole blocks are dropped, oldest first.
	Retention time.Duration
	MaxBytes  int64
	// Job and Instance are the labels of the samples given to Append.
	Job, Instance string
	// Version is the program's own, which /api/v1/status/buildinfo gives as the revision.
	Version string
	// Interval is the expected interval of Append, shown for the local target in
	// /api/v1/targets.
	Interval time.Duration
	// RuleInterval is the evaluation interval of the recording rules.
	RuleInterval time.Duration
	// SyncInterval is how often the log is flushed to the disk: the time that a power
	// cut may lose.
	SyncInterval time.Duration
	// Reserve is the size of the file that is released when the disk is full, so the
	// log can be repaired; 0 is none.
	Reserve int64
	// MinFree is the free space below which samples are refused rather than written.
	MinFree int64
	// Sources maps metrics to the source that they come from. Answers to queries over
	// HTTP contain, as warnings, what such a source did not count.
	Sources map[string]string
	// Query bounds every query, from Go and over HTTP.
	Query EngineOptions
	// Now is the clock; nil is time.Now. Scrapes and recording rules run by time.Now.
	Now func() time.Time
	// Built is when the program was built: a clock that shows an earlier time is behind. Zero: unknown.
	Built time.Time
	// Logger receives Prometheus' messages, from warnings up; nil discards them.
	Logger *slog.Logger

	// flush is how long Close waits for the receivers of remote write.
	flush time.Duration
	// boot identifies the machine's boot, and says how long ago it was; nil is the kernel's.
	boot func() (id string, uptime time.Duration)

	// blockQuerier and blockChunkQuerier open a view of a block; nil are the database's.
	blockQuerier      tsdb.BlockQuerierFunc
	blockChunkQuerier tsdb.BlockChunkQuerierFunc

	// chunkFile is the size of a block's files of chunks, which is taken from the disk in
	// advance; 0 is the database's.
	chunkFile int64
	// block is the time span of a first-generation block on disk; the head in memory
	// spans up to one and a half of it.
	block time.Duration
}

// DefaultOptions keep 15 days.
func DefaultOptions() Options {
	return Options{
		Retention:    15 * 24 * time.Hour,
		Job:          "teescope",
		Instance:     "localhost",
		Interval:     5 * time.Second,
		RuleInterval: 30 * time.Second,
		SyncInterval: 5 * time.Second,
		Reserve:      32 << 20,
		MinFree:      8 << 20,
		Query:        DefaultEngineOptions(),
		flush:        flushWithin,
		block:        2 * time.Hour,
	}
}
