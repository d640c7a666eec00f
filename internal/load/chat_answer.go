//go:build linux

package load

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"
)

// stamped notes when bytes arrived, and how long they were waited for.
type stamped struct {
	io.Reader
	arrived func(waited time.Duration)
}

func (s stamped) Read(b []byte) (int, error) {
	asked := time.Now()
	n, err := s.Reader.Read(b)
	if n > 0 {
		s.arrived(time.Since(asked))
	}
	return n, err
}

// together is how long the read of bytes that have already arrived may take: the system call of a client outside of a TEE is
// shorter, and the time that even a tiny model needs for a token is longer.
const together = 20 * time.Microsecond

// chunk is an event of a stream.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
			// Servers of models that think aloud send that as one of these.
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string `json:"reasoning"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// life says when something last came of an answer, in nanoseconds since chat.began: any bytes, and, once its text has begun, a part of the answer.
type life struct{ bytes, heard atomic.Int64 }

// watch ends a request of whose answer no part comes any more. Before an answer begins, it may wait for its turn as long as the
// server works on others.
func (c *chat) watch(ctx context.Context, cancel context.CancelCauseFunc, sent time.Duration, l *life) {
	for {
		last := time.Duration(l.heard.Load())
		if last == 0 {
			last = max(sent, time.Duration(c.heard.Load()))
		}
		left := last + c.o.Stall - time.Since(c.began)
		if left <= 0 {
			what := "nothing"
			if time.Duration(l.bytes.Load()) > last {
				what = "only keep-alive lines, and no part of an answer,"
			}
			cancel(fault{"stalled", fmt.Sprintf("%s came for %v", what, c.o.Stall)})
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// read reads an answer. Its error is nil if it has as many tokens as it shall have.
func (c *chat) read(resp *http.Response, p Prompt, q *call, l *life) error {
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != "text/event-stream" {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, mostSaid))
		if _, _, found := errorIn(b); found {
			return refusal(inStream, b)
		}
		return fault{"not a stream", fmt.Sprintf("the answer's type is %.60q, want text/event-stream: %s", resp.Header.Get("Content-Type"), message(b))}
	}
	var at time.Duration // of the last bytes
	arrival := 0         // their number; bytes that are there when they are asked for are of the one before
	stream := newEvents(stamped{resp.Body, func(waited time.Duration) {
		at = c.now()
		if waited >= together {
			arrival++
		}
		l.bytes.Store(int64(time.Since(c.began)))
	}})
	defer func() { q.words = stream.words }()
	var used *usage
	finished := false
	h := sha256.New()
	for {
		ev, err := stream.next()
		switch {
		case isStreamEnd(err) && finished:
			return q.judge(p, used, h.Sum(nil), c.o.IgnoreEnd)
		case isStreamEnd(err):
			return stream.endError()
		case err != nil:
			return err
		case ev.name == "error":
			return refusal(inStream, ev.data)
		case string(ev.data) == "[DONE]":
			_, _ = io.CopyN(io.Discard, resp.Body, mostSaid) // to its end, so the connection can be used again
			return q.judge(p, used, h.Sum(nil), c.o.IgnoreEnd)
		}
		var k chunk
		if err := json.Unmarshal(ev.data, &k); err != nil {
			return fault{"malformed stream", fmt.Sprintf("%v in the event %.100q", err, ev.data)}
		}
		if _, _, found := errorIn(ev.data); found {
			return refusal(inStream, ev.data)
		}
		if k.Usage != nil {
			used = k.Usage
		}
		said := 0
		for _, choice := range k.Choices {
			for _, part := range []string{choice.Delta.ReasoningContent, choice.Delta.Reasoning, choice.Delta.Content} {
				said += len(part)
				h.Write([]byte(part))
			}
			finished = finished || choice.FinishReason != nil && *choice.FinishReason != ""
		}
		if len(k.Choices) > 0 { // comments and events without a choice only keep the connection
			c.heard.Store(l.bytes.Load())
			if q.pieces > 0 {
				l.heard.Store(l.bytes.Load())
			}
		}
		if said == 0 { // the first event often has no text, only the role
			continue
		}
		q.pieces++
		q.size += said
		switch {
		case q.pieces == 1:
			q.first = at
			l.heard.Store(c.heard.Load())
			q.arrivals, q.arrival = 1, arrival
		case arrival != q.arrival:
			q.gaps = append(q.gaps, at-q.last)
			q.arrivals, q.arrival = q.arrivals+1, arrival
		}
		if q.arrivals == 1 {
			q.firstPieces, q.firstSize = q.pieces, q.size
		}
		q.last = at
		if q.pieces > 2*p.Output+spareTokens {
			return fault{"endless stream", fmt.Sprintf("the answer does not end: it has %d pieces of text for %d tokens", q.pieces, p.Output)}
		}
	}
}

// spareTokens: a character can be split into several tokens, and so into several pieces.
const spareTokens = 16

// judge takes the server's count of tokens and returns what is wrong with a whole answer.
func (q *call) judge(p Prompt, u *usage, text []byte, exactly bool) error {
	q.text = [sha256.Size]byte(text)
	switch {
	case q.pieces == 0:
		return fault{"no token", "the answer has no text"}
	case u == nil:
		return fault{"no usage", "the server does not report the number of tokens (stream_options.include_usage)"}
	case u.PromptTokens < 1 || u.CompletionTokens < 1:
		return fault{"no usage", fmt.Sprintf("the server reports %d prompt tokens and %d answer tokens, want at least one of each", u.PromptTokens, u.CompletionTokens)}
	case u.CompletionTokens > p.Output:
		return fault{"more tokens", fmt.Sprintf("%d tokens, want %d", u.CompletionTokens, p.Output)}
	case exactly && u.CompletionTokens < p.Output:
		return fault{"fewer tokens", fmt.Sprintf("%d tokens, want %d: does the server support ignore_eos, and is its context long enough?", u.CompletionTokens, p.Output)}
	}
	q.prompt, q.completion = u.PromptTokens, u.CompletionTokens
	if u.Details != nil && u.Details.Cached != nil {
		q.cached = *u.Details.Cached
	}
	return nil
}
