// clock: the server here is in a bubble of testing/synctest.
package load

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// recordedAnswer is what a server sent: llama.cpp's or vLLM.
func recordedAnswer(t *testing.T, server, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", server, name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// replay serves the recorded answers of a server. llama.cpp's ends a connection after each streamed answer. It finds the first
// questions loading the model; measured names the answer to those of four tokens.
// stand-in: recorded-models
func replay(t *testing.T, server string, loading int64, measured string) *Virtual {
	t.Helper()
	ends := server == "llama.cpp"
	names := []string{"models", "answer-2", measured}
	if ends {
		names = append(names, "loading", "metrics")
	}
	answers := map[string][]byte{}
	for _, name := range names {
		answers[name] = recordedAnswer(t, server, name)
	}
	var asked atomic.Int64
	choose := func(path string, question []byte) (name string, last bool) {
		switch path {
		case "/v1/models":
			return "models", false
		case "/metrics":
			return "metrics", false
		}
		var q struct {
			Most int `json:"max_tokens"`
		}
		if err := json.Unmarshal(question, &q); err != nil || path != "/v1/chat/completions" {
			t.Errorf("the request %s is %q: %v", path, question, err)
		}
		switch n := asked.Add(1); {
		case n <= loading:
			return "loading", ends
		case q.Most == 2:
			return "answer-2", ends
		}
		return measured, ends
	}
	v := NewVirtual()
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = v.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := v.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerRecorded(conn, answers, choose) })
		}
	})
	return v
}

// answerRecorded answers the requests of a connection until the last one.
func answerRecorded(conn net.Conn, answers map[string][]byte, choose func(path string, question []byte) (name string, last bool)) {
	defer func() { _ = conn.Close() }()
	for r, last := bufio.NewReader(conn), false; !last; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		question, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var name string
		name, last = choose(req.URL.Path, question)
		if _, err := conn.Write(answers[name]); err != nil {
			return
		}
	}
}

// TestRecordedModels: the client reads what llama.cpp's server and vLLM send, loses no request, and has the server's words where it refuses one.
func TestRecordedModels(t *testing.T) {
	for _, c := range []struct {
		server, name, measured string
		loading                int64
		users                  int
		kind, words            string // of all measured requests; "" if they are answered
	}{
		{"llama.cpp", "one user", "answer-4", 0, 1, "", ""},
		{"llama.cpp", "four users", "answer-4", 0, 4, "", ""},
		{"llama.cpp", "while the model is loaded", "answer-4", 3, 4, "", ""},
		{"llama.cpp", "a prompt that is too long", "too-long", 0, 1, "status 400", "request (1531 tokens) exceeds the available context size (1024 tokens)"},
		{"vllm", "one user", "answer-4", 0, 1, "", ""},
		{"vllm", "four users", "answer-4", 0, 4, "", ""},
		{"vllm", "a prompt that is too long", "too-long", 0, 1, "status 400", "This model's maximum context length is 2048 tokens"},
		{"vllm", "another model", "other-model", 0, 1, "status 404", "The model `none` does not exist"},
	} {
		t.Run(c.server+"/"+c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				llama := c.server == "llama.cpp"
				o := ChatOptions{URL: "http://virtual:1/v1", Users: c.users, Requests: 8, Warm: 2, Lengths: Lengths{Spread: "fixed", Input: 6, Output: 4}, IgnoreEnd: true, Counters: llama, Seed: 1, Salt: 1,
					Wait: time.Minute, Stall: 5 * time.Second, Limit: time.Minute, TTFT: time.Second, TPOT: time.Second}
				o.Over(replay(t, c.server, c.loading, c.measured))
				r, err := RunChat(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if c.kind != "" {
					if r.Errors[c.kind] != 8 || !strings.Contains(r.Words[c.kind], c.words) {
						t.Errorf("errors %v, words %v", r.Errors, r.Words)
					}
					return
				}
				if r.Done != 8 || r.CompletionTokens != 8*4 || r.Retried != 0 || r.NewConnections != llama {
					t.Errorf("%+v", r)
				}
				if !llama {
					if r.Model != "smollm2-shape" || r.PromptTokens != 8*35 || r.Cached != nil || r.Served != nil {
						t.Errorf("%+v", r)
					}
					return
				}
				if r.Model != "smollm2-135m-instruct" || r.PromptTokens != 8*32 || r.Cached == nil || *r.Cached != 8*31 {
					t.Errorf("%+v", r)
				}
				if r.Served == nil || *r.Served != (Served{}) { // the recorded page is the same both times
					t.Errorf("the server's counters are %+v", r.Served)
				}
			})
		})
	}
}

// TestParseServed: the server's counters are read from its page, and a page without one of them, or with one that is no number, is refused with its name.
func TestParseServed(t *testing.T) {
	_, page, _ := strings.Cut(string(recordedAnswer(t, "llama.cpp", "metrics")), "\r\n\r\n")
	got, err := parseServed([]byte(page))
	if want := (Served{33, 6, 0.364278, 0.036922, 0}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	later := strings.NewReplacer("llamacpp:prompt_tokens_total 33", "llamacpp:prompt_tokens_total 1.00236e+06", "llamacpp:tokens_predicted_total 6", "llamacpp:tokens_predicted_total 26").Replace(page)
	after, err := parseServed([]byte(later))
	if want := (Served{1002327, 20, 0, 0, 5}); err != nil || after.minus(got) != want {
		t.Errorf("the difference is %+v, %v, want %+v", after.minus(got), err, want)
	}
	for name, damaged := range map[string]string{
		"llamacpp:tokens_predicted_total is missing": strings.ReplaceAll(page, "llamacpp:tokens_predicted_total ", "llamacpp:tokens_else_total "),
		"llamacpp:prompt_tokens_total is \"-1\"":     strings.ReplaceAll(page, "llamacpp:prompt_tokens_total 33", "llamacpp:prompt_tokens_total -1"),
		"llamacpp:prompt_seconds_total is \"NaN\"":   strings.ReplaceAll(page, "llamacpp:prompt_seconds_total 0.364278", "llamacpp:prompt_seconds_total NaN"),
		"llamacpp:prompt_seconds_total is missing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseServed([]byte(damaged)); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want %s", err, name)
			}
		})
	}
}
