package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/load"
)

// TestTransformer: the next token follows from all tokens before it and from their order, and the kept keys and values change nothing.
func TestTransformer(t *testing.T) {
	m, err := newTransformer(2, 64, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.parameters(); n != 512*64+2*(4*64*64+2*4*64*64) {
		t.Errorf("%d parameters", n)
	}
	say := func(m *transformer, n int, prompt ...int) (out []int) {
		s := m.newSequence()
		for next := m.add(s, prompt...); len(out) < n; next = m.add(s, next) {
			out = append(out, next)
		}
		return out
	}
	prompt := tokens("what a random model says follows from every word")
	first := say(m, 12, prompt...)
	if !slices.Equal(first, say(m, 12, prompt...)) {
		t.Error("the same prompt has two answers")
	}
	// Without keys and values that were kept, the whole text is computed anew for each token.
	text := slices.Clone(prompt)
	for i, want := range first {
		if got := m.add(m.newSequence(), text...); got != want {
			t.Fatalf("token %d is %d, computed anew %d", i, want, got)
		}
		text = append(text, want)
	}
	changed := 0
	for i := range prompt {
		other := slices.Clone(prompt)
		other[i] = (other[i] + 100) % vocabulary
		if !slices.Equal(first, say(m, 12, other...)) {
			changed++
		}
	}
	if changed < len(prompt)*2/3 {
		t.Errorf("of %d changed words, %d changed the answer", len(prompt), changed)
	}
	swapped := slices.Clone(prompt)
	swapped[1], swapped[3] = swapped[3], swapped[1]
	another, err := newTransformer(2, 64, 2)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(first, say(m, 12, swapped...)) || slices.Equal(first, say(another, 12, prompt...)) {
		t.Error("the order of words, or the weights, change nothing")
	}
	if _, err := newTransformer(1, 33, 1); err == nil || !strings.Contains(err.Error(), "multiple of 32") {
		t.Errorf("a width of 33: %v", err)
	}
}

// TestLLM: the load and the small server count the same answers and tokens, in each kind of loop, and what is said does not depend on
// how many answers are computed at the same time.
func TestLLM(t *testing.T) {
	texts := map[string]bool{}
	for _, args := range []string{"--users 1", "--users 3", "", "--rate 1000 --arrivals poisson"} {
		for _, batch := range []string{"1", "4"} {
			address := free(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan string)
			go func() {
				out, errs, code := command(ctx, "llm-server", "--address", address, "--layers", "1", "--width", "32", "--batch", batch, "--threads", "2")
				if code != 0 {
					out = errs
				}
				ended <- out
			}()
			out, errs, code := command(t.Context(), append([]string{"llm", "--url", "http://" + address + "/v1", "--requests", "6", "--warm", "2", "--input", "8", "--output", "5",
				"--ignore-end", "--salt", "1", "--wait", "1h", "--stall", "1h", "--limit", "2h"}, strings.Fields(args)...)...)
			stop()
			said := <-ended
			if code != 0 {
				t.Fatalf("%s: status %d: %s (the server: %s)", args, code, errs, said)
			}
			var r load.Chat
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			var s llmReport
			if err := json.Unmarshal([]byte(said), &s); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			if r.Done != 6 || r.Model != smallModel || s.Answers != 6+2+1 || s.CompletionTokens <= r.CompletionTokens || s.PromptTokens <= r.PromptTokens || r.Pieces != r.CompletionTokens ||
				r.Cached == nil || *r.Cached != 0 {
				t.Errorf("%s, batch %s: the load says %s, the server %s", args, batch, out, said)
			}
			texts[r.Texts] = true
		}
	}
	if len(texts) != 1 {
		t.Errorf("the same questions have the answers %v", texts)
	}
}

// TestLLMServerRefuses: a question that cannot be answered gets a reason.
func TestLLMServerRefuses(t *testing.T) {
	address := free(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		_, _, code := command(ctx, "llm-server", "--address", address, "--layers", "1", "--width", "32")
		ended <- code
	}()
	for args, want := range map[string]string{
		"--model other --wait 1h":                      "this server has only " + smallModel,
		"--lengths fixed --output 100000 --wait 1h":    "at most 16384 together",
		"--url http://" + address + "/v2 --wait 1h":    "want the URL up to /v1",
		"--arrivals sometimes":                         "want constant or poisson",
		"--key-file /nonexistent/key":                  "read the API key",
		"--requests 1 --users 1 --rate 1 --wait 100ms": "leave out",
	} {
		t.Run(args, func(t *testing.T) {
			out, errs, code := command(t.Context(), append([]string{"llm", "--url", "http://" + address + "/v1", "--requests", "1", "--warm", "0"}, strings.Fields(args)...)...)
			if !strings.Contains(out+errs, want) || code == 0 && !strings.Contains(out, `"errors"`) {
				t.Errorf("%s: status %d, %q, %q, want %q", args, code, out, errs, want)
			}
		})
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("the server ended with status %d", code)
	}
}

// TestLLMServerEnds: a server that ends in the middle of answers leaves no one waiting.
func TestLLMServerEnds(t *testing.T) {
	address := free(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		_, _, code := command(ctx, "llm-server", "--address", address, "--layers", "4", "--width", "128")
		ended <- code
	}()
	in := &stopAt{stop: stop}
	var out, errs bytes.Buffer
	code := Main(t.Context(), []string{"llm", "--url", "http://" + address + "/v1", "--requests", "50", "--warm", "0", "--users", "0", "--output", "2000", "--lengths", "fixed", "--ignore-end",
		"--wait", "1h", "--stall", "1h", "--limit", "2h", "--hold"}, in, &out, &errs)
	if c := <-ended; c != 0 {
		t.Errorf("the server ended with status %d", c)
	}
	var r load.Chat
	if err := json.Unmarshal(out.Bytes(), &r); code != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", code, err, errs.String())
	}
	if r.Done != 0 || len(r.Errors) == 0 {
		t.Errorf("%d answers, errors %v", r.Done, r.Errors)
	}
}

// stopAt is standard input that stops the server once the load asks to begin, and then lets it begin.
type stopAt struct {
	stop func()
	done bool
}

func (s *stopAt) Read(b []byte) (int, error) {
	if !s.done {
		s.done = true
		s.stop()
	}
	return copy(b, "\n"), nil
}
