package worker

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/load"
)

// llm puts load on a server of language models. docs/llm.md defines what it measures.
var llm = Command{
	Name: "llm",
	Doc:  "put load on a server of language models (OpenAI's protocol), and time the tokens of its answers",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var o load.ChatOptions
		var hold bool
		var arrivals, key string
		f.StringVar(&o.URL, "url", "", "the API, like http://127.0.0.1:8000/v1")
		f.StringVar(&o.Model, "model", "", "the model's `NAME`; default: the first model that the server lists")
		f.StringVar(&key, "key-file", "", "`FILE` with the API key")
		f.Float64Var(&o.Rate, "rate", 0, "offer `REQUESTS` per second on a schedule (open loop)")
		f.StringVar(&arrivals, "arrivals", "constant", "distribution of the requests over time: constant or poisson")
		count(f, &o.Users, "users", 0, 0, load.MostChats, "users, each of whom asks one request after the other (closed loop); 0 without a rate asks all at once")
		count(f, &o.Requests, "requests", 32, 1, load.MostChats, "requests that are measured")
		count(f, &o.Warm, "warm", 4, 0, load.MostChats, "warm-up requests before the measured ones")
		f.StringVar(&o.Lengths.Spread, "lengths", "sharegpt", "how lengths of prompts and answers are spread: "+strings.Join(load.Spreads, " or "))
		count(f, &o.Lengths.Input, "input", 128, 2, load.MostLength, "mean words of a prompt")
		count(f, &o.Lengths.Output, "output", 64, 2, load.MostLength, "mean tokens of an answer")
		count(f, &o.Lengths.Shared, "shared", 0, 0, load.MostLength, "words that all prompts begin with")
		f.BoolVar(&o.IgnoreEnd, "ignore-end", false, "ask for all tokens of an answer, whatever the model says (ignore_eos)")
		f.BoolVar(&o.Counters, "counters", false, "ask llama.cpp's server for its own counters too, at /metrics")
		f.Uint64Var(&o.Seed, "seed", 1, "seed of prompts and of poisson arrivals")
		f.Uint64Var(&o.Salt, "salt", 0, "seed of the words that differ between runs; 0 uses the clock")
		f.DurationVar(&o.Wait, "wait", 30*time.Second, "longest wait for a server that is not ready")
		f.DurationVar(&o.Stall, "stall", 30*time.Second, "longest wait for the next piece of an answer")
		f.DurationVar(&o.Limit, "limit", 10*time.Minute, "longest time of an answer")
		f.DurationVar(&o.TTFT, "ttft", 500*time.Millisecond, "objective: time to the first token")
		f.DurationVar(&o.TPOT, "tpot", 50*time.Millisecond, "objective: time for each further token")
		holdFlag(f, &hold)
		return func(ctx context.Context, s Streams) error {
			if o.Poisson = arrivals == "poisson"; !o.Poisson && arrivals != "constant" {
				return fmt.Errorf("arrivals %q: want constant or poisson", arrivals)
			}
			if o.Salt == 0 {
				o.Salt = uint64(time.Now().UnixNano())
			}
			if key != "" {
				b, err := os.ReadFile(key)
				if err != nil {
					return fmt.Errorf("read the API key: %w", err)
				}
				o.Key = strings.TrimSpace(string(b))
			}
			if hold {
				o.Counting = counting(s)
			}
			o.Waiting = waiting(s)
			r, err := load.RunChat(ctx, o)
			if err != nil {
				return err
			}
			return json.NewEncoder(s.Out).Encode(r)
		}
	},
}
