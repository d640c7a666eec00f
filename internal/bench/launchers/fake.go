package launchers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// fake allows exact tests of everything around a run (order, pairing, statistics, resuming,
// reports) without waiting.
var fake = bench.Launcher{
	Name: "fake",
	Doc: "Runs nothing and measures nothing: it makes up how long each job took, from a seed, to test teescope itself. " +
		"A job `sleep SECONDS` takes that time; any other job takes the time of the parameter seconds. The output of a run is one line, or the file of the parameter output.",
	Params: []bench.Param{
		{Name: "seconds", Doc: "Median duration of a run in seconds.", Default: "1"},
		{Name: "cost", Doc: "Factor on every duration.", Default: "1"},
		{Name: "sd", Doc: "Standard deviation of the durations' logarithm; the durations are log-normal.", Default: "0.01"},
		{Name: "seed", Doc: "Seed of this environment's own noise.", Default: "1"},
		{Name: "shared-sd", Doc: "Standard deviation of noise that all environments with the same shared-seed have in common in a run, like the disturbance of a machine within a pair.", Default: "0"},
		{Name: "shared-seed", Doc: "Seed of the shared noise.", Default: "1"},
		{Name: "drift", Doc: "Relative growth of the durations from one run to the next.", Default: "0"},
		{Name: "slow-share", Doc: "Share of runs that are slow, from 0 to 1, for a second mode.", Default: "0"},
		{Name: "slow-ratio", Doc: "Factor on a slow run's duration.", Default: "2"},
		{Name: "output", Doc: "File of this machine that a run prints, with the run's duration in seconds in place of {seconds}. Empty: the line `done`, like the workload null."},
		{Name: "failure", Doc: "Simulated failure. open: the environment never opens. run: the run ends with status 1. output: the output is cut in half. hang: the run continues until teescope ends it.", Default: "none",
			Values: []string{"none", "open", "run", "output", "hang"}},
		{Name: "failure-share", Doc: "Share of runs that fail, from 0 to 1.", Default: "1"},
	},
	Check: func(h *host.Host, p bench.Params) error {
		if p["output"] == "" {
			return nil
		}
		return missing(h, need{Path: p["output"], Hint: "record a run's output there"})
	},
	Foresee: func(_ *host.Host, p bench.Params) (bench.Params, string) { return p, "has made-up values" },
	// The commands that another launcher would start.
	Commands: func(_ bench.Params, job bench.Job) ([]host.Cmd, error) { return []host.Cmd{job.Inside}, nil },
	Open: func(_ context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		e := &fakeEnv{h: h, params: p, output: "done\n"}
		if p["failure"] == "open" {
			return nil, errors.New("open a fake environment: simulated, because of failure=open")
		}
		number := func(name string, least, most float64) float64 {
			v, err := strconv.ParseFloat(p[name], 64)
			if err != nil || !(v >= least && v <= most) {
				e.err = errors.Join(e.err, fmt.Errorf("parameter %s=%q: want a number from %g to %g", name, p[name], least, most))
			}
			return v
		}
		const most = 1e6
		e.seconds, e.cost = number("seconds", 0, most), number("cost", 0, most)
		e.sd, e.sharedSD, e.drift = number("sd", 0, 10), number("shared-sd", 0, 10), number("drift", -1, most)
		e.slowShare, e.slowRatio, e.failShare = number("slow-share", 0, 1), number("slow-ratio", 0, most), number("failure-share", 0, 1)
		e.own, e.shared = e.stream("seed", 0), e.stream("shared-seed", 1)
		if e.err != nil {
			return nil, e.err
		}
		if p["output"] != "" {
			b, err := h.ReadFile(p["output"])
			if err != nil {
				return nil, fmt.Errorf("read output: %w", err)
			}
			e.output = string(b)
		}
		return e, nil
	},
}

type fakeEnv struct {
	h                    *host.Host
	params               bench.Params
	seconds, cost        float64
	sd, sharedSD, drift  float64
	slowShare, slowRatio float64
	failShare            float64
	own, shared          *rand.Rand
	output               string
	runs                 int
	err                  error
}

func (e *fakeEnv) stream(name string, kind uint64) *rand.Rand {
	seed, err := strconv.ParseUint(e.params[name], 10, 64)
	if err != nil {
		e.err = errors.Join(e.err, fmt.Errorf("parameter %s=%q: want a whole number of at least 0", name, e.params[name]))
	}
	return rand.New(rand.NewPCG(seed, kind))
}

// Describe marks the durations as invented, so no reader or guard takes them for a measurement.
func (e *fakeEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	d.TEE.Type, d.TEE.Declared = "none", true
	d.TEE.Settings = withEntry(d.TEE.Settings, "measures", "nothing: durations are made up")
	d.Software.Versions = withEntry(d.Software.Versions, "fake", "1")
	return nil
}

// Run draws a duration. Every run makes the same number of draws, so a parameter changes only
// what it names.
func (e *fakeEnv) Run(ctx context.Context, job bench.Job) (bench.Outcome, error) {
	if len(job.Inside.Argv) == 0 {
		return bench.Outcome{}, errors.New("run: empty command")
	}
	if err := ctx.Err(); err != nil {
		return bench.Outcome{}, err
	}
	if slices.Equal(job.Inside.Argv[:min(2, len(job.Inside.Argv))], []string{"{work}/micro", "capture"}) {
		return bench.Outcome{}, errors.New("a fake environment has nothing to capture")
	}
	seconds := e.seconds
	if a := job.Inside.Argv; len(a) == 2 && a[0] == "sleep" {
		v, err := strconv.ParseFloat(a[1], 64)
		if err != nil || v < 0 {
			return bench.Outcome{}, fmt.Errorf("run sleep %s: want seconds", a[1])
		}
		seconds = v
	}
	noise := e.sd*e.own.NormFloat64() + e.sharedSD*e.shared.NormFloat64()
	slow, wrong := e.own.Float64() < e.slowShare, e.own.Float64() < e.failShare
	seconds *= e.cost * math.Exp(noise) * math.Pow(1+e.drift, float64(e.runs))
	if slow {
		seconds *= e.slowRatio
	}
	e.runs++
	const most = 1e9 // what fits into a time.Duration
	out := host.Output{Began: e.h.Now(), Wall: time.Duration(min(seconds, most) * float64(time.Second))}
	text := strings.ReplaceAll(e.output, "{seconds}", strconv.FormatFloat(out.Wall.Seconds(), 'f', 9, 64))
	var err error
	if wrong {
		switch e.params["failure"] {
		case "run":
			out.Code, out.Stderr, text, err = 1, []byte("launcher fake: simulated failure (failure=run)\n"), "", errors.New("run fake: exit status 1")
		case "output":
			text = text[:len(text)/2]
		case "hang":
			<-ctx.Done()
			return bench.Outcome{Inside: out}, fmt.Errorf("run fake: %w", ctx.Err())
		}
	}
	out.User, out.Stdout = out.Wall, []byte(text)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines { // they come at equal distances, the last at the end
		out.Lines = append(out.Lines, host.Line{At: out.Wall * time.Duration(i+1) / time.Duration(len(lines)), Text: line})
	}
	return bench.Outcome{Inside: out}, err
}

func (e *fakeEnv) Idle(context.Context, bool) error { return nil }

func (e *fakeEnv) Close() error { return nil }
