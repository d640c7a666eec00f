//go:build linux

package load

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// ChatOptions describe a load of streamed chat completions on a server that speaks OpenAI's protocol (vLLM, llama.cpp, TGI). docs/llm.md
// defines what is measured. A load has a number of requests and not a time, so it asks for the same tokens in each run.
type ChatOptions struct {
	// URL is that of the API, up to /v1.
	URL string
	// Model is the model's name; "" takes the server's first. Key is the API key, if there is one.
	Model, Key string
	// Rate in requests per second makes the loop open. Without one, Users ask one request after the other; Users of 0 ask all at once.
	Rate    float64
	Poisson bool
	Users   int
	// Requests are measured, after Warm others.
	Requests, Warm int
	Lengths        Lengths
	// IgnoreEnd asks the server to continue until an answer has all its tokens (ignore_eos), whatever the model says.
	IgnoreEnd bool
	// Counters asks llama.cpp's server for its own counters too.
	Counters bool
	// Seed is that of prompts and arrivals, Salt that of the words which differ between runs.
	Seed, Salt uint64
	// Wait is the longest wait for a server that is not ready, Stall that for the next piece of an answer, or, before its first, of any
	// answer, Limit that for all of it.
	Wait, Stall, Limit time.Duration
	// TTFT and TPOT are the objectives for goodput.
	TTFT, TPOT time.Duration
	// Counting and Waiting are as in Options.
	Counting func(ctx context.Context, begins bool) error
	Waiting  func(what string)

	instead network
}

// check returns the first invalid option.
func (o *ChatOptions) check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("URL %q: want the API's URL, like http://127.0.0.1:8000/v1", o.URL)
	case !(o.Rate >= 0) || o.Rate > MostRate:
		return fmt.Errorf("a rate of %g: want requests per second up to %g, or 0 for a closed loop", o.Rate, MostRate)
	case o.Rate == 0 && o.Poisson:
		return errors.New("arrivals need an open loop: give a rate")
	case o.Rate > 0 && o.Users > 0:
		return errors.New("users need a closed loop: leave out the rate or the users")
	case o.Users < 0 || o.Users > MostChats:
		return fmt.Errorf("%d users: want 0 to %d", o.Users, MostChats)
	case o.Requests < 1 || o.Requests > MostChats || o.Warm < 0 || o.Warm > MostChats:
		return fmt.Errorf("%d requests after %d warm-up requests: want 1 to %d requests, and warm-up requests from 0 to the same limit", o.Requests, o.Warm, MostChats)
	case o.Wait <= 0 || o.Stall <= 0 || o.Limit <= 0 || o.TTFT <= 0 || o.TPOT <= 0:
		return fmt.Errorf("wait %v, stall %v, limit %v, ttft %v and tpot %v: want times above 0", o.Wait, o.Stall, o.Limit, o.TTFT, o.TPOT)
	}
	return o.Lengths.check()
}

// call is a request with its answer. Times are from the start of the load.
type call struct {
	due, sent, first, last, end time.Duration
	gaps                        []time.Duration
	prompt, completion, cached  int // tokens; cached is -1 if the server does not report it
	pieces, size                int // of the text, and of what came first of it; sizes are in bytes
	firstPieces, firstSize      int
	arrivals, arrival           int // of text, and the number of the last of them
	text                        [sha256.Size]byte
	words                       []byte // what the answer says outside of its events
	retried                     bool
	err                         error
}

// tpot is the mean time between tokens: (last - first) / (tokens - 1); 0 for an answer of one token.
func (q *call) tpot() time.Duration {
	if q.completion < 2 {
		return 0
	}
	return (q.last - q.first) / time.Duration(q.completion-1)
}

// mostHeld is the largest error of a time per output token.
const mostHeld = 0.1

// sentLate reports whether the client sent a request so late that its times are wrong: by more than lateAfter, and if it was answered, by
// more than a hundredth of its time to the first token, which counts from when it was due.
func (q *call) sentLate() bool {
	late := int64(q.sent - q.due)
	return late > lateAfter && (q.err != nil || late > int64(q.first-q.due)/100)
}

// arrivedTogether reports whether so much of the answer arrived at once that its time per output token is not known. Of n tokens of which
// k arrive first, the times of n - k are seen, so the error is (k - 1) / (n - 1). Which tokens a piece has, no server says: k is taken
// from the number of the pieces, and from their size where the first is larger than one token can be. The mean of the arrivals
// stands for k too, as a burst can come in several.
func (q *call) arrivedTogether() bool {
	if q.completion < 2 {
		return false
	}
	const longest = 3 // of a token, in mean tokens
	n := float64(q.completion)
	k := max(n*float64(q.firstPieces)/float64(q.pieces), n*float64(q.firstSize)/float64(q.size)/longest, n/float64(q.arrivals))
	return k-1 > mostHeld*(n-1)
}

// chat is a load that runs.
type chat struct {
	o      *ChatOptions
	client *http.Client // uses connections again
	fresh  *http.Client // makes a new connection for each request
	single atomic.Bool  // all requests go through fresh
	base   time.Time
	model  string
	began  time.Time    // base moves when the measurement begins, this does not
	heard  atomic.Int64 // when a part of any answer last came, in nanoseconds since began
}

// RunChat waits for the server, warms it up, measures it and reports.
func RunChat(ctx context.Context, o ChatOptions) (*Chat, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	if err := descriptors(o.most()); err != nil {
		return nil, err
	}
	var open atomic.Int64 // connections
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := o.network().dial(ctx, &Options{Network: network, Address: address, Timeout: o.Stall})
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &countedConn{Conn: conn, open: &open}, nil
	}
	transport := &http.Transport{DialContext: dial, MaxIdleConns: MostChats, MaxIdleConnsPerHost: MostChats, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &chat{o: &o, client: &http.Client{Transport: transport}, base: time.Now(), began: time.Now(), model: o.Model,
		fresh: &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: -1, DisableCompression: true}}} // -1: it keeps none
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	for end := time.Now().Add(lingering); open.Load() > 0 && time.Now().Before(end); {
		time.Sleep(lingering / 20)
	}
	c.single.Store(open.Load() == 0) // the server ended the connection
	prompts := NewPrompts(o.Warm+o.Requests, o.Lengths, o.Seed, o.Salt)
	if _, err := c.run(ctx, prompts[:o.Warm], true); err != nil {
		return nil, err
	}
	if err := c.pause(ctx, true); err != nil {
		return nil, err
	}
	var before, after Served
	if o.Counters {
		var err error
		if before, err = c.served(ctx); err != nil {
			return nil, err
		}
	}
	c.base = time.Now()
	used := cpuSeconds()
	calls, err := c.run(ctx, prompts[o.Warm:], false)
	if err != nil {
		return nil, err
	}
	used = cpuSeconds() - used
	if o.Counters {
		if after, err = c.served(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.pause(ctx, false); err != nil {
		return nil, err
	}
	r, err := c.report(calls)
	if err != nil {
		return nil, err
	}
	if o.Counters {
		served := after.minus(before)
		r.Served = &served
	}
	r.CPUSeconds, r.Cores = used, runtime.GOMAXPROCS(0)
	r.Prompts = promptsDigest(o.Warm+o.Requests, o.Lengths, o.Seed)
	return r, nil
}

// lingering is how long a server that ends connections after its answers may take for it.
const lingering = 100 * time.Millisecond

// countedConn is a connection that counts while it is open. A transport closes one that the server has ended.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

func (o *ChatOptions) network() network {
	if o.instead != nil {
		return o.instead
	}
	return kernel{}
}

// most is how many requests can be under way.
func (o *ChatOptions) most() int {
	if o.Users > 0 {
		return o.Users
	}
	return max(o.Requests, o.Warm)
}

func (c *chat) now() time.Duration { return time.Since(c.base) }

func (c *chat) pause(ctx context.Context, begins bool) error {
	if c.o.Counting == nil {
		return nil
	}
	return c.o.Counting(ctx, begins)
}

// ready waits until the server answers a request of one token.
func (c *chat) ready(ctx context.Context) error {
	const first, most = 2 * time.Millisecond, 500 * time.Millisecond
	w, pause := &awaited{began: time.Now(), start: c.o.Wait, wait: c.o.Wait, waiting: c.o.Waiting}, first
	for {
		err := c.first(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil && (wrongServer(err) || hopeless(err)):
			if errors.As(err, new(denied)) && kindOf(err) != "status 404" { // it is a server of this kind
				return fmt.Errorf("ask %s: %w", c.o.URL, err)
			}
			return fmt.Errorf("ask %s: %w (want the URL up to /v1 of a server that speaks OpenAI's protocol)", c.o.URL, err)
		}
		if err := w.whyNotAgain(ctx, fmt.Errorf("ask %s: %w", c.o.URL, err)); err != nil {
			return err
		}
		time.Sleep(pause)
		pause = min(2*pause, most)
	}
}

// first asks for the model's name, if it is not given, and for one token.
func (c *chat) first(ctx context.Context) error {
	if c.model == "" {
		var models struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		b, err := c.fetch(ctx, c.o.URL+"/models")
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &models); err != nil || len(models.Data) == 0 || models.Data[0].ID == "" {
			return fault{"no model", fmt.Sprintf("/models answered %.100q, which names no model: give the model's name", b)}
		}
		c.model = models.Data[0].ID
	}
	q := c.request(ctx, Prompt{words[0], leastLength}, c.now())
	return q.err
}

// wrongServer reports whether an error will not pass with time: the server refuses what is asked, or is none of this kind.
func wrongServer(err error) bool {
	var f fault
	if !errors.As(err, &f) {
		return false
	}
	if errors.As(err, new(denied)) {
		return true
	}
	switch f.kind {
	case "status 408", "status 425", "status 429":
		return false
	case "not a stream", "no model", "malformed stream", "no usage", "no token", "fewer tokens", "more tokens", "endless stream":
		return true
	}
	return strings.HasPrefix(f.kind, "status 4") || strings.HasPrefix(f.kind, "status 3")
}

// fetch reads a document of the server.
func (c *chat) fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Stall)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, mostEvent))
	return b, err
}

// send makes a request; a status other than 200 is an error.
func (c *chat) send(req *http.Request) (*http.Response, error) {
	req.Header.Set("User-Agent", "teescope")
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	client := c.client
	if c.single.Load() {
		client = c.fresh
	}
	return checkStatus(client.Do(req))
}

// checkStatus turns a status other than 200 into an error.
func checkStatus(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, mostSaid))
	_ = resp.Body.Close()
	kind := fmt.Sprintf("status %d", resp.StatusCode)
	if _, _, found := errorIn(b); found && !slices.Contains(passing, resp.StatusCode) {
		return nil, refusal(kind, b)
	}
	return nil, fault{kind, message(b)}
}

// sendRequest makes a request; if the connection was used before and ended before any byte of an answer, it makes it once more on a new one, and all later
// requests on new ones. A server may close a connection at any time after an answer, so whether it closed that one before or after it read the
// request cannot be told apart (RFC 9112, section 9.3.1); llama.cpp's server closes each after a streamed answer. A chat completion changes nothing
// on the server, so it may be sent twice. A request that failed on a new connection is not sent again: that is the server's fault, and is counted.
func (c *chat) sendRequest(req *http.Request, q *call) (*http.Response, error) {
	var used, answered atomic.Bool // of the last connection that the transport chose
	trace := &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { used.Store(i.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	resp, err := c.send(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err == nil || !used.Load() || answered.Load() || req.Context().Err() != nil || errors.As(err, new(fault)) {
		return resp, err
	}
	if kind := kindOf(err); kind != "closed" && kind != "reset" {
		return resp, err
	}
	c.single.Store(true)
	q.retried = true
	again := req.Clone(req.Context())
	if again.Body, err = req.GetBody(); err != nil {
		return nil, err
	}
	return checkStatus(c.fresh.Do(again))
}

// run asks all prompts and returns the calls in their order. All of a warm-up are due at once, by as many users as there are.
func (c *chat) run(ctx context.Context, prompts []Prompt, warm bool) ([]call, error) {
	calls := make([]call, len(prompts))
	var all sync.WaitGroup
	if c.o.Rate > 0 && !warm {
		err := c.pace(ctx, len(prompts), func(i int, due time.Duration) {
			all.Go(func() { calls[i] = c.request(ctx, prompts[i], due) })
		})
		all.Wait()
		return calls, errors.Join(err, ctx.Err())
	}
	users := c.o.Users
	if users == 0 {
		users = len(prompts)
	}
	var next atomic.Int64
	for range min(users, len(prompts)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(prompts)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				calls[i] = c.request(ctx, prompts[i], c.now())
			}
		})
	}
	all.Wait()
	return calls, ctx.Err()
}

// pace calls begin for each of n requests when it is due.
func (c *chat) pace(ctx context.Context, n int, begin func(i int, due time.Duration)) error {
	runtime.LockOSThread() // the slack belongs to the thread
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	s := newSchedule(c.o.Rate, c.o.Poisson, c.o.Seed, 0, 1)
	for i := range n {
		due := time.Duration(s.due())
		for wait := due - c.now(); wait > 0 && ctx.Err() == nil; wait = due - c.now() {
			if err := c.o.network().sleep(int64(wait)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		begin(i, due)
		s.advance()
	}
	return nil
}

// body is a request.
func (c *chat) body(p Prompt) ([]byte, error) {
	m := map[string]any{
		"model": c.model, "messages": []map[string]string{{"role": "user", "content": p.Text}},
		"max_tokens": p.Output, "temperature": 0, "stream": true, "stream_options": map[string]bool{"include_usage": true},
	}
	if c.o.IgnoreEnd {
		m["ignore_eos"] = true
	}
	return json.Marshal(m)
}

// request makes one request and reads its answer to the end.
func (c *chat) request(ctx context.Context, p Prompt, due time.Duration) call {
	q := call{due: due, cached: -1}
	text, err := c.body(p)
	if err != nil {
		q.err = err
		return q
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(c.o.Limit, func() { cancel(fault{"too long", fmt.Sprintf("the answer was not complete after %v", c.o.Limit)}) })
	defer limit.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.o.URL+"/chat/completions", bytes.NewReader(text))
	if err != nil {
		q.err = err
		return q
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if q.sent = c.now(); c.o.Rate == 0 {
		q.due = q.sent
	}
	var l life
	go c.watch(ctx, cancel, time.Since(c.began), &l)
	resp, err := c.sendRequest(req, &q)
	if err == nil {
		err = c.read(resp, p, &q, &l)
		_ = resp.Body.Close()
	}
	q.end = c.now()
	var why fault
	if q.err = err; err != nil && errors.As(context.Cause(ctx), &why) { // we ended it
		if words := strings.TrimSpace(string(q.words)); words != "" {
			why.said += fmt.Sprintf("; the text outside of events was %.200q", words)
		}
		q.err = why
	}
	return q
}

// report adds up the calls.
func (c *chat) report(calls []call) (*Chat, error) {
	o := c.o
	r := &Chat{Model: c.model, Loop: "unlimited", Asked: uint64(len(calls)), ObjectiveTTFT: o.TTFT.Seconds(), ObjectiveTPOT: o.TPOT.Seconds(), NewConnections: c.single.Load(), Each: [][5]int64{}}
	switch {
	case o.Rate > 0:
		r.Loop, r.Arrivals, r.Rate, r.LateAfter = "open", "constant", o.Rate, float64(lateAfter)/1e9
		if o.Poisson {
			r.Arrivals = "poisson"
		}
	case o.Users > 0:
		r.Loop, r.Users = "closed", o.Users
	}
	errs, texts := newFailures(), sha256.New()
	ttft, tpot, gap, total, lag := newHistogram(), newHistogram(), newHistogram(), newHistogram(), newHistogram()
	cached, known := uint64(0), true
	var end time.Duration
	for i := range calls {
		q := &calls[i]
		end = max(end, q.end)
		if o.Rate > 0 {
			recordTime(lag, int64(q.sent-q.due))
			if q.sentLate() {
				r.Late++
			}
		}
		texts.Write(q.text[:])
		if q.retried {
			r.Retried++
		}
		if q.err != nil {
			errs.add(q.err)
			continue
		}
		r.Done++
		r.PromptTokens += uint64(q.prompt)
		r.CompletionTokens += uint64(q.completion)
		r.Pieces += uint64(q.pieces)
		if known = known && q.cached >= 0; known {
			cached += uint64(q.cached)
		}
		each, held := q.tpot(), q.arrivedTogether()
		if held {
			r.Held++
			each = 0
		}
		recordTime(ttft, int64(q.first-q.due))
		recordTime(total, int64(q.last-q.due))
		if q.completion >= 2 && !held {
			recordTime(tpot, int64(each))
		}
		for _, g := range q.gaps {
			recordTime(gap, int64(g))
		}
		if q.first-q.due <= o.TTFT && each <= o.TPOT && !held {
			r.Good++
		}
		r.Each = append(r.Each, [5]int64{int64(q.prompt), int64(q.completion), int64(q.first - q.due), int64(each), int64(q.last - q.due)})
	}
	r.Counted, r.Errors, r.Words, r.Seconds = r.Done, errs.count, errs.words, end.Seconds()
	r.Texts = "sha256:" + hex.EncodeToString(texts.Sum(nil))
	if known && r.Done > 0 {
		r.Cached = &cached
	}
	var err error
	for _, h := range []struct {
		from *hdrhistogram.Histogram
		to   *string
	}{{ttft, &r.TTFT}, {tpot, &r.TPOT}, {gap, &r.Gap}, {total, &r.Total}, {lag, &r.Lag}} {
		if *h.to, err = encode(h.from); err != nil {
			return nil, err
		}
	}
	return r, nil
}
