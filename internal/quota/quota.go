// Package quota divides the memory that this process may use among those whom others can make use much of it: queries, their
// answers, scraped series, result files and requests. Who would go beyond a share is refused with the numbers,
// instead of ending the process. Memory that grows slowly, and is bounded elsewhere, has no share.
package quota

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
)

// Budget is the memory of a process and its shares.
type Budget struct {
	// Limit is how much the process may use in bytes, and From what says so: "the memory limit of its control group".
	Limit int64
	From  string
	// Queries is for what is being evaluated, Answers for what was evaluated and is not sent yet, Requests for their bodies and
	// expressions, Results for result files that are being read.
	Queries, Answers, Requests, Results *Share
	// Series is how many series may be in memory before scrapes get no new ones.
	Series int
}

// seriesBytes is what a series costs in memory: 2.9 KiB (docs/lab/performance.md, a fleet).
const seriesBytes = 2900

// unlimited is what a Budget has without any limit or memory that could be read: as on a machine of 4 GiB.
const unlimited = 2 << 30

// New divides a limit. Of 256 MiB a monitor uses some 70 itself; series and the shares have to fit beside that, with the garbage
// that the collector leaves. On large machines the shares end where more is of no use to a page.
func New(limit int64, from string) *Budget {
	return &Budget{
		Limit: limit, From: from,
		Queries:  NewShare("queries", min(limit/8, 256<<20)),
		Answers:  NewShare("answers", min(limit/8, 256<<20)),
		Requests: NewShare("requests", min(limit/16, 64<<20)),
		Results:  NewShare("results", min(limit/4, 512<<20)),
		Series:   int(limit / 4 / seriesBytes),
	}
}

// Own returns the budget of this process. It is found once: memory is one for the whole process.
var Own = sync.OnceValue(func() *Budget { return New(Find(host.Local())) })

// Find returns how much memory a process on h may use, and what says so: the least limit of its control group and those above it, or
// else half of the machine's memory.
func Find(h *host.Host) (limit int64, from string) {
	total := int64(0)
	if fields, err := machine.Meminfo(h); err == nil || len(fields) > 0 {
		total = int64(min(fields["MemTotal"], 1<<50))
	}
	if g, err := machine.OwnCgroups(h); err == nil {
		if n, ok := g.MemoryLimit(); ok && n > 0 && (total == 0 || n < total) {
			return n, "the memory limit of its control group"
		}
	}
	if total == 0 {
		return unlimited, "a guess, because /proc/meminfo cannot be read"
	}
	return total / 2, "half of this machine's memory"
}

// Share is a part of the memory. Its methods may be called from several goroutines. A nil Share refuses nothing.
type Share struct {
	Name  string
	Limit int64

	free    *semaphore.Weighted
	used    atomic.Int64
	refused atomic.Uint64
}

// NewShare returns a share of limit bytes.
func NewShare(name string, limit int64) *Share {
	return &Share{Name: name, Limit: limit, free: semaphore.NewWeighted(limit)}
}

// Exceeded is the error of a caller that would go beyond a share.
type Exceeded struct {
	Share             string
	Want, Used, Limit int64
}

// Busy reports whether others have what is wanted, so it may be there later.
func (e *Exceeded) Busy() bool { return e.Want <= e.Limit }

// Status is that of an answer over HTTP: 503 where it may work later, 422 where less has to be asked for.
func (e *Exceeded) Status() int {
	if e.Busy() {
		return http.StatusServiceUnavailable
	}
	return http.StatusUnprocessableEntity
}

func (e *Exceeded) Error() string {
	if !e.Busy() {
		return fmt.Sprintf("this needs about %s of memory; all %s together may have %s", size(e.Want), e.Share, size(e.Limit))
	}
	return fmt.Sprintf("this needs about %s of memory; other %s have %s of the %s that all may have: try again later", size(e.Want), e.Share, size(e.Used), size(e.Limit))
}

func size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", (n+1023)>>10)
}

// Reserve reserves n bytes at once, or fails with Exceeded. The caller calls release when it no longer has them; later calls do nothing.
func (s *Share) Reserve(n int64) (release func(), err error) {
	if s == nil || n <= 0 {
		return func() {}, nil
	}
	if !s.free.TryAcquire(n) {
		s.refused.Add(1)
		return nil, &Exceeded{s.Name, n, s.used.Load(), s.Limit}
	}
	return s.addUsed(n), nil
}

// ReserveWithin is Reserve that tries again until others have given back enough, for a while. It keeps no place in a queue, so nobody who
// would fit waits for it.
func (s *Share) ReserveWithin(ctx context.Context, n int64, while time.Duration) (release func(), err error) {
	if s == nil || n <= 0 {
		return func() {}, nil
	}
	until := time.NewTimer(while)
	defer until.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for n <= s.Limit {
		if s.free.TryAcquire(n) {
			return s.addUsed(n), nil
		}
		select {
		case <-again.C:
			continue
		case <-until.C:
		case <-ctx.Done():
		}
		break
	}
	return s.Reserve(n)
}

// Wait is Reserve that waits in turn until ctx ends; then it fails with ctx's error.
func (s *Share) Wait(ctx context.Context, n int64) (release func(), err error) {
	if s == nil || n <= 0 {
		return func() {}, nil
	}
	if n > s.Limit {
		s.refused.Add(1)
		return nil, &Exceeded{s.Name, n, s.used.Load(), s.Limit}
	}
	if err := s.free.Acquire(ctx, n); err != nil {
		s.refused.Add(1)
		return nil, err
	}
	return s.addUsed(n), nil
}

func (s *Share) addUsed(n int64) func() {
	s.used.Add(n)
	return sync.OnceFunc(func() {
		s.used.Add(-n)
		s.free.Release(n)
	})
}

// UsedBytes is how many bytes are reserved.
func (s *Share) UsedBytes() int64 {
	if s == nil {
		return 0
	}
	return s.used.Load()
}

// The metrics of a budget.
var (
	descLimit = &metric.Desc{Name: "teescope_memory_limit_bytes", Kind: metric.Gauge,
		Help: "How much memory teescope may use, in bytes: the least limit of its control group and those above it, or else half of the machine's memory. Its shares follow from it."}
	descShareLimit = &metric.Desc{Name: "teescope_memory_share_limit_bytes", Kind: metric.Gauge, Labels: []string{"share"},
		Help: "How much memory all queries, answers, requests or results together may use for a moment, in bytes. What would go beyond is refused."}
	descShareUsed = &metric.Desc{Name: "teescope_memory_share_used_bytes", Kind: metric.Gauge, Better: metric.Lower, Labels: []string{"share"},
		Help: "Memory reserved in a share in bytes, by an estimate made in advance."}
	descRefused = &metric.Desc{Name: "teescope_memory_refused_total", Kind: metric.Counter, Better: metric.Lower, Labels: []string{"share"},
		Help: "Queries, answers, requests and results refused since the start because their share was used up or too small."}
)

// Metrics lists what Collect emits.
var Metrics = []*metric.Desc{descLimit, descShareLimit, descShareUsed, descRefused}

// Collect emits the limits, what is used of them, and how many were refused.
func (b *Budget) Collect(emit func(metric.Sample)) {
	emit(metric.Sample{Desc: descLimit, Value: float64(b.Limit)})
	for _, s := range []*Share{b.Queries, b.Answers, b.Requests, b.Results} {
		label := []string{s.Name}
		emit(metric.Sample{Desc: descShareLimit, Labels: label, Value: float64(s.Limit)})
		emit(metric.Sample{Desc: descShareUsed, Labels: label, Value: float64(s.used.Load())})
		emit(metric.Sample{Desc: descRefused, Labels: label, Value: float64(s.refused.Load())})
	}
}
