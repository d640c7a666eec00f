package sources

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/printable"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/servers"
	"github.com/teescope/teescope/internal/tee"
)

var requestsTotal = counter("tee_requests_total",
	"Requests that servers report as answered, by the process name in the configuration and by kind of server; includes requests answered before the first reading, and does not fall when a server restarts.",
	"process", "app")

// nameServers is what switches the source on.
const nameServers = "name servers under `requests` in the configuration"

var requests = probe.Source{
	Name:     "requests",
	Doc:      "Requests that servers count themselves (Redis, nginx, PostgreSQL, memcached, or any server with a metrics page), to compute time per request",
	Metrics:  []*metric.Desc{requestsTotal},
	OptIn:    true,
	SwitchOn: nameServers,
	Cost:     "one connection to each server and one query at each reading, in parallel with the other sources",
	Blind:    "requests of servers that the configuration does not name under `requests`",
	Open:     openRequests(func() []servers.Target { return nil }),
}

// Requests is the source that asks the targets named in the configuration; each reading
// uses the current ones.
func Requests(targets func() []servers.Target) *probe.Source {
	s := requests
	s.Open = openRequests(targets)
	return &s
}

// IsRequests reports whether a source is the one that Requests replaces.
func IsRequests(s *probe.Source) bool { return s.Name == requests.Name }

func openRequests(targets func() []servers.Target) func(*host.Host, []tee.Facts) (probe.Reader, error) {
	return func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if len(targets()) == 0 {
			return nil, &probe.Problem{Err: errors.New("the configuration names no server"), Remedy: nameServers}
		}
		ctx, stop := context.WithCancel(context.Background())
		return &requestsReader{host: h, targets: targets, ctx: ctx, stop: stop, asked: map[servers.Target]*inquiry{}, sums: map[requestLabels]*requestSum{}}, nil
	}
}

const (
	// answerWait limits a reading's wait for servers, so a blocked one does not delay
	// the others; the next reading takes a later answer.
	answerWait = 300 * time.Millisecond
	// answerLimit ends a question.
	answerLimit = 2 * time.Second
)

type requestsReader struct {
	host    *host.Host
	targets func() []servers.Target
	ctx     context.Context
	stop    context.CancelFunc
	asked   map[servers.Target]*inquiry
	sums    map[requestLabels]*requestSum
}

// requestLabels are the labels of a series, which may cover several servers.
type requestLabels struct{ process, app string }

// requestSum is what all servers of a series have counted. It outlives servers removed
// from the configuration, and excludes what a server had answered before it joined
// others: either would look like requests of this moment.
type requestSum struct {
	total float64
	sent  bool
}

// inquiry is the newest question to a target.
type inquiry struct {
	since time.Time
	ended chan struct{} // closed when answer and err are there
	taken bool          // a reading has used them

	answer float64
	err    error

	known bool
	last  float64
}

// Read implements probe.Reader.
func (r *requestsReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	targets := r.targets()
	for t := range r.asked {
		if !slices.Contains(targets, t) {
			delete(r.asked, t)
		}
	}
	kept := map[requestLabels]bool{}
	for t := range r.asked {
		kept[labelsOf(t)] = true
	}
	maps.DeleteFunc(r.sums, func(l requestLabels, _ *requestSum) bool { return !kept[l] })
	for _, t := range targets {
		r.startInquiry(t)
	}
	wait, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	bad := map[requestLabels]bool{}
	var order []requestLabels
	var errs []error
	for _, t := range targets {
		l := labelsOf(t)
		if !slices.Contains(order, l) {
			order = append(order, l)
		}
		sum := r.sums[l]
		if sum == nil {
			sum = &requestSum{}
			r.sums[l] = sum
		}
		more, joins, err := r.asked[t].awaitGrowth(wait, r.host.Now())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", t, shorten(printable.OneLine(strings.Join(strings.Fields(host.PublicText(err)), " ")), 300)))
			bad[l] = true
		} else if !joins || !sum.sent {
			sum.total += more
		}
	}
	// The sum of some servers is not the sum of all.
	for _, l := range order {
		if sum := r.sums[l]; !bad[l] {
			sum.sent = true
			emitter(emit).send(requestsTotal, sum.total, l.process, l.app)
		}
	}
	return errors.Join(errs...)
}

func labelsOf(t servers.Target) requestLabels { return requestLabels{t.Process, t.App.Name} }

// startInquiry asks a target, unless a question is in flight or its answer is waiting.
func (r *requestsReader) startInquiry(t servers.Target) {
	q := r.asked[t]
	if q == nil {
		q = &inquiry{taken: true}
		r.asked[t] = q
	}
	if !q.taken {
		return
	}
	q.since, q.ended, q.taken = r.host.Now(), make(chan struct{}), false
	go func() {
		defer close(q.ended)
		ctx, stop := context.WithTimeout(r.ctx, answerLimit)
		defer stop()
		q.err = contain.Call("asking "+t.App.Name, func() (err error) { q.answer, err = t.App.Read(ctx, r.host, t); return err })
		// A connection's deadline can pass a moment before the context's, with the same
		// meaning.
		var late interface{ Timeout() bool }
		if q.err != nil && (ctx.Err() != nil || errors.As(q.err, &late) && late.Timeout()) {
			q.err = fmt.Errorf("the server has not answered within %v", answerLimit)
		}
	}()
}

// awaitGrowth waits for the answer and returns the growth since the last one. The first answer
// returns the whole count, with joins set. A server that counts less than before has
// restarted.
func (q *inquiry) awaitGrowth(wait context.Context, now time.Time) (more float64, joins bool, err error) {
	select {
	case <-q.ended:
	case <-wait.Done():
		select {
		case <-q.ended: // both are ready: an available answer counts
		default:
			return 0, false, fmt.Errorf("the server has not answered for %v", now.Sub(q.since).Round(time.Millisecond))
		}
	}
	q.taken = true
	if q.err != nil {
		return 0, false, q.err
	}
	more, joins = q.answer, !q.known
	if q.known && q.answer >= q.last {
		more -= q.last
	}
	q.last, q.known = q.answer, true
	return more, joins, nil
}

// Close implements probe.Reader. Questions in flight end by themselves.
func (r *requestsReader) Close() error {
	r.stop()
	return nil
}
