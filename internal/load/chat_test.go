// clock: servers here sleep in bubbles of testing/synctest.
package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/teescope/teescope/internal/load"
)

// chatted are the options of a load on a virtual clock.
func chatted(v *load.Virtual) load.ChatOptions {
	o := load.ChatOptions{URL: "http://virtual:1/v1/", Users: 1, Requests: 4, Lengths: load.Lengths{Spread: "fixed", Input: 6, Output: 4}, IgnoreEnd: true, Seed: 1, Salt: 1,
		Wait: 5 * time.Second, Stall: 5 * time.Second, Limit: time.Minute, TTFT: 10 * time.Millisecond, TPOT: 5 * time.Millisecond}
	o.Over(v)
	return o
}

// question is what a fake server reads of a request.
type question struct {
	Model    string
	Messages []struct{ Content string }
	Most     int  `json:"max_tokens"`
	Ignore   bool `json:"ignore_eos"`
	Stream   bool
	Options  struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// stream writes events, each at once.
type stream struct{ w http.ResponseWriter }

func (s stream) event(text string) {
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", text)
	s.w.(http.Flusher).Flush()
}

func (s stream) raw(text string) {
	_, _ = io.WriteString(s.w, text)
	s.w.(http.Flusher).Flush()
}

// pings keeps a connection for longer than any limit, with what proxies and servers send.
func (s stream) pings() {
	for range 50 {
		s.raw(": ping\n\n")
		s.event(`{"choices":[]}`)
		time.Sleep(2 * time.Second)
	}
}

func (s stream) piece(text string) {
	s.event(fmt.Sprintf(`{"choices":[{"delta":{"content":%q},"finish_reason":null}]}`, text))
}

func (s stream) usage(prompt, completion int) {
	s.event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, completion))
}

// clumps sends n tokens in events of their own, of which some reach the client at once when the last of them has been computed.
func (s stream) clumps(n, some int, each time.Duration) {
	var b strings.Builder
	for i := range n {
		time.Sleep(each)
		b.WriteString(`data: {"choices":[{"delta":{"content":"w "},"finish_reason":null}]}` + "\n\n")
		if (i+1)%some == 0 || i == n-1 {
			s.raw(b.String())
			b.Reset()
		}
	}
}

// before and each are the times of a fake server until the first token, and for each further one.
const (
	before = 8 * time.Millisecond
	each   = 5 * time.Millisecond
)

// good answers a request rightly.
func good(w http.ResponseWriter, q question) {
	s := stream{w}
	s.event(`{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`) // the role is no token
	time.Sleep(before)
	for i := range q.Most {
		if i > 0 {
			time.Sleep(each)
		}
		s.piece("word ")
	}
	s.event(`{"choices":[{"delta":{},"finish_reason":"length"}]}`)
	s.usage(len(strings.Fields(q.Messages[0].Content))+1, q.Most)
	s.event("[DONE]")
}

// model is a fake server; answer gets the number of a request, from 0, which is the client's question whether the server is ready.
func model(t *testing.T, answer func(n int64, w http.ResponseWriter, q question)) *load.Virtual {
	t.Helper()
	var asked atomic.Int64
	v, _, _ := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			_, _ = io.WriteString(w, `{"data":[{"id":"fake"}]}`)
			return
		}
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" || q.Model != "fake" || !q.Stream || !q.Options.Usage || !q.Ignore || len(q.Messages) != 1 {
			t.Errorf("the request %s %s is %+v (%v)", r.Method, r.URL.Path, q, err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		answer(asked.Add(1)-1, w, q)
	})
	return v
}

func rightly(_ int64, w http.ResponseWriter, q question) { good(w, q) }

// TestChat: the times of a server whose times are known, to the nanosecond, in each kind of loop.
func TestChat(t *testing.T) {
	const (
		ttft = 2*load.Latency + before
		dial = 2 * load.Latency
		tail = 3 * each
	)
	for _, c := range []struct {
		name    string
		change  func(*load.ChatOptions)
		loop    string
		ttft    []time.Duration // of the answers
		seconds time.Duration
		good    uint64
	}{
		{"one user", func(*load.ChatOptions) {}, "closed", []time.Duration{ttft, ttft, ttft, ttft}, 4 * (ttft + tail), 4},
		{"after a warm-up", func(o *load.ChatOptions) { o.Warm = 3 }, "closed", []time.Duration{ttft, ttft, ttft, ttft}, 4 * (ttft + tail), 4},
		// One connection is there already; the other three are made.
		{"all at once", func(o *load.ChatOptions) { o.Users = 0 }, "unlimited", []time.Duration{ttft, ttft + dial, ttft + dial, ttft + dial}, ttft + dial + tail, 1},
		{"more users than requests", func(o *load.ChatOptions) { o.Users = 9 }, "closed", []time.Duration{ttft, ttft + dial, ttft + dial, ttft + dial}, ttft + dial + tail, 1},
		{"on schedule", func(o *load.ChatOptions) { o.Users, o.Rate = 0, 10 }, "open", []time.Duration{ttft, ttft, ttft, ttft}, 300*time.Millisecond + ttft + tail, 4},
		{"an objective that is missed", func(o *load.ChatOptions) { o.TPOT = each - 1 }, "closed", []time.Duration{ttft, ttft, ttft, ttft}, 4 * (ttft + tail), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := chatted(model(t, rightly))
				c.change(&o)
				var counted []bool
				o.Counting = func(_ context.Context, begins bool) error {
					counted = append(counted, begins)
					return nil
				}
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Loop != c.loop || r.Model != "fake" || r.Asked != 4 || r.Done != 4 || r.Counted != 4 || len(r.Errors) > 0 || r.PromptTokens != 4*7 || r.CompletionTokens != 4*4 || r.Pieces != 4*4 ||
					r.Good != c.good || r.Late != 0 || r.Cached != nil || !slices.Equal(counted, []bool{true, false}) {
					t.Errorf("%+v, counted %v", r, counted)
				}
				if got := time.Duration(r.Seconds*1e9 + 0.5); got != c.seconds {
					t.Errorf("it took %v, want %v", got, c.seconds)
				}
				var got []time.Duration
				for _, e := range r.Each {
					got = append(got, time.Duration(e[2]))
					if e[0] != 7 || e[1] != 4 || e[3] != int64(each) || e[4] != e[2]+int64(tail) {
						t.Errorf("an answer is %v", e)
					}
				}
				if slices.Sort(got); !slices.Equal(got, c.ttft) {
					t.Errorf("times to the first token are %v, want %v", got, c.ttft)
				}
				if h := histogram(t, r.TTFT); h.TotalCount() != 4 || !about(h.Max(), c.ttft[3]) {
					t.Errorf("TTFT: %d values up to %d", h.TotalCount(), h.Max())
				}
				if h := histogram(t, r.Gap); h.TotalCount() != 4*3 || !about(h.Max(), each) || !about(h.Min(), each) {
					t.Errorf("gaps: %d values from %d to %d", h.TotalCount(), h.Min(), h.Max())
				}
				if h := histogram(t, r.TPOT); h.TotalCount() != 4 || !about(h.Max(), each) {
					t.Errorf("TPOT: %d values up to %d", h.TotalCount(), h.Max())
				}
				if h := histogram(t, r.Total); h.TotalCount() != 4 || !about(h.Max(), c.ttft[3]+tail) {
					t.Errorf("total: %d values up to %d", h.TotalCount(), h.Max())
				}
			})
		})
	}
}

// TestChatSchedule: a slow server does not slow the schedule down, and a client that sends late is seen to, if that is a hundredth of what is measured;
// its lateness counts.
func TestChatSchedule(t *testing.T) {
	for name, oversleep := range map[string]time.Duration{"in time": 0, "too little to matter": 5 * time.Millisecond, "late": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := model(t, func(n int64, w http.ResponseWriter, q question) {
					if n > 0 {
						time.Sleep(time.Second)
					}
					good(w, q)
				})
				v.Oversleep = oversleep
				o := chatted(v)
				o.Users, o.Rate, o.Requests = 0, 10, 11
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				late := uint64(0)
				if oversleep > time.Second/100 {
					late = 10 // the first was due at once
				}
				if r.Done != 11 || r.Late != late {
					t.Errorf("%d answers, %d late, want 11 and %d", r.Done, r.Late, late)
				}
				want := time.Second + before + 4*load.Latency + oversleep
				if e := r.Each[5]; time.Duration(e[2]) != want {
					t.Errorf("the time to the first token is %v, want %v", time.Duration(e[2]), want)
				}
				if h := histogram(t, r.TTFT); !about(h.Max(), want) {
					t.Errorf("TTFT up to %d, want %v", h.Max(), want)
				}
				if h := histogram(t, r.Lag); h.TotalCount() != 11 || (oversleep > 0) != about(h.Max(), max(oversleep, 1)) || oversleep == 0 && h.Max() > 100 {
					t.Errorf("lag: %d values up to %d", h.TotalCount(), h.Max())
				}
			})
		})
	}
}

// TestChatQueue: a request waits for its turn as long as the server answers others, which have begun before it. One whose
// answer has begun and then stays away has stalled, though others go on.
func TestChatQueue(t *testing.T) {
	for name, stalls := range map[string]bool{"each in turn": false, "one stalls": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turn := make(chan bool, 1)
				o := chatted(model(t, func(n int64, w http.ResponseWriter, q question) {
					if n == 1 && stalls {
						stream{w}.piece("a")
						time.Sleep(time.Minute)
						return
					}
					turn <- true
					time.Sleep(3 * time.Second)
					good(w, q)
					<-turn
				}))
				o.Users, o.Requests = 0, 10
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				want := uint64(10)
				if stalls {
					want = 9
				}
				if r.Done != want || r.Errors["stalled"] != 10-want || r.Seconds < 3*float64(want) || r.Seconds > 3*float64(want)+1 {
					t.Errorf("%d of %d answered in %.1f s, errors %v", r.Done, r.Asked, r.Seconds, r.Errors)
				}
			})
		})
	}
}

// TestChatFaults: each fault of a server is counted under its name with the server's words, and costs only its own answer.
func TestChatFaults(t *testing.T) {
	for _, c := range []struct {
		kind, words string
		answer      func(s stream, q question)
	}{
		{"status 500", "out of memory", func(s stream, _ question) {
			s.w.Header().Set("Content-Type", "application/json")
			s.w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(s.w, `{"error":{"message":"out of memory"}}`)
		}},
		{"status 429", "slow down", func(s stream, _ question) { http.Error(s.w, "slow down", http.StatusTooManyRequests) }},
		{"not a stream", "text/html", func(s stream, _ question) {
			s.w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(s.w, "<html>")
		}},
		{"malformed stream", "{oops", func(s stream, _ question) { s.piece("a"); s.event("{oops") }},
		{"error in the stream", "the GPU is gone", func(s stream, _ question) {
			s.piece("a")
			s.event(`{"error":{"message":"the GPU is gone"}}`)
		}},
		{"stalled", "5s", func(s stream, _ question) { s.piece("a"); time.Sleep(time.Minute) }},
		{"stalled", "5s", func(stream, question) { time.Sleep(time.Minute) }},
		{"stalled", "only keep-alive lines", func(s stream, _ question) { s.pings() }},
		{"stalled", "only keep-alive lines", func(s stream, _ question) { s.piece("a"); s.pings() }},
		{"stalled", "the text outside of events was \"loading weights", func(s stream, _ question) { s.raw("loading weights\n"); time.Sleep(time.Minute) }},
		{"too long", "1m0s", func(s stream, _ question) {
			for range 100 {
				s.event(`{"choices":[{"delta":{"content":""},"finish_reason":null}]}`)
				time.Sleep(time.Second)
			}
		}},
		{"error in the stream", "no room", func(s stream, _ question) { s.piece("a"); s.raw("event: error\ndata: no room\n\n") }},
		{"error in the stream", "no room", func(s stream, _ question) {
			s.piece("a")
			s.raw("error: {\"code\":500,\"message\":\"no room\"}\n\n")
			s.event("[DONE]")
		}},
		{"error in the stream", "no room", func(s stream, _ question) { s.piece("a"); s.raw(`{"error":"no room"}`); time.Sleep(time.Minute) }},
		{"error in the stream", "no room", func(s stream, _ question) { s.piece("a"); s.raw("data: {\"error\":\"no room\"}") }},
		{"cut off", "[DONE]", func(s stream, _ question) { s.piece("a") }},
		{"cut off", "the text outside of events was \"no room", func(s stream, _ question) { s.piece("a"); s.raw("no room") }},
		{"not a stream", "no room", func(s stream, _ question) { s.raw("no room\n") }},
		{"endless stream", "does not end", func(s stream, _ question) {
			for range 1000 {
				s.piece("a")
			}
		}},
		{"fewer tokens", "1 tokens, want 4", func(s stream, _ question) { s.piece("a"); s.usage(7, 1); s.event("[DONE]") }},
		{"more tokens", "5 tokens, want 4", func(s stream, _ question) { s.piece("a"); s.usage(7, 5); s.event("[DONE]") }},
		{"no usage", "include_usage", func(s stream, _ question) { s.piece("a"); s.event("[DONE]") }},
		{"no token", "no text", func(s stream, _ question) { s.piece(""); s.usage(7, 4); s.event("[DONE]") }},
		{"closed", "", func(s stream, _ question) {
			conn, _, err := s.w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}},
		{"reset", "", func(s stream, _ question) {
			conn, _, err := s.w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.(*load.VirtualConn).SetLinger(0)
				_ = conn.Close()
			}
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := chatted(model(t, func(n int64, w http.ResponseWriter, q question) {
					broken := c.kind == "closed" || c.kind == "reset" // of these the first is sent once more, as it went out on a used connection
					if n == 2 || n == 3 || n == 4 && broken {
						c.answer(stream{w}, q)
						return
					}
					good(w, q)
				}))
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Asked != 4 || r.Done != 2 || r.CompletionTokens != 8 || !maps.Equal(r.Errors, map[string]uint64{c.kind: 2}) || !strings.Contains(r.Words[c.kind], c.words) {
					t.Errorf("%d of %d answered, errors %v, words %v", r.Done, r.Asked, r.Errors, r.Words)
				}
			})
		})
	}
}

// hangUp closes the connection of a request without an answer.
func hangUp(t *testing.T, w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = conn.Close()
}

// TestChatRetried: a request that went out on a used connection which the server closes without an answer is sent once more, and its time begins
// when it was first due or sent. From then on each request has a connection of its own, and none is sent again.
func TestChatRetried(t *testing.T) {
	const (
		dial   = 2 * load.Latency
		answer = 2*load.Latency + before // on a connection that is there
		wasted = 2 * load.Latency        // until the client sees that its connection is closed
	)
	for _, c := range []struct {
		name    string
		change  func(*load.ChatOptions)
		closed  []int64 // requests in the server's count, where 0 is that of the wait for it
		done    uint64
		retried uint64
		single  bool
		ttft    []time.Duration // of the answers, in their order
	}{
		{"none", func(*load.ChatOptions) {}, nil, 4, 0, false, []time.Duration{answer, answer, answer, answer}},
		{"a closed loop", func(*load.ChatOptions) {}, []int64{2}, 4, 1, true, []time.Duration{answer, wasted + dial + answer, dial + answer, dial + answer}},
		{"an open loop", func(o *load.ChatOptions) { o.Users, o.Rate = 0, 10 }, []int64{2}, 4, 1, true, []time.Duration{answer, wasted + dial + answer, dial + answer, dial + answer}},
		{"in the warm-up", func(o *load.ChatOptions) { o.Warm = 2 }, []int64{1}, 4, 0, true, []time.Duration{dial + answer, dial + answer, dial + answer, dial + answer}},
		{"the second attempt too", func(*load.ChatOptions) {}, []int64{2, 3}, 3, 1, true, []time.Duration{answer, dial + answer, dial + answer}},
		{"new connections", func(o *load.ChatOptions) { o.Users = 4 }, []int64{2, 3, 4}, 1, 0, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := chatted(model(t, func(n int64, w http.ResponseWriter, q question) {
					if slices.Contains(c.closed, n) {
						hangUp(t, w)
						return
					}
					good(w, q)
				}))
				c.change(&o)
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if r.Asked != 4 || r.Done != c.done || r.Errors["closed"] != 4-c.done || r.Retried != c.retried || r.NewConnections != c.single {
					t.Errorf("%d of %d answered, %d retried, new connections %t, errors %v, want %d answered, %d retried, %t", r.Done, r.Asked, r.Retried, r.NewConnections, r.Errors, c.done, c.retried, c.single)
				}
				var got []time.Duration
				for _, e := range r.Each {
					got = append(got, time.Duration(e[2]))
				}
				if c.ttft != nil && !slices.Equal(got, c.ttft) {
					t.Errorf("times to the first token are %v, want %v", got, c.ttft)
				}
			})
		})
	}
}

// TestChatParts: with a server that ends its connections after its answers, as llama.cpp's does, each request has a new one, and none is lost or retried.
func TestChatParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := chatted(model(t, func(_ int64, w http.ResponseWriter, q question) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			event := strings.Repeat(`data: {"choices":[{"delta":{"content":"w "},"finish_reason":null}]}`+"\n\n", q.Most) +
				fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`+"\n\ndata: [DONE]\n\n", q.Most)
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5, max=100\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(event), event)
			_ = conn.Close()
		}))
		o.Users = 2
		r, err := load.RunChat(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Done != 4 || r.Retried != 0 || !r.NewConnections || len(r.Errors) > 0 {
			t.Errorf("%d of %d answered, %d retried, new connections %t, errors %v %v", r.Done, r.Asked, r.Retried, r.NewConnections, r.Errors, r.Words)
		}
	})
}

// TestChatEnds: a stream that ends with its reason but without [DONE] is whole, and thoughts are tokens.
func TestChatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := load.RunChat(t.Context(), chatted(model(t, func(_ int64, w http.ResponseWriter, q question) {
			s := stream{w}
			s.event(`{"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null}]}`)
			s.piece("a")
			s.usage(7, q.Most)
			s.event(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
		})))
		if err != nil || r.Done != 4 || r.Pieces != 8 {
			t.Errorf("%+v: %v", r, err)
		}
	})
}

// TestChatCached: the share of prompts in a server's cache is known only if it reports it for each answer.
func TestChatCached(t *testing.T) {
	for name, silent := range map[string]int64{"always": -1, "not once": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := load.RunChat(t.Context(), chatted(model(t, func(n int64, w http.ResponseWriter, q question) {
					s := stream{w}
					s.piece("a")
					if n == silent {
						s.usage(7, q.Most)
					} else {
						s.event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":5}}}`, q.Most))
					}
					s.event("[DONE]")
				})))
				if err != nil || r.Done != 4 || (r.Cached != nil) != (silent < 0) || r.Cached != nil && *r.Cached != 20 {
					t.Errorf("%+v: %v", r, err)
				}
			})
		})
	}
}

// TestChatRefused: a server that is none, and one that cannot be reached, are named with what to do.
func TestChatRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   []string
	}{
		"another path":    {http.NotFound, []string{"/v1", "status 404", "want the URL up to /v1"}},
		"a web page":      {hello, []string{"no model", "give the model's name"}},
		"a closed server": {nil, []string{"did not become ready within 5s", "refused"}},
		"no key":          {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no key", http.StatusUnauthorized) }, []string{"status 401", "no key"}},
		"never ready":     {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "loading", http.StatusServiceUnavailable) }, []string{"did not become ready within 5s", "loading"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := load.NewVirtual()
				if c.answer == nil {
					_ = v.Close()
				} else {
					v, _, _ = server(t, false, c.answer)
				}
				_, err := load.RunChat(t.Context(), chatted(v))
				for _, want := range c.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("the error is %v, want %q in it", err, want)
					}
				}
			})
		})
	}
}

// TestChatDenied: a server that answers each request with an error is waited for no longer, in whatever form the error comes, and its words
// are in the message. One that says that it will be ready is waited for.
func TestChatDenied(t *testing.T) {
	const words = "request (190 tokens) exceeds the context size"
	openAI := fmt.Sprintf(`{"error":{"code":400,"message":%q,"type":"invalid_request_error"}}`, words)
	answer := func(status int, contentType, body string, stays bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				_, _ = io.WriteString(w, `{"data":[{"id":"fake"}]}`)
				return
			}
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			stream{w}.raw(body)
			if stays {
				time.Sleep(time.Hour)
			}
		}
	}
	const ok, sse, js = http.StatusOK, "text/event-stream", "application/json"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		words  string
		waits  bool
	}{
		"a body of JSON":                 {answer(ok, sse, openAI, false), words, false},
		"on several lines":               {answer(ok, sse, strings.ReplaceAll(openAI, ",", ",\n  ")+"\n", false), words, false},
		"and the connection stays":       {answer(ok, sse, openAI, true), words, false},
		"said to be JSON":                {answer(ok, js, openAI, false), words, false},
		"data":                           {answer(ok, sse, "data: "+openAI+"\n\n", true), words, false},
		"data without an end":            {answer(ok, sse, "data: "+openAI, false), words, false},
		"vLLM's data":                    {answer(ok, sse, fmt.Sprintf("data: {\"object\":\"error\",\"message\":%q,\"code\":400}\n\n", words), true), words, false},
		"llama.cpp's field":              {answer(ok, sse, fmt.Sprintf("error: {\"code\":400,\"message\":%q}\n\ndata: [DONE]\n\n", words), true), words, false},
		"TGI's event":                    {answer(ok, sse, fmt.Sprintf("event: error\ndata: {\"error\":%q,\"error_type\":\"generation\"}\n\n", words), true), words, false},
		"an event of text":               {answer(ok, sse, "event: error\ndata: "+words+"\n\n", true), words, false},
		"FastAPI's detail":               {answer(ok, sse, fmt.Sprintf(`{"detail":%q}`, words), false), words, false},
		"FastAPI's details":              {answer(422, js, fmt.Sprintf(`{"detail":[{"loc":["body"],"msg":%q}]}`, words), false), words, false},
		"a gateway's list":               {answer(ok, sse, fmt.Sprintf(`data: {"success":false,"errors":[{"code":5006,"message":%q}]}`+"\n\n", words), true), words, false},
		"after the role":                 {answer(ok, sse, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: "+openAI+"\n\n", true), words, false},
		"status 400":                     {answer(400, js, openAI, false), words, false},
		"status 500":                     {answer(500, js, openAI, false), words, false},
		"text that is no stream":         {answer(ok, sse, words, false), words, false},
		"status 503":                     {answer(503, js, `{"error":{"code":503,"message":"Loading model"}}`, false), "Loading model", true},
		"status 503 in a stream":         {answer(ok, sse, "data: {\"error\":{\"code\":503,\"message\":\"Loading model\"}}\n\n", false), "Loading model", true},
		"status 500 of a proxy":          {answer(500, "text/html", "<html>", false), "<html>", true},
		"signs of life":                  {answer(ok, sse, ": ping\n\n", true), "only keep-alive lines", true},
		"nothing":                        {answer(ok, sse, "", true), "nothing came for 5s", true},
		"no error, and nothing else":     {answer(ok, sse, "data: {\"choices\":[],\"error\":null}\n\n", false), "cut off", true},
		"a message that is not an error": {answer(ok, sse, "data: {\"type\":\"info\",\"message\":\"queued\"}\n\n", false), "cut off", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, _, _ := server(t, false, c.answer)
				o, began := chatted(v), time.Now()
				_, err := load.RunChat(t.Context(), o)
				took := time.Since(began)
				if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "did not become ready") != c.waits || (took >= o.Wait) != c.waits {
					t.Errorf("after %v: %v, want %q in it, after a wait: %v", took, err, c.words, c.waits)
				}
				if ours := "want the URL"; c.words == words && name != "text that is no stream" && strings.Contains(err.Error(), ours) {
					t.Errorf("%v: it is a server of this kind", err)
				}
			})
		})
	}
}

// TestChatHeld: where much of an answer's text arrives at once, its time per token is not known and meets no objective; where little of it does, the time is
// that of the arrivals.
func TestChatHeld(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		answer func(s stream, q question)
		held   bool
		tpot   time.Duration
	}{
		{"a token each time", 32, func(s stream, q question) { s.clumps(q.Most, 1, each) }, false, each},
		{"all events at once", 32, func(s stream, q question) { s.clumps(q.Most, q.Most, each) }, true, 0},
		{"more at once than a read takes", 512, func(s stream, q question) { s.clumps(q.Most, q.Most, each) }, true, 0},
		{"one event with all text", 32, func(s stream, q question) {
			time.Sleep(time.Duration(q.Most) * each)
			s.piece(strings.Repeat("w ", q.Most))
		}, true, 0},
		{"half of it each time", 32, func(s stream, q question) { s.clumps(q.Most, 16, each) }, true, 0},
		{"a few each time", 512, func(s stream, q question) { s.clumps(q.Most, 4, each) }, false, each * 508 / 511},
		{"a burst in a few parts", 512, func(s stream, q question) {
			s.piece("w ")
			time.Sleep(each)
			s.clumps(q.Most-1, 100, 10*time.Microsecond)
		}, true, 0},
		{"half of it first, in one event", 32, func(s stream, q question) {
			s.piece(strings.Repeat("w ", 16))
			time.Sleep(each)
			s.clumps(16, 1, each)
		}, true, 0},
		{"two tokens", 2, func(s stream, q question) { s.clumps(2, 1, each) }, false, each},
		{"two tokens at once", 2, func(s stream, q question) { s.clumps(2, 2, each) }, true, 0},
		{"two tokens, one of them without text", 2, func(s stream, q question) { s.piece("w") }, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := chatted(model(t, func(_ int64, w http.ResponseWriter, q question) {
					s := stream{w}
					s.event(`{"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
					if c.answer(s, q); q.Most > 1 {
						time.Sleep(each)
					}
					s.usage(7, q.Most)
					s.event("[DONE]")
				}))
				o.Lengths.Output, o.TTFT = c.tokens, time.Hour
				r, err := load.RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				held, good := uint64(0), uint64(4)
				if c.held {
					held, good = 4, 0
				}
				if r.Done != 4 || r.Held != held || r.Good != good {
					t.Errorf("%d answers, %d held, %d good, want 4, %d and %d; errors %v", r.Done, r.Held, r.Good, held, good, r.Words)
				}
				for _, e := range r.Each {
					if c.held && e[3] != 0 || !c.held && !about(e[3], c.tpot) {
						t.Errorf("the time per token is %v, want %v", time.Duration(e[3]), c.tpot)
					}
				}
				if c.held {
					if r.TPOT != "" {
						t.Error("there are times per token")
					}
				} else if h := histogram(t, r.TPOT); h.TotalCount() != 4 || !about(h.Max(), c.tpot) {
					t.Errorf("TPOT has %d values up to %d", h.TotalCount(), h.Max())
				}
			})
		})
	}
}

// TestChatOneToken: an answer of one token has no time per token, and meets the objectives by its time to the first token.
func TestChatOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, _, _ := server(t, false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			s := stream{w}
			s.piece("yes")
			s.usage(7, 1)
			s.event("[DONE]")
		})
		o := chatted(v)
		o.IgnoreEnd, o.Model = false, "fake"
		r, err := load.RunChat(t.Context(), o)
		if err != nil || r.Done != 4 || r.Held != 0 || r.Good != 4 || r.TPOT != "" {
			t.Errorf("%+v: %v", r, err)
		}
	})
}

// TestChatOptions: what cannot be is refused before anything is asked.
func TestChatOptions(t *testing.T) {
	for want, change := range map[string]func(*load.ChatOptions){
		"URL":       func(o *load.ChatOptions) { o.URL = "localhost:8000" },
		"rate":      func(o *load.ChatOptions) { o.Rate = -1 },
		"users":     func(o *load.ChatOptions) { o.Rate = 1 },
		"an open":   func(o *load.ChatOptions) { o.Poisson = true },
		"want 1 to": func(o *load.ChatOptions) { o.Requests = 1e6 },
		"times":     func(o *load.ChatOptions) { o.Stall = 0 },
		"lengths":   func(o *load.ChatOptions) { o.Lengths.Spread = "wide" },
		"words":     func(o *load.ChatOptions) { o.Lengths.Input = 1e9 },
		"share":     func(o *load.ChatOptions) { o.Lengths.Shared = 7 },
	} {
		t.Run(want, func(t *testing.T) {
			o := chatted(load.NewVirtual())
			change(&o)
			if _, err := load.RunChat(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q in it", err, want)
			}
		})
	}
}

// TestPrompts: the same seed gives the same prompts, but for the first words of another salt; lengths have about the mean that was
// asked for, and a beginning that all share is one.
func TestPrompts(t *testing.T) {
	l := load.Lengths{Spread: "sharegpt", Input: 100, Output: 50}
	a, b, other := load.NewPrompts(2000, l, 1, 1), load.NewPrompts(2000, l, 1, 2), load.NewPrompts(2000, l, 2, 1)
	if !slices.Equal(a, load.NewPrompts(2000, l, 1, 1)) || slices.Equal(a, other) {
		t.Error("prompts do not follow from the seed")
	}
	input, output, short := 0, 0, 0
	for i := range a {
		x, y := strings.Fields(a[i].Text), strings.Fields(b[i].Text)
		if len(x) != len(y) || a[i].Output != b[i].Output || !slices.Equal(x[min(4, len(x)):], y[min(4, len(y)):]) {
			t.Fatalf("with another salt, prompt %d is another: %q and %q", i, a[i].Text, b[i].Text)
		}
		input, output = input+len(x), output+a[i].Output
		if len(x) < l.Input {
			short++
		}
	}
	if input < 90*2000 || input > 110*2000 || output < 45*2000 || output > 55*2000 || short < 1200 {
		t.Errorf("the means are %d and %d of 2000, and %d prompts are shorter", input, output, short)
	}
	l.Shared = 20
	first := strings.Join(strings.Fields(load.NewPrompts(1, l, 1, 1)[0].Text)[:20], " ")
	for _, p := range load.NewPrompts(50, l, 1, 3) {
		if !strings.HasPrefix(p.Text, first) {
			t.Fatalf("the prompt %q does not begin with %q", p.Text, first)
		}
	}
}
