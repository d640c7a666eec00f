// Command channel compares the attested channel with the plain transport and with Go's
// TLS 1.3: each round runs every case once, in random order, and in each case the three
// take turns in one process. Ratios are within a round. It is part of `make bench`;
// docs/lab/performance.md holds its output, which is only valid for the machine it ran on.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/channelbench"
	"github.com/teescope/teescope/internal/stats"
)

// comparison is a line of the table: two variants of a case.
type comparison struct {
	args      []string
	what      string
	ours, its string // variants
	aim       string
	rate      bool // bytes per second are shown instead of seconds
}

var comparisons = func() []comparison {
	var out []comparison
	for _, t := range []string{"tcp", "unix", "pipe"} {
		for _, size := range []int{1536, 4 << 10, 384 << 10, 1 << 20} {
			args := []string{"-measure", "echo", "-transport", t, "-size", strconv.Itoa(size)}
			what := fmt.Sprintf("echo, %s, %d B", t, size)
			aim := ""
			if t == "tcp" && size == 384<<10 {
				aim = "at most 1"
			}
			out = append(out, comparison{args, what, "channel_echo", "plain_echo", "", false}, comparison{args, what, "channel_echo", "tls_echo", aim, false})
		}
	}
	for _, t := range []string{"tcp", "unix", "pipe"} {
		args := []string{"-measure", "stream", "-transport", t}
		what := "stream, " + t + ", 384 KiB"
		out = append(out, comparison{args, what, "channel_stream", "plain_stream", "", true}, comparison{args, what, "channel_stream", "tls_stream", "", true})
	}
	for _, threads := range []string{"same", "cross"} {
		args := []string{"-measure", "handshake", "-transport", "pipe", "-threads", threads}
		what := "handshake, pipe, threads " + threads
		out = append(out,
			comparison{args, what, "bare_handshake", "x25519_handshake", "at most 1.3", false},
			comparison{args, what, "attested_handshake", "tls_handshake", "", false},
			comparison{args, what, "resumed_handshake", "tls_resumed_handshake", "", false})
	}
	codec := []string{"-measure", "codec"}
	return append(out, comparison{codec, "384 KiB, no connection", "channel_send", "aead_seal", "3 GB/s", true},
		comparison{codec, "384 KiB, no connection", "channel_receive", "aead_open", "3 GB/s", true})
}()

func main() {
	worker := flag.String("worker", "bin/teescope-work", "the worker")
	rounds := flag.Int("rounds", 10, "runs of each case")
	windows := flag.Int("windows", 5, "windows of each variant in a run")
	window := flag.Duration("window", 100*time.Millisecond, "length of a window")
	only := flag.String("match", "", "regular expression of the lines that are measured")
	flag.Parse()
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "channel: -match:", err)
		os.Exit(2)
	}
	comparisons := slices.DeleteFunc(slices.Clone(comparisons), func(c comparison) bool { return !match.MatchString(c.what) })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, os.Stdout, comparisons, *worker, *rounds, []string{"-windows", strconv.Itoa(*windows), "-window", window.String(), "-warm", (2 * *window).String()})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "channel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, comparisons []comparison, worker string, rounds int, length []string) error {
	var cases [][]string
	for _, c := range comparisons {
		if !slices.ContainsFunc(cases, func(a []string) bool { return slices.Equal(a, c.args) }) {
			cases = append(cases, c.args)
		}
	}
	costs := map[string][]float64{} // seconds of an operation by case and variant, one for each round
	sizes := map[string]int{}
	order := rand.New(rand.NewPCG(1, 0))
	for round := range rounds {
		for _, i := range order.Perm(len(cases)) {
			r, err := measure(ctx, worker, slices.Concat(cases[i], length, []string{"-seed", strconv.Itoa(round)}))
			if err != nil {
				return err
			}
			for _, v := range r.Variants {
				var all []float64
				for _, w := range v.Windows {
					all = append(all, stats.Median(w.Parts))
				}
				key := strings.Join(cases[i], " ") + v.Name
				costs[key] = append(costs[key], stats.Median(all))
				sizes[key] = r.Size
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	fmt.Fprintln(out, "| what | ours | against | ratio of the times | 95 % interval | aim |\n|---|---|---|---|---|---|")
	for _, c := range comparisons {
		ours, its := strings.Join(c.args, " ")+c.ours, strings.Join(c.args, " ")+c.its
		x := stats.Paired(costs[its], costs[ours], stats.Options{Margin: 0.03, Confidence: 0.95, Better: -1, Seed: 1})
		fmt.Fprintf(out, "| %s | %s %s | %s %s | %.2f | [%.2f, %.2f] | %s |\n", c.what, c.ours, show(costs[ours], sizes[ours], c.rate),
			c.its, show(costs[its], sizes[its], c.rate), x.Ratio, x.Low, x.High, cmp.Or(c.aim, "–"))
	}
	return nil
}

// show returns the median of a variant's costs.
func show(seconds []float64, size int, rate bool) string {
	m := stats.Median(seconds)
	if rate {
		return fmt.Sprintf("%.2f GB/s", float64(size)/m/1e9)
	}
	return time.Duration(m * 1e9).Round(10 * time.Nanosecond).String()
}

func measure(ctx context.Context, worker string, args []string) (*channelbench.Report, error) {
	cmd := exec.CommandContext(ctx, worker, append([]string{"channel"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s channel %s: %w", worker, strings.Join(args, " "), err)
	}
	_, text, _ := bytes.Cut(out, []byte("begin\n"))
	var r channelbench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s channel %s: read its report: %w", worker, strings.Join(args, " "), err)
	}
	if r.Wrong > 0 {
		return nil, fmt.Errorf("%s channel %s: %d answers were wrong", worker, strings.Join(args, " "), r.Wrong)
	}
	return &r, nil
}
