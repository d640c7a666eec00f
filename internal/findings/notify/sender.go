package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/contain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/locked"
)

// sender sends to one receiver, one message after the other.
type sender struct {
	Receiver
	opts   Options
	page   string
	queue  *queue
	counts *counts
	wake   chan struct{} // a message waits
	state  locked.Value[senderState]

	failures int // in a row; only touched by run
}

// senderState is shared by QueueChanges and run, as is the queue.
type senderState struct {
	open   []findings.Record // sent again at every repetition
	all    []findings.Record // open after the last evaluation; nil before the first
	unkept bool              // the queue cannot be written, and this was logged
	full   bool              // the queue overflows, and this was logged
}

func newSender(r Receiver, o Options, page string, q *queue, c *counts) *sender {
	client := *cmp.Or(r.Client, http.DefaultClient)
	client.Timeout, client.CheckRedirect = o.Timeout, sameServer
	r.Client = &client
	return &sender{Receiver: r, opts: o, page: page, queue: q, counts: c, wake: make(chan struct{}, 1)}
}

// sameServer follows a redirect that keeps method and body, to the same server
// only: another server must not see secret headers.
func sameServer(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > 5 || next.Method != http.MethodPost || next.URL.Scheme != first.Scheme || next.URL.Host != first.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// enqueue queues a message.
func (s *sender) enqueue(r findings.Record) {
	lost, err := s.queue.enqueue(r)
	s.counts[dropped].Add(uint64(lost))
	state := s.state.Lock()
	if lost > 0 && !state.full {
		s.opts.Log.Error("too many notifications wait, the oldest are dropped", "receiver", s.Name, "waiting", s.opts.Max)
	}
	state.full = lost > 0
	s.state.Unlock()
	s.logWriteState(err)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// logWriteState logs once that the queue cannot be written to disk, and once that it can again.
func (s *sender) logWriteState(err error) {
	state := s.state.Lock()
	defer s.state.Unlock()
	switch {
	case err != nil && !state.unkept:
		s.opts.Log.Error("keep notifications on disk; they wait in memory, and a restart would lose them", "receiver", s.Name, "error", err)
	case err == nil && state.unkept:
		s.opts.Log.Warn("notifications are kept on disk again", "receiver", s.Name)
	}
	state.unkept = err != nil
}

// keepTelling sets the findings that are sent again: open ones that the receiver
// knows and no silence covers.
func (s *sender) keepTelling(open []findings.Record) {
	told := s.queue.isTold()
	var list []findings.Record
	for _, r := range open {
		if _, known := told[r.ID]; known && r.Silenced == "" {
			list = append(list, r)
		}
	}
	s.state.Lock().open = list
	s.state.Unlock()
}

// problems returns the open problems of a machine, the worst first. Early findings are sent to nobody.
func (s *sender) problems(instance string) []findings.Problem {
	all := s.state.Lock().all
	s.state.Unlock()
	var list []findings.Record
	for _, r := range all {
		if !r.Early && s.instance(r) == instance {
			list = append(list, s.tellNow(r))
		}
	}
	return findings.Problems(list)
}

// titleOf returns the title of the problem that a finding is part of, "" if of none.
func titleOf(problems []findings.Problem, id string) string {
	for _, p := range problems {
		if p.Has(id) {
			return p.Title
		}
	}
	return ""
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	again := time.NewTicker(s.opts.Repeat)
	defer again.Stop()
	for ctx.Err() == nil {
		if m, ok := s.queue.head(); ok {
			s.deliver(ctx, m)
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-again.C:
			list := s.state.Lock().open
			s.state.Unlock()
			if s.Format.repeats && len(list) > 0 {
				if err := s.post(ctx, list); !stopped(ctx, err) {
					s.outcome(err) // a failed repetition is followed by the next one
				}
			}
		}
	}
}

// deliver delivers the first message, or waits before the next attempt.
func (s *sender) deliver(ctx context.Context, m message) {
	err := s.post(ctx, []findings.Record{m.Record})
	if stopped(ctx, err) {
		return // it may not have arrived, so it is sent again
	}
	if s.outcome(err) != failed {
		s.logWriteState(s.queue.done(m))
		return
	}
	wait := time.NewTimer(s.pause(err))
	defer wait.Stop()
	select {
	case <-ctx.Done():
	case <-wait.C:
	}
}

// stopped reports whether a request failed because the monitor stops, which says nothing
// about the receiver.
func stopped(ctx context.Context, err error) bool { return err != nil && ctx.Err() != nil }

// outcome counts the outcome of a request, and logs changes.
func (s *sender) outcome(err error) outcome {
	o := sent
	var no refusal
	switch {
	case errors.As(err, &no):
		o = rejected
		s.opts.Log.Error("a receiver refuses a notification; it is dropped", "receiver", s.Name, "error", err)
	case err != nil:
		o = failed
		if s.failures++; s.failures == 1 {
			s.opts.Log.Warn("a receiver does not take notifications; they wait and are retried", "receiver", s.Name, "error", err)
		}
	}
	if o != failed && s.failures > 0 {
		s.failures = 0
		s.opts.Log.Warn("a receiver takes notifications again", "receiver", s.Name)
	}
	s.counts[o].Add(1)
	return o
}

// pause returns the wait after a failure: the one the receiver requests, or else a longer one each time.
func (s *sender) pause(err error) time.Duration {
	var later busy
	if errors.As(err, &later) && later.after > 0 {
		return min(later.after, longestPause)
	}
	wait := s.opts.Wait << min(s.failures-1, 20)
	wait = min(max(wait, s.opts.Wait), s.opts.WaitMost)
	return wait/2 + rand.N(wait/2+1)
}

// longestPause is the longest pause that a receiver may request.
const longestPause = time.Hour

// refusal is an answer that a retry would not change.
type refusal struct{ error }

// busy is an answer that asks for a later retry; after is 0 where it states no time.
type busy struct {
	error
	after time.Duration
}

// post makes one request. Its errors leave out the URL, whose path may be secret.
func (s *sender) post(ctx context.Context, list []findings.Record) error {
	return contain.Call("telling receiver "+s.Name, func() error { return s.send(ctx, list) })
}

func (s *sender) send(ctx context.Context, list []findings.Record) error {
	body, err := s.Format.encode(s, list)
	if err != nil {
		return refusal{fmt.Errorf("encode: %w", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.URL, "/")+s.Format.path, bytes.NewReader(body))
	if err != nil {
		return refusal{withoutURL(err)}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.Client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // so the connection can be reused
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code/100 != 4:
		return busy{answer(resp, text), retryAfter(resp.Header.Get("Retry-After"), s.opts.Now())}
	}
	return refusal{answer(resp, text)}
}

// answer returns the error of a receiver's answer in one line, nil for success.
func answer(resp *http.Response, body []byte) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "\uFFFD")), " ")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "..."
	}
	switch {
	case resp.StatusCode/100 == 3:
		return fmt.Errorf("the answer is %s, a redirect to another server; configure the final URL", resp.Status)
	case text == "":
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return fmt.Errorf("the answer is %s: %s", resp.Status, text)
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// retryAfter reads the Retry-After header (RFC 9110, section 10.2.3), seconds or a date; 0 when it is missing or
// malformed.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
