package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/metric"
)

var (
	llmTTFT  = newTiming("ttft", "the time to the first token: from the moment a request was due (open loop) or sent to the first piece of its answer that has text", nil, false)
	llmTPOT  = newTiming("tpot", "the time per output token: the time from the first to the last piece of text of an answer, divided by the answer's tokens minus one; missing if much of the text arrives at once", nil, false)
	llmGap   = newTiming("gap", "the time between two arrivals of text in an answer; the server chooses how much text arrives at once", nil, false)
	llmTotal = newTiming("answer", "the time from the moment a request was due (open loop) or sent to the last piece of text of its answer", nil, false)

	llmTokens    = loadGauge("output_tokens_per_second", "tokens_per_second", metric.Higher, "Tokens of all answers, as the server counts them, divided by the time from the first request to the end of the last answer.")
	llmAll       = loadGauge("total_tokens_per_second", "tokens_per_second", metric.Higher, "Tokens of all prompts and answers, divided by the time from the first request to the end of the last answer.")
	llmRate      = loadGauge("requests_per_second", "requests_per_second", metric.Higher, "Complete answers, divided by the time from the first request to the end of the last answer.")
	llmGoodput   = loadGauge("goodput_requests_per_second", "requests_per_second", metric.Higher, "Answers that met both objectives (parameters ttft and tpot), divided by the time from the first request to the end of the last answer.")
	llmGood      = loadGauge("objective_ratio", "ratio", metric.Higher, "Share of the requests whose answers met both objectives.")
	llmCached    = loadGauge("cached_prompt_ratio", "ratio", metric.Higher, "Share of the prompt tokens that the server found in its cache of keys and values (prompt_tokens_details.cached_tokens).")
	llmRetried   = loadGauge("retried_ratio", "ratio", metric.Lower, "Share of the requests that were sent again on a new connection, because the server had closed the first connection.")
	llmSingle    = loadGauge("new_connection_ratio", "ratio", metric.Lower, "1 if each request had its own connection, because the server closes connections after its answers; 0 if connections were reused.")
	llmCompute   = loadGauge("compute_ratio", "ratio", metric.Neither, "Share of the time from the first request to the end of the last answer in which the server's threads (parameter threads) ran the program itself: the server's CPU time, times the share of user mode in our samples. With one user, this is the share of a request in which the model computes. In gVisor it includes the sandbox's own kernel, which runs in user mode.")
	llmOwnPrompt = loadGauge("server_prompt_mean_seconds", "seconds", metric.Lower, "Time in which the server computed the prompts, by its own counters, divided by the number of answers.")
	llmOwnTPOT   = loadGauge("server_tpot_mean_seconds", "seconds", metric.Lower, "Time in which the server computed the answers, by its own counters, divided by their tokens.")
	llmPrompted  = &metric.Desc{Name: "prompt_tokens_total", Unit: "tokens", Kind: metric.Counter, Help: "Tokens of the prompts, as the server counts them."}
	llmOutput    = &metric.Desc{Name: "output_tokens_total", Unit: "tokens", Kind: metric.Counter, Help: "Tokens of the answers, as the server counts them."}
)

// Servers of a language model.
const (
	llmSmall   = "small"
	llmLlama   = "llama"
	llmCommand = "command"
	llmURL     = "url"
)

// llm asks a server of a language model. A run has a number of requests and asks for a number of tokens in each, so all runs do the same work,
// which the server's own count of tokens must confirm.
var llm = bench.Workload{
	Name: "llm",
	Doc: "A language-model server with OpenAI's protocol (vLLM, llama.cpp, TGI, or our own small server), under streamed chat completions: " +
		"time to the first token, time for each further token, gaps, tokens and requests per second, goodput.",
	Version: 1,
	Params: []bench.Param{
		{Name: "server", Default: llmSmall, Values: []string{llmSmall, llmLlama, llmCommand, llmURL}, Subject: true,
			Doc: "The server. small: our own transformer on the CPU with random weights, which needs no installation. llama: llama.cpp's server on the CPU, with a real model in 4 bits (make llm). command: your own command line. url: a server that already runs; requests come from inside the environment."},
		{Name: "command", Text: true, Subject: true, Doc: "The server's command line, split into words as a shell does. The server must listen on {host}:{port}, as in \"vllm serve MODEL --host {host} --port {port}\"."},
		{Name: "url", Subject: true, Doc: "URL of the API of a server that already runs, like http://127.0.0.1:8000/v1."},
		{Name: "model", Doc: "The model's name. Empty: the first model that the server lists."},
		{Name: "size", Default: "135m", Values: []string{"38m", "135m", "362m"}, Subject: true,
			Doc: "The model of llama.cpp's server, by its number of weights. 135m: SmolLM2, with real weights. 38m and 362m: the same architecture and tokenizer with random weights, so the answers mean nothing, but the work for each token is that of a model of this size."},
		{Name: "weights", Path: true, Subject: true, Doc: "Another model for llama.cpp's server, as a GGUF file on the harness's machine. Empty: that of the parameter size."},
		{Name: "layers", Default: "4", Doc: "Layers of the small model."},
		{Name: "width", Default: "128", Doc: "Width (hidden size) of the transformer that server=small runs, a multiple of 32."},
		{Name: "batch", Default: "8", Doc: "Number of answers that the small server or llama.cpp's server computes at the same time."},
		{Name: "threads", Default: "1", Doc: "Threads of the small server or of llama.cpp's server."},
		{Name: "users", Default: "4", Doc: "Number of users. Each sends the next request when the previous one is answered (closed loop). No effect if rate is set."},
		{Name: "rate", Default: "0", Doc: "Requests per second, sent on a schedule without waiting for answers (open loop). 0: closed loop with the parameter users. unlimited: all requests at once."},
		{Name: "arrivals", Default: "poisson", Values: []string{"poisson", "constant"}, Doc: "Distribution of the requests over time, if rate is set."},
		{Name: "requests", Default: "32", Doc: "Number of measured requests."},
		{Name: "warm", Default: "4", Doc: "Warm-up: number of requests before the measured ones."},
		{Name: "lengths", Default: "sharegpt", Values: load.Spreads, Doc: "Lengths of prompts and answers. sharegpt: spread as in conversations of ShareGPT (many short, few long); the words are our own. fixed: all equal."},
		{Name: "input", Default: "64", Doc: "Mean number of words of a prompt."},
		{Name: "output", Default: "64", Doc: "Mean number of tokens of an answer."},
		{Name: "shared", Default: "0", Doc: "Number of words that all prompts begin with; a server may keep them in its cache. With 0, the first words of a prompt are different in each run."},
		{Name: "ignore-end", Default: "on", Values: []string{"on", "off"}, Doc: "Whether an answer always has all tokens, even if the model would end it earlier (ignore_eos). Servers without this option need off; the model must then end its answers at the same places in all environments."},
		{Name: "ttft", Default: "500ms", Doc: "Objective for the time to the first token."},
		{Name: "tpot", Default: "50ms", Doc: "Objective for the time per output token."},
		{Name: "seed", Default: "1", Doc: "Seed of prompts, lengths and arrivals."},
		{Name: "wait", Default: "10m", Subject: true, Doc: "Maximum wait until the server is ready; large models take minutes to load."},
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{llmTokens, llmAll, llmRate, llmGoodput, llmGood, llmPrompted, llmOutput, llmCached, loadErrors, llmRetried, llmSingle, loadCPU, loadRequests}
		if p["server"] == llmLlama {
			out = append(out, llmCompute, llmOwnPrompt, llmOwnTPOT)
		}
		if llmOpen(p) {
			out = append(out, loadLate)
		}
		for _, t := range llmTimings(p) {
			out = append(out, t.mean)
			for _, q := range t.quantiles {
				out = append(out, q.desc)
			}
		}
		return out
	},
	Primary: func(p bench.Params) *metric.Desc {
		if llmOpen(p) { // the rate is given, so the speed shows in the time
			return llmTTFT.quantiles[0].desc
		}
		return llmTokens
	},
	Operations: loadRequests,
	Estimate:   llmEstimate,
	Job:        llmJob,
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readLLM(o)
		if err != nil {
			return nil, err
		}
		var found reading
		const none = "no request was answered"
		if r.Done == 0 {
			for _, d := range []*metric.Desc{llmTokens, llmAll, llmRate} {
				found.lack(d, none)
			}
		} else {
			found.derived(llmTokens, float64(r.CompletionTokens)/r.Seconds, none)
			found.derived(llmAll, (float64(r.PromptTokens)+float64(r.CompletionTokens))/r.Seconds, none)
			found.derived(llmRate, float64(r.Done)/r.Seconds, none)
		}
		held := llmHeld(r, 0) // an answer whose time per token is not known may have met its objective, or not
		if held == "" {
			found.derived(llmGoodput, float64(r.Good)/r.Seconds, none)
			found.derived(llmGood, float64(r.Good)/float64(r.Asked), none)
		} else {
			found.lack(llmGoodput, held)
			found.lack(llmGood, held)
		}
		found.value(llmPrompted, float64(r.PromptTokens), none)
		found.value(llmOutput, float64(r.CompletionTokens), none)
		if r.Cached == nil {
			found.lack(llmCached, "the server does not report how many prompt tokens it found in its cache")
		} else {
			found.derived(llmCached, float64(*r.Cached)/float64(r.PromptTokens), none)
		}
		failed := uint64(0)
		for _, n := range r.Errors {
			failed += n
		}
		found.derived(loadErrors, float64(failed)/float64(r.Asked), none)
		found.derived(llmRetried, float64(r.Retried)/float64(r.Asked), none)
		single := 0.0
		if r.NewConnections {
			single = 1
		}
		found.value(llmSingle, single, none)
		if o.Params["server"] == llmLlama {
			found.compute(o, r)
			const silent = "the server does not report its own counters"
			own := cmp.Or(r.Served, &load.Served{PromptSeconds: math.NaN(), CompletionSeconds: math.NaN()})
			found.derived(llmOwnPrompt, own.PromptSeconds/float64(r.Done), silent)
			found.derived(llmOwnTPOT, own.CompletionSeconds/own.CompletionTokens, silent)
		}
		found.derived(loadCPU, timeShare(r.CPUSeconds/r.Seconds/float64(r.Cores)), none)
		found.value(loadRequests, float64(r.Counted), none)
		if llmOpen(o.Params) {
			found.derived(loadLate, float64(r.Late)/float64(r.Asked), none)
		}
		few := llmHeld(r, fewHeld)
		for i, t := range llmTimings(o.Params) {
			encoded := []string{r.TTFT, r.TPOT, r.Gap, r.Total}[i]
			if few != "" && (i == 1 || encoded == "") {
				found.lackTiming(t, few)
				continue
			}
			found.timing(t, encoded)
		}
		return found.samples, errors.Join(found.missing...)
	},
	Failures: func(o bench.Outcome) map[string]int {
		r, err := readLLM(o)
		if err != nil {
			return nil // Parse reports it
		}
		return failures(r.Errors)
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readLLM(o)
		if err != nil {
			return "", err
		}
		requests, err := o.Params.Int("requests", 1)
		if err != nil {
			return "", err
		}
		switch {
		case r.Loop != llmLoop(o.Params) || r.Asked != uint64(requests):
			return "", fmt.Errorf("the load was %s with %d requests, want %s with %d requests", r.Loop, r.Asked, llmLoop(o.Params), requests)
		case r.Done != r.Asked: // else the runs would differ in their tokens
			return "", fmt.Errorf("only %d of %d requests got a complete answer. Errors by kind: %v; the first error of each kind: %v", r.Done, r.Asked, r.Errors, r.Words)
		case r.CompletionTokens < r.Done || r.PromptTokens < r.Done:
			return "", fmt.Errorf("for %d answers the server reports %d prompt tokens and %d answer tokens, want at least one of each for every answer", r.Done, r.PromptTokens, r.CompletionTokens)
		case r.Prompts == "" || r.Texts == "":
			return "", errors.New("the load generator reports no digest of prompts and answers")
		}
		work := []string{"llm", r.Model, r.Prompts, strconv.FormatUint(r.PromptTokens, 10), strconv.FormatUint(r.CompletionTokens, 10)}
		switch o.Params["server"] {
		case llmSmall:
			if err := checkSmall(o, r); err != nil {
				return "", err
			}
			work = append(work, r.Texts)
		case llmLlama:
			if err := checkLlama(r); err != nil {
				return "", err
			}
			if llmLoop(o.Params) == "closed" && o.Params["users"] == "1" { // with more, which answers it computes together depends on time, and so does how it rounds
				work = append(work, r.Texts)
			}
		}
		return digest(work...), nil
	},
}

// compute adds the share of the time in which the model computes.
func (r *reading) compute(o bench.Outcome, c *load.Chat) {
	threads, err := o.Params.Int("threads", 1)
	if err != nil {
		r.lack(llmCompute, err.Error())
		return
	}
	var all, user, samples float64
	for i := range o.Counters {
		n := &o.Counters[i]
		switch {
		case n.Labels["process"] == "" || n.Value == nil:
		case n.Name == "tee_process_cpu_seconds_total":
			all += *n.Value
		case n.Name == "tee_sampled_cpu_seconds_total":
			samples += *n.Value
			if n.Labels["mode"] == "user" {
				user += *n.Value
			}
		}
	}
	if all <= 0 { // as where nothing was counted
		all = math.NaN()
	}
	r.derived(llmCompute, timeShare(all*user/samples/c.Seconds/float64(threads)), "the run's counters have no CPU time of the server, or no samples of it")
}

// fewHeld is the share of answers without a time per output token that a run's TPOT may leave out.
const fewHeld = 0.1

// llmHeld is why a metric of a run is missing where the time per output token is known of too few answers, or "". It may be
// unknown of a share of them.
func llmHeld(r *load.Chat, most float64) string {
	if float64(r.Held) <= most*float64(r.Done) {
		return ""
	}
	return fmt.Sprintf("the time between tokens is unknown, because much of the text of %d of %d answers arrived together: buffered on the way, or read too late by a busy client. "+
		"Switch off buffering in the server and in proxies (nginx: proxy_buffering off), and leave enough CPU time for the client", r.Held, r.Done)
}

func llmOpen(p bench.Params) bool { return p["rate"] != "0" && p["rate"] != "unlimited" }

// llmLoop is the kind of loop that the parameters ask for.
func llmLoop(p bench.Params) string {
	switch {
	case llmOpen(p):
		return "open"
	case p["rate"] == "unlimited":
		return "unlimited"
	}
	return "closed"
}

// llmTimings are the timings for whose percentiles there are enough requests.
func llmTimings(p bench.Params) []*timing {
	out := []*timing{llmTTFT, llmTPOT, llmGap, llmTotal}
	n, err := p.Int("requests", 1)
	if err != nil {
		return out // Job reports what is wrong
	}
	for i := range out {
		out[i] = out[i].supportedBy(n)
	}
	return out
}

// llmEstimate is for the small server and for llama.cpp's; how fast others are is not known.
func llmEstimate(p bench.Params) (time.Duration, int64) {
	requests, err1 := p.Int("requests", 1)
	warm, err2 := p.Int("warm", 0)
	input, err3 := p.Int("input", 1)
	output, err4 := p.Int("output", 1)
	layers, err5 := p.Int("layers", 1)
	width, err6 := p.Int("width", 1)
	if errors.Join(err1, err2, err3, err4, err5, err6) != nil {
		return time.Second, 0 // Job reports what is wrong
	}
	seconds := float64(requests+warm) * float64(input+output) * (float64(layers)*float64(width)*float64(width)*12 + 512*float64(width)) / 1e9
	switch p["server"] {
	case llmSmall:
	case llmLlama: // with SmolLM2 and one thread: 130 words of prompts and 54 tokens of answers a second
		larger := map[string]float64{"38m": 0.17, "135m": 1, "362m": 2.6}[p["size"]]
		seconds = 1 + float64(requests+warm)*(float64(input)/130+float64(output)/54)*larger
	default:
		seconds += 60 // to load a model
	}
	if rate, err := p.Number("rate", true); err == nil {
		seconds = max(seconds, float64(requests)/rate)
	}
	return 2*time.Second + time.Duration(min(seconds, 1e6)*1e9), 0
}

func llmJob(p bench.Params) (bench.Job, error) {
	server := p["server"]
	for name, wanted := range map[string]bool{"command": server == llmCommand, "url": server == llmURL} {
		if (p[name] != "") != wanted {
			return bench.Job{}, fmt.Errorf("parameter %s: set it with server=%s, and only then", name, name)
		}
	}
	url := "http://{host}:{port}/v1"
	if server == llmURL {
		url = p["url"]
	}
	client, err := llmClient(p, url)
	if err != nil {
		return bench.Job{}, err
	}
	switch server {
	case llmURL:
		return bench.Job{Inside: host.Cmd{Argv: client}, Files: loadFiles}, nil
	case llmCommand:
		argv, err := words(p["command"])
		if err == nil && len(argv) == 0 {
			err = errors.New("the command line is empty")
		}
		if err != nil {
			return bench.Job{}, fmt.Errorf("parameter command: %w", err)
		}
		return bench.Job{Inside: host.Cmd{Argv: argv}, Programs: []string{argv[0]}, Processes: []string{path.Base(argv[0])},
			Outside: &host.Cmd{Argv: append(client, "--hold")}, Files: loadFiles, Window: loadWindow, Waits: loadWaits}, nil
	}
	client = append(client, "--salt", "1") // the server starts anew for each run, so no cache has the prompts, and all runs ask the same
	if server == llmLlama {
		return llamaJob(p, client)
	}
	argv := []string{"{work}/llm-small", "llm-server", "--address", "{host}:{port}"} // its own name separates its counters from the load's
	for _, name := range []string{"layers", "width", "batch", "threads"} {
		n, err := p.Int(name, 1)
		if err != nil {
			return bench.Job{}, err
		}
		argv = append(argv, "--"+name, strconv.FormatInt(n, 10))
	}
	return bench.Job{Inside: host.Cmd{Argv: argv}, Outside: &host.Cmd{Argv: append(client, "--hold")}, Window: loadWindow, Waits: loadWaits,
		Files: append([]bench.File{{Name: "llm-small", From: bench.Worker, Exec: true}}, loadFiles...)}, nil
}

// llamaJob runs llama.cpp's server. Each answer that it computes has room for the longest prompt and answer.
func llamaJob(p bench.Params, client []string) (bench.Job, error) {
	batch, err := p.Int("batch", 1)
	if err != nil {
		return bench.Job{}, err
	}
	threads, err := p.Int("threads", 1)
	if err != nil {
		return bench.Job{}, err
	}
	model, file := llamaModel(p)
	weights := bench.File{Name: "model.gguf", From: file}
	room, err := llamaRoom(p)
	if err != nil {
		return bench.Job{}, err
	}
	if batch > llamaMost/room {
		return bench.Job{}, fmt.Errorf("parameter batch=%d: want at most %d, because the server reserves memory for %d tokens for each answer", batch, llamaMost/room, room)
	}
	argv := []string{"{work}/llama-server", "--model", "{work}/model.gguf", "--alias", model, "--host", "{host}", "--port", "{port}", "--parallel", strconv.FormatInt(batch, 10),
		"--ctx-size", strconv.FormatInt(room*batch, 10), "--threads", strconv.FormatInt(threads, 10), "--threads-batch", strconv.FormatInt(threads, 10), "--metrics", "--no-webui"}
	return bench.Job{Inside: host.Cmd{Argv: argv}, Outside: &host.Cmd{Argv: append(client, "--counters", "--hold")}, Window: loadWindow, Waits: loadWaits,
		Files: append([]bench.File{{Name: "llama-server", From: bench.Llama, Exec: true}, weights}, loadFiles...)}, nil
}

// llamaMost bounds the tokens for which the server has room in memory.
const llamaMost = 1 << 20

// llamaRoom is for how many tokens an answer has room, with its prompt: those of the longest, a third more for words that are several
// tokens, and what the template of a chat adds.
func llamaRoom(p bench.Params) (int64, error) {
	l := load.Lengths{Spread: p["lengths"]}
	var requests, warm, seed int64
	var input, output, shared int64
	for _, f := range []struct {
		name string
		to   *int64
	}{{"requests", &requests}, {"warm", &warm}, {"seed", &seed}, {"input", &input}, {"output", &output}, {"shared", &shared}} {
		n, err := p.Int(f.name, 0)
		if err != nil {
			return 0, err
		}
		*f.to = n
	}
	l.Input, l.Output, l.Shared = int(input), int(output), int(shared)
	const template, step, known = 64, 256, 8192 // tokens; known is what the models of the parameter size take
	longest := int64(load.LongestTurn(int(requests+warm), l, uint64(seed)))
	room := (longest + longest/3 + template + step - 1) / step * step
	if p["weights"] == "" && room > known {
		return 0, fmt.Errorf("parameters input=%s and output=%s: the longest prompt and its answer need %d tokens, but the model allows only %d: lower the parameters, or name other weights", p["input"], p["output"], room, known)
	}
	return room, nil
}

// llamaModel is the name under which the model is served, and the file with its weights, as in bench.File.
func llamaModel(p bench.Params) (name, file string) {
	switch {
	case p["weights"] != "":
		return strings.TrimSuffix(path.Base(p["weights"]), ".gguf"), p["weights"]
	case p["size"] == "38m":
		return "random-38m", bench.RandomWeights38M
	case p["size"] == "362m":
		return "random-362m", bench.RandomWeights362M
	}
	return "smollm2-135m-instruct", bench.Weights
}

// llmClient is the load generator's command.
func llmClient(p bench.Params, url string) ([]string, error) {
	argv := []string{"{work}/teescope-work", "llm", "--url", url, "--lengths", p["lengths"]}
	if p["model"] != "" {
		argv = append(argv, "--model", p["model"])
	}
	for _, f := range []struct {
		name  string
		least int64
	}{{"requests", 1}, {"warm", 0}, {"input", 2}, {"output", 2}, {"shared", 0}, {"seed", 0}} {
		n, err := p.Int(f.name, f.least)
		if err != nil {
			return nil, err
		}
		if (f.name == "requests" || f.name == "warm") && n > load.MostChats {
			return nil, fmt.Errorf("parameter %s=%d: want at most %d", f.name, n, load.MostChats)
		}
		argv = append(argv, "--"+f.name, strconv.FormatInt(n, 10))
	}
	for _, name := range []string{"ttft", "tpot", "wait"} {
		d, err := p.Seconds(name)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--"+name, d.String())
	}
	switch llmLoop(p) {
	case "open":
		if v, err := p.Number("rate", true); err != nil || v > load.MostRate {
			return nil, fmt.Errorf("parameter rate=%q: want requests per second above 0 and up to %g, 0 for users, or unlimited", p["rate"], load.MostRate)
		}
		argv = append(argv, "--rate", p["rate"], "--arrivals", p["arrivals"])
	case "closed":
		users, err := p.Int("users", 1)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--users", strconv.FormatInt(users, 10))
	}
	if p["ignore-end"] == "on" {
		argv = append(argv, "--ignore-end")
	}
	return argv, nil
}

// checkLlama compares the tokens that llama.cpp's server counts while the requests are under way with those of its answers. Tokens of prompts
// that it had in its cache are not among the former.
func checkLlama(r *load.Chat) error {
	s := r.Served
	if s == nil {
		return errors.New("the load generator did not ask the server for its counters")
	}
	cached := 0.0
	if r.Cached != nil {
		cached = float64(*r.Cached)
	}
	if math.Abs(s.CompletionTokens-float64(r.CompletionTokens)) > s.Rounding || math.Abs(s.PromptTokens+cached-float64(r.PromptTokens)) > s.Rounding {
		return fmt.Errorf("the server counts %g prompt tokens, %g more from its cache, and %g answer tokens, but its answers report %d and %d. Other clients used the server, or another server answered",
			s.PromptTokens, cached, s.CompletionTokens, r.PromptTokens, r.CompletionTokens)
	}
	return nil
}

// readLLM reads the load generator's report, wherever it ran.
func readLLM(o bench.Outcome) (*load.Chat, error) {
	out := o.Outside.Stdout
	if o.Params["server"] == llmURL {
		out = o.Inside.Stdout
	}
	var r load.Chat
	if err := readReport("load generator", out, &r); err != nil {
		return nil, err
	}
	if !(r.Seconds > 0) || r.Cores < 1 || r.Asked < 1 {
		return nil, fmt.Errorf("report of the load generator: %v seconds, %d cores, %d requests: want values above 0", r.Seconds, r.Cores, r.Asked)
	}
	return &r, nil
}

// checkSmall compares the small server's count with the client's. The server also answered the warm-up, and the client's question whether it is ready.
func checkSmall(o bench.Outcome, r *load.Chat) error {
	var s struct {
		Model            string `json:"model"`
		Parameters       int    `json:"parameters"`
		Answers          uint64 `json:"answers"`
		PromptTokens     uint64 `json:"prompt_tokens"`
		CompletionTokens uint64 `json:"completion_tokens"`
	}
	if err := readReport("server inside", o.Inside.Stdout, &s); err != nil {
		return err
	}
	warm, err := o.Params.Int("warm", 0)
	switch {
	case err != nil:
		return err
	case !strings.HasPrefix(s.Model, "teescope-") || s.Model != r.Model:
		return fmt.Errorf("the server runs the model %q, but the client asked for %q", s.Model, r.Model)
	case s.Answers != r.Done+uint64(warm)+1 || s.CompletionTokens < r.CompletionTokens || s.PromptTokens < r.PromptTokens:
		return fmt.Errorf("the server counts %d answers with %d tokens, but the client counts %d answers with %d tokens, and %d answers before the measurement. Other clients used the server, or another server answered", s.Answers, s.CompletionTokens, r.Done, r.CompletionTokens, warm+1)
	}
	return nil
}
