// Command gate tests the gate on this machine, with the real program, the
// native launcher and a real job: two copies of one build must pass (A/A), and a
// build that does 10 % more work must fail. It prints the table of
// docs/statistics.md and writes every run's time to a CSV file.
//
//	make bench-gate-selftest
//
// Its exit status is 1 when there are more than 5 alarms in 100 A/A gates, or
// fewer than 19 alarms in 20 of the slower build, in proportion to their numbers.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/stats"
)

// The gate's margin, and the effect to detect beyond it, with its power.
const (
	margin = 0.03
	effect = 0.10
	power  = 0.99
	alpha  = 0.05
)

func main() {
	var t selftest
	flag.StringVar(&t.bin, "bin", "bin/teescope", "the program under test")
	flag.IntVar(&t.same, "same", 100, "gates over two copies of one build")
	flag.IntVar(&t.slower, "slower", 20, "gates over a build that does 10 % more work")
	flag.IntVar(&t.pairs, "pairs", 0, "pairs of each gate; 0 asks a pilot of 10 pairs")
	flag.Uint64Var(&t.seed, "seed", 20261121, "seed of the first gate; the next ones count up")
	out := flag.String("csv", "", "file that gets every run's time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := t.run(ctx, *out, os.Stdout)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(4)
	case !ok:
		os.Exit(1)
	}
}

type selftest struct {
	bin                 string
	same, slower, pairs int
	seed                uint64
	dir                 string
	rows                *csv.Writer
}

func (t *selftest) run(ctx context.Context, out string, w io.Writer) (bool, error) {
	var err error
	if t.dir, err = os.MkdirTemp("", "gate-"); err != nil {
		return false, err
	}
	defer os.RemoveAll(t.dir)
	for name, extra := range map[string]int{"one": 0, "two": 0, "slow": 10} {
		cc := exec.CommandContext(ctx, "cc", "-O2", fmt.Sprintf("-DEXTRA=%d", extra), "-o", filepath.Join(t.dir, name), "workloads/gate/gate.c")
		if said, err := cc.CombinedOutput(); err != nil {
			return false, fmt.Errorf("%s: %w\n%s", cc, err, said)
		}
	}
	t.rows = csv.NewWriter(io.Discard)
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return false, err
		}
		defer f.Close()
		t.rows = csv.NewWriter(f)
	}
	t.row("kind", "seed", "pair", "position", "arm", "wall_seconds", "run_status", "gate_status")
	began, first := time.Now(), t.seed+1
	sd, err := t.pilot(ctx, w)
	if err != nil {
		return false, err
	}
	alarms, open, err := t.gates(ctx, "same", "two", t.same)
	if err != nil {
		return false, err
	}
	found, missed, err := t.gates(ctx, "slower", "slow", t.slower)
	if err != nil {
		return false, err
	}
	fmt.Fprintf(w, "| what | gates | pairs each | alarms | inconclusive | invalid | want |\n|---|---|---|---|---|---|---|\n"+
		"| two copies of one build | %d | %d | %d | %d | %d | at most %d alarms |\n| 10 %% more work | %d | %d | %d | %d | %d | at least %d alarms |\n",
		t.same, t.pairs, alarms, open[2], open[3], allowed(t.same), t.slower, t.pairs, found, missed[2], missed[3], fewestAlarms(t.slower))
	fmt.Fprintf(w, "\nSeeds %d to %d, margin %.0f %%, standard deviation of the log ratio in the pilot %.4f, %s in all.\n",
		first, t.seed, margin*100, sd, time.Since(began).Round(time.Second))
	t.rows.Flush()
	return alarms <= allowed(t.same) && found >= fewestAlarms(t.slower), t.rows.Error()
}

func allowed(gates int) int      { return gates * 5 / 100 }
func fewestAlarms(gates int) int { return int(math.Ceil(float64(gates) * 19 / 20)) }

// pilot runs the build against its copy and sets the number of pairs: enough to find 10
// % beyond the margin in all but one of a hundred experiments.
func (t *selftest) pilot(ctx context.Context, w io.Writer) (float64, error) {
	e, _, err := t.gate(ctx, "pilot", "two", 10)
	if err != nil {
		return 0, err
	}
	for _, c := range e.Comparisons {
		if c.Primary && c.SDLog != nil {
			if t.pairs == 0 {
				t.pairs = max(6, stats.PairsFor(*c.SDLog, math.Log((1+effect)/(1+margin)), alpha, power))
			}
			fmt.Fprintf(w, "pilot of 10 pairs: standard deviation of the log ratio %.4f, so %d pairs\n\n", *c.SDLog, t.pairs)
			return *c.SDLog, nil
		}
	}
	return 0, errors.New("the pilot has no comparison; see `teescope bench run` in this file for its command")
}

// gates runs n experiments and judges each; it returns the alarms, and the number of
// each exit status.
func (t *selftest) gates(ctx context.Context, kind, head string, n int) (int, map[int]int, error) {
	statuses := map[int]int{}
	for i := range n {
		_, status, err := t.gate(ctx, kind, head, t.pairs)
		if err != nil {
			return 0, nil, err
		}
		statuses[status]++
		fmt.Fprintf(os.Stderr, "%s %d of %d: status %d\n", kind, i+1, n, status)
	}
	return statuses[1], statuses, nil
}

// gate makes one experiment and runs `teescope gate` on it, as CI would.
func (t *selftest) gate(ctx context.Context, kind, head string, pairs int) (*result.Experiment, int, error) {
	t.seed++
	out := filepath.Join(t.dir, "r.json")
	defer os.RemoveAll(filepath.Join(t.dir, "r.raw"))
	defer os.Remove(out)
	run := exec.CommandContext(ctx, t.bin, "bench", "run", "custom", "--param", "command={binary}", "--param", "digest=stdout",
		"--env", "base=native,binary="+filepath.Join(t.dir, "one"), "--env", "head=native,binary="+filepath.Join(t.dir, head),
		"--pairs", strconv.Itoa(pairs), "--seed", strconv.FormatUint(t.seed, 10), "--out", out, "--data", t.dir)
	run.Env = append(os.Environ(), "TMPDIR="+t.dir)
	if said, err := run.CombinedOutput(); err != nil && run.ProcessState.ExitCode() != 3 {
		return nil, 0, fmt.Errorf("%s: %w\n%s", run, err, said)
	}
	e, err := result.Read(out)
	if err != nil {
		return nil, 0, err
	}
	judge := exec.CommandContext(ctx, t.bin, "gate", out, "--margin", strconv.FormatFloat(margin, 'g', -1, 64))
	said, err := judge.CombinedOutput()
	status := judge.ProcessState.ExitCode()
	if status < 0 || status > 3 {
		return nil, 0, fmt.Errorf("%s: %w\n%s", judge, err, said)
	}
	if status == 3 {
		fmt.Fprintf(os.Stderr, "%s\n", said)
	}
	for i := range e.Runs {
		r := &e.Runs[i]
		value := ""
		if m := r.Metric(e.Design.Primary); m != nil && m.Value != nil {
			value = strconv.FormatFloat(*m.Value, 'f', 6, 64)
		}
		t.row(kind, strconv.FormatUint(t.seed, 10), strconv.Itoa(r.Pair), strconv.Itoa(r.Position), r.Env, value, string(r.Status), strconv.Itoa(status))
	}
	return e, status, nil
}

func (t *selftest) row(cells ...string) { _ = t.rows.Write(cells) } // the error is kept until Flush
