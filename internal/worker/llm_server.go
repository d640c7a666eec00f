package worker

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// llmServer serves a small language model in OpenAI's protocol.
var llmServer = Command{
	Name: "llm-server",
	Doc:  "a server of a small language model with random weights (OpenAI's protocol), which reports at its end",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		address := f.String("address", "127.0.0.1:8000", "address to listen on")
		var layers, width, batch, threads int
		count(f, &layers, "layers", 4, 1, 1000, "layers of the model")
		count(f, &width, "width", 128, headWidth, 1<<14, "width of the model")
		count(f, &batch, "batch", 8, 1, 10_000, "answers that are computed at the same time")
		count(f, &threads, "threads", 1, 1, 4096, "threads that compute the answers")
		return func(ctx context.Context, s Streams) error {
			m, err := newTransformer(layers, width, 1)
			if err != nil {
				return err
			}
			l, err := listenTCP(ctx, *address)
			if err != nil {
				return err
			}
			e := newEngine(m, batch, threads)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var computing sync.WaitGroup
			computing.Go(func() { e.run(ctx) })
			err = serve(ctx, l, &http.Server{Handler: e.handler(), ReadHeaderTimeout: time.Minute}, keyPair{})
			cancel()
			computing.Wait()
			if err != nil {
				return err
			}
			return json.NewEncoder(s.Out).Encode(e.report())
		}
	},
}

// llmReport is the server's document. It counts answers that were whole.
type llmReport struct {
	Model            string `json:"model"`
	Parameters       int    `json:"parameters"`
	Answers          uint64 `json:"answers"`
	PromptTokens     uint64 `json:"prompt_tokens"`
	CompletionTokens uint64 `json:"completion_tokens"`
}

// smallModel is the model's name.
const smallModel = "teescope-small-random"

// mostContext bounds the tokens of a prompt and its answer.
const mostContext = 1 << 14

// engine computes several answers at the same time. In each turn an answer gets its next token, and one that has just come the keys and
// values of its whole prompt; meanwhile the others wait, as in servers that do not split prompts.
type engine struct {
	m              *transformer
	batch, threads int
	arrived        chan *generation
	answers        atomic.Uint64
	prompted       atomic.Uint64
	completed      atomic.Uint64
}

// generation is an answer under way.
type generation struct {
	ctx      context.Context
	prompt   []int
	want     int
	ignore   bool // the end token
	out      chan int
	sequence *sequence
	said     int // tokens
	last     int
	over     bool
}

func newEngine(m *transformer, batch, threads int) *engine {
	return &engine{m: m, batch: batch, threads: threads, arrived: make(chan *generation)}
}

func (e *engine) report() llmReport {
	return llmReport{smallModel, e.m.parameters(), e.answers.Load(), e.prompted.Load(), e.completed.Load()}
}

// run computes answers until ctx ends.
func (e *engine) run(ctx context.Context) {
	var active []*generation
	for ctx.Err() == nil {
		if len(active) == 0 {
			select {
			case g := <-e.arrived:
				active = append(active, g)
			case <-ctx.Done():
				return
			}
		}
	admit:
		for len(active) < e.batch {
			select {
			case g := <-e.arrived:
				active = append(active, g)
			default:
				break admit
			}
		}
		var next atomic.Int64
		var turn sync.WaitGroup
		for range min(e.threads, len(active)) {
			turn.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(active)); i = next.Add(1) - 1 {
					e.advance(active[i])
				}
			})
		}
		turn.Wait()
		var left []*generation
		for _, g := range active {
			if g.over {
				close(g.out)
			} else {
				left = append(left, g)
			}
		}
		active = left
	}
	for _, g := range active {
		close(g.out)
	}
}

// advance computes the next token of an answer.
func (e *engine) advance(g *generation) {
	switch {
	case g.ctx.Err() != nil: // the client has gone
		g.over = true
		return
	case g.sequence == nil:
		g.sequence = e.m.newSequence()
		g.last = e.m.add(g.sequence, g.prompt...)
	default:
		g.last = e.m.add(g.sequence, g.last)
	}
	if g.last == endToken && !g.ignore && g.said > 0 {
		g.over = true
		return
	}
	g.said++
	g.out <- g.last // it has room for all
	g.over = g.said == g.want
}

func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[{"id":%q,"object":"model"}]}`, smallModel)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		g, err := question(w, r)
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": err.Error(), "type": "invalid_request_error"}})
			return
		}
		select {
		case e.arrived <- g:
			e.answer(w, g)
		case <-r.Context().Done():
		}
	})
	return mux
}

// question reads a request.
func question(w http.ResponseWriter, r *http.Request) (*generation, error) {
	var q struct {
		Model    string `json:"model"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		Most   int  `json:"max_tokens"`
		Stream bool `json:"stream"`
		Ignore bool `json:"ignore_eos"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<20)).Decode(&q); err != nil {
		return nil, fmt.Errorf("the request is not JSON in OpenAI's form: %w", err)
	}
	var text []string
	for _, m := range q.Messages {
		text = append(text, m.Content)
	}
	g := &generation{ctx: r.Context(), prompt: tokens(strings.Join(text, " ")), want: q.Most, ignore: q.Ignore}
	switch {
	case q.Model != smallModel:
		return nil, fmt.Errorf("model %q: this server has only %s", q.Model, smallModel)
	case len(q.Messages) == 0:
		return nil, errors.New("there are no messages")
	case !q.Stream:
		return nil, errors.New("this server only streams: ask with \"stream\": true")
	case q.Most < 1 || len(g.prompt)+q.Most > mostContext:
		return nil, fmt.Errorf("max_tokens %d after a prompt of %d tokens: want at least 1, and at most %d together", q.Most, len(g.prompt), mostContext)
	}
	g.out = make(chan int, q.Most)
	return g, nil
}

// answer streams an answer: an event with the role, one for each token, one with the reason of the end, one with the count of tokens.
func (e *engine) answer(w http.ResponseWriter, g *generation) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w).Flush
	send := func(delta map[string]string, finish any, usage map[string]any) error {
		m := map[string]any{"object": "chat.completion.chunk", "model": smallModel, "choices": []any{}}
		if delta != nil {
			m["choices"] = []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}
		}
		if usage != nil {
			m["usage"] = usage
		}
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
			return err
		}
		return flush()
	}
	if send(map[string]string{"role": "assistant", "content": ""}, nil, nil) != nil {
		return // the client has gone; the engine sees that by its context
	}
	n := 0
	for token := range g.out {
		if send(map[string]string{"content": spelled(token)}, nil, nil) != nil {
			return
		}
		n++
	}
	if n < g.want && !(g.over && g.last == endToken) {
		return // the server ends
	}
	finish := "length"
	if n < g.want {
		finish = "stop"
	}
	e.answers.Add(1)
	e.prompted.Add(uint64(len(g.prompt)))
	e.completed.Add(uint64(n))
	if send(map[string]string{}, finish, nil) != nil {
		return
	}
	// No keys or values are kept from one request to the next.
	if send(nil, nil, map[string]any{"prompt_tokens": len(g.prompt), "completion_tokens": n, "total_tokens": len(g.prompt) + n,
		"prompt_tokens_details": map[string]int{"cached_tokens": 0}}) != nil {
		return
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}
