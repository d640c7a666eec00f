// Command fleet measures a monitor that scrapes many agents: how many samples a second it holds, the scrapes that it
// misses, its CPU time and memory, how long the rules take, and how long the list of machines takes. One process (this
// one) serves the agents' pages. Next to it is a stock Prometheus of the module that teescope is built with, on the same
// targets, one after the other. It is part of `make bench`; docs/lab/performance.md holds its output, which is only valid
// for the machine it ran on.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/stats"
)

type options struct {
	out, progress io.Writer
	bin           string
	targets       []int
	enclaves      int
	every         time.Duration
	age, short    time.Duration
	asks          int
	stock         bool
	prometheus    string // "": build it
}

func main() {
	o := options{out: os.Stdout, progress: os.Stderr}
	targets := flag.String("targets", "100,1000,3000,6000", "numbers of agents, one after the other")
	flag.StringVar(&o.bin, "bin", "bin/teescope", "monitor to measure")
	flag.IntVar(&o.enclaves, "enclaves", 0, "enclaves of each agent, with series of their own")
	flag.DurationVar(&o.every, "every", 15*time.Second, "time between two scrapes of an agent")
	flag.DurationVar(&o.age, "for", 4*time.Minute, "age at which memory is read with the last number of agents; the second half of that time is measured")
	flag.DurationVar(&o.short, "short", 90*time.Second, "the same for the other numbers")
	flag.IntVar(&o.asks, "asks", 4, "how often the list of machines is made for its latency")
	flag.BoolVar(&o.stock, "stock", true, "measure a stock Prometheus too")
	flag.StringVar(&o.prometheus, "prometheus", "", "the Prometheus to measure; by default it is built once from its module, which takes minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.choose(*targets)
	if err == nil {
		err = o.run(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// mostTargets have addresses.
const mostTargets = 250 * perByte * perByte

func (o *options) choose(list string) error {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostTargets {
			return fmt.Errorf("-targets %q: want numbers from 1 to %d, separated by commas", text, mostTargets)
		}
		o.targets = append(o.targets, n)
	}
	if o.every < time.Second || o.every%time.Second != 0 || min(o.age, o.short) < 4*o.every {
		return errors.New("-every: want whole seconds, and -for and -short of four times that at least")
	}
	return nil
}

func (o options) logf(format string, args ...any) {
	fmt.Fprintf(o.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

func (o options) run(ctx context.Context) error {
	if err := descriptors(slices.Max(o.targets)); err != nil {
		return err
	}
	engines := []string{""} // the monitor
	if o.stock {
		p, err := o.stockPrometheus(ctx)
		if err != nil {
			o.logf("Prometheus is left out: %v", err)
		} else {
			engines = append(engines, p)
		}
	}
	a, err := serveAgents(o.enclaves)
	if err != nil {
		return err
	}
	defer a.close()
	fmt.Fprintln(o.out, "| agents | scraped by | series | samples/s | scrapes missed, failed | latest scrape | CPU, of a core | resident memory (anonymous), at the age of | rules, mean (longest) | list of machines, median (longest) |\n|---|---|---|---|---|---|---|---|---|---|")
	var failed error
	for i, n := range o.targets {
		age := o.short
		if i == len(o.targets)-1 {
			age = o.age
		}
		for _, p := range engines {
			r, err := o.one(ctx, a, n, p, age)
			if r.rate > 0 { // what was measured before an error is a row, too
				fmt.Fprintln(o.out, r)
			}
			if ctx.Err() != nil {
				return errors.Join(failed, ctx.Err())
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%d agents: %w", n, err))
				o.logf("%d agents: %v", n, err)
			}
		}
	}
	return failed
}

// descriptors returns an error where the agents' connections, two ends each in two processes, would not fit.
func descriptors(targets int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if need := uint64(targets) + 500; l.Max < need {
		return fmt.Errorf("%d agents need %d file descriptors, and this shell allows %d: run `ulimit -Hn %d` as root, or choose fewer with -targets", targets, need, l.Max, need)
	}
	return nil
}

// row is a line of the table. What is absent is NaN.
type row struct {
	agents        int
	by            string
	series, rate  float64
	scrapes       scrapes
	cpu           float64 // cores
	rss, anon     float64
	age           time.Duration
	rules, slow   float64 // seconds
	list, longest float64 // seconds
}

func (r row) String() string {
	pair := func(a, b float64) string {
		if math.IsNaN(a) {
			return ""
		}
		return fmt.Sprintf("%.0f ms (%.0f)", 1000*a, 1000*b)
	}
	return fmt.Sprintf("| %d | %s | %.0f | %.0f | %d, %d | %.1f s | %.1f %% | %.0f MiB (%.0f), %v | %s | %s |", r.agents, r.by, r.series, r.rate,
		r.scrapes.missed, r.scrapes.failed, r.scrapes.latest.Seconds(), 100*r.cpu, r.rss/(1<<20), r.anon/(1<<20), r.age, pair(r.rules, r.slow), pair(r.list, r.longest))
}

// one measures one engine on the first n agents.
func (o options) one(ctx context.Context, a *agents, n int, prometheus string, age time.Duration) (r row, err error) {
	began := time.Now()
	e, err := o.startEngine(ctx, a, n, prometheus)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	r = row{agents: n, by: e.name, age: age, rules: math.NaN(), slow: math.NaN(), list: math.NaN(), longest: math.NaN()}
	o.logf("%d agents, %s: measured until it is %v old", n, e.name, age)
	from := began.Add(age / 2)
	if err := until(ctx, from); err != nil {
		return r, err
	}
	before, err := e.cpu()
	if err != nil {
		return r, err
	}
	if err := until(ctx, began.Add(age)); err != nil {
		return r, err
	}
	to := time.Now()
	after, err := e.cpu()
	if err != nil {
		return r, err
	}
	r.cpu = (after - before) / to.Sub(from).Seconds()
	if r.rss, r.anon, err = e.resident(); err != nil {
		return r, err
	}
	if err := o.stored(ctx, e, &r, from, to); err != nil {
		return r, err
	}
	if e.ours {
		o.logf("%d agents: the list of machines", n)
		list, longest, err := o.lists(ctx, e, n)
		if err != nil {
			return r, err
		}
		r.list, r.longest = list, longest
	}
	return r, nil
}

// until waits for a time.
func until(ctx context.Context, t time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(t)):
		return nil
	}
}

// stored reads from the engine what it has of a span of time.
func (o options) stored(ctx context.Context, e *engine, r *row, from, to time.Time) error {
	span := to.Sub(from).Truncate(time.Second)
	of := fmt.Sprintf("{job=%q}[%s]", job, inPrometheus(span))
	total, _, err := e.number(ctx, "sum(sum_over_time(scrape_samples_scraped"+of+"))", to)
	if err != nil {
		return err
	}
	r.rate = total / span.Seconds()
	if r.series, _, err = e.number(ctx, fmt.Sprintf("sum(scrape_samples_scraped{job=%q})", job), to); err != nil {
		return err
	}
	ups, err := e.query(ctx, "up"+of, to)
	if err != nil {
		return err
	}
	r.scrapes = count(ups, r.agents, to.Add(-span), to, o.every)
	if !e.ours {
		return nil
	}
	evaluation := fmt.Sprintf("teescope_findings_evaluation_seconds[%s]", inPrometheus(span))
	for f, v := range map[string]*float64{"avg": &r.rules, "max": &r.slow} {
		got, ok, err := e.number(ctx, f+"_over_time("+evaluation+")", to)
		if err != nil {
			return err
		}
		if ok {
			*v = got
		}
	}
	return nil
}

// scrapes is what became of the scrapes of a span of time. The latest is the longest time between two scrapes of a
// target, less the interval.
type scrapes struct {
	missed, failed int
	latest         time.Duration
}

// count judges the readings of up of each target in a span of time: no two may be further apart than the interval, and a
// target without any has missed all.
func count(ups []series, targets int, from, to time.Time, every time.Duration) (s scrapes) {
	whole := int(to.Sub(from) / every)
	s.missed = whole * (targets - len(ups))
	seconds := func(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
	for _, u := range ups {
		last := seconds(from)
		for i, v := range u.Values {
			gap := (v.at - last) / every.Seconds()
			if i == 0 {
				s.missed += atEdge(gap)
			} else {
				s.missed += max(0, int(math.Round(gap))-1)
				s.latest = max(s.latest, time.Duration(math.Round(1000*(gap-1)*every.Seconds()))*time.Millisecond)
			}
			if v.value == 0 {
				s.failed++
			}
			last = v.at
		}
		s.missed += atEdge((seconds(to) - last) / every.Seconds())
	}
	return s
}

// atEdge returns how many scrapes are missing between an end of a span and the reading next to it, so many intervals
// away. One that is late by a tenth of an interval is not missed.
func atEdge(gap float64) int { return max(0, int(gap-0.1)) }

// page is what is read of the list of machines.
type page struct {
	At  time.Time
	All int
}

// lists asks for the list of machines, as the page does, until it was made anew several times. It returns the times of
// the answers for which it was made: their median and the longest.
func (o options) lists(ctx context.Context, e *engine, agents int) (middle, longest float64, err error) {
	var took []float64
	last := time.Time{}
	for give := time.Now().Add(3 * time.Minute); len(took) < o.asks && time.Now().Before(give); {
		began := time.Now()
		b, err := get(ctx, e.url+"/api/teescope/v1/machines?limit=100")
		if err != nil {
			return 0, 0, err
		}
		d := time.Since(began).Seconds()
		var p page
		if err := json.Unmarshal(b, &p); err != nil {
			return 0, 0, fmt.Errorf("read the list of machines: %w", err)
		}
		if p.All != agents && p.All != agents+1 { // the monitor's own is one more, once it has a reading
			return 0, 0, fmt.Errorf("the list has %d machines, want %d and the monitor's own", p.All, agents)
		}
		if !p.At.Equal(last) {
			took, last = append(took, d), p.At
		}
		if err := until(ctx, time.Now().Add(time.Second)); err != nil {
			return 0, 0, err
		}
	}
	if took == nil {
		return 0, 0, errors.New("the list of machines was not made anew within 3 minutes")
	}
	return stats.Median(took), slices.Max(took), nil
}

// stockPrometheus returns the Prometheus to compare with. It is built once from the module that is in go.mod, in the
// same version, with the discovery that is used here; go adds to a copy of go.mod and go.sum what only its command needs.
func (o options) stockPrometheus(ctx context.Context) (string, error) {
	if o.prometheus != "" {
		return o.prometheus, nil
	}
	const module = "github.com/prometheus/prometheus"
	version, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}} {{.GoVersion}}", module))
	if err != nil {
		return "", err
	}
	mod, err := output(exec.CommandContext(ctx, "go", "env", "GOMOD"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(version, " ")
	path := filepath.Join(cache, "teescope", "prometheus", number)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	o.logf("building Prometheus %s in %s; this takes minutes the first time", number, path)
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(mod), name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" { // its tag may not be published yet
			b = fmt.Appendf(b, "\nreplace github.com/teescope/teescope/channel => %s\n", filepath.Join(filepath.Dir(mod), "channel"))
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	c := exec.CommandContext(ctx, "go", "build", "-mod=mod", "-modfile", filepath.Join(dir, "go.mod"), "-tags", "remove_all_sd", "-o", filepath.Join(dir, "prometheus"), module+"/cmd/prometheus")
	c.Dir, c.Env = filepath.Dir(mod), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off") // a workspace has no -modfile
	if _, err := output(c); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(dir, "prometheus"))
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, b, 0o755)
}

// output runs a command and returns what it prints; its error has what it says.
func output(c *exec.Cmd) (string, error) {
	b, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, cmp.Or(tail(exit.Stderr), "it says nothing"))
	}
	return strings.TrimSpace(string(b)), err
}
