// Command throughput measures what monitoring costs the monitored: servers under load
// alone, next to an agent within its budget, next to an agent that counts everything,
// next to a whole monitor, and next to the classic stack of node_exporter and
// Prometheus if it is installed. Further arms split the cost: user space alone, and each
// source that works in the kernel alone. Each round runs every arm once, in random order, and
// compares each arm with "off" of the same round. It is part of `make bench`;
// docs/lab/performance.md holds its output, which is only valid for the machine it ran on.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/stats"
)

type options struct {
	out      io.Writer // of the ledger
	bin, csv string
	rounds   int
	warm     time.Duration
	measure  time.Duration
}

func main() {
	o := options{out: os.Stdout}
	var servers, chosen, split string
	var ledger bool
	flag.StringVar(&o.bin, "bin", "bin/teescope", "binary to measure")
	flag.StringVar(&o.csv, "csv", "", "file for every run")
	flag.IntVar(&o.rounds, "rounds", 20, "pairs of each arm with none")
	flag.DurationVar(&o.warm, "warm", 4*time.Second, "load before the measurement, for the budget to settle")
	flag.DurationVar(&o.measure, "measure", 4*time.Second, "length of one measurement")
	flag.StringVar(&servers, "servers", "redis,nginx,postgres", "what is loaded")
	flag.StringVar(&chosen, "arms", "off,agent,full,monitor,classic", "what is beside it; the first is what the others are compared with")
	flag.BoolVar(&ledger, "ledger", false, "split the loss: one server under load without a break, and one monitor whose sources are switched on and off beside it")
	flag.StringVar(&split, "parts", "", "parts of the ledger, all by default: "+strings.Join(partNames(parts()), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if ledger {
		var list []part
		if list, err = o.chosenParts(split); err == nil {
			err = o.ledger(ctx, strings.Split(servers, ","), list)
		}
	} else {
		err = o.run(ctx, strings.Split(servers, ","), strings.Split(chosen, ","))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "throughput:", err)
		os.Exit(1)
	}
}

// run measures one server after the other; one that is not installed is left out, with
// a note.
func (o options) run(ctx context.Context, serverNames, armNames []string) error {
	var use []arm
	for _, name := range armNames {
		a, err := armOf(name)
		if err != nil {
			return err
		}
		if err := a.possible(o.bin); err != nil {
			fmt.Printf("arm %s left out: %v\n", name, err)
			continue
		}
		use = append(use, a)
	}
	if len(use) < 2 {
		return errors.New("nothing to compare: want two arms or more")
	}
	var out *csv.Writer
	if o.csv != "" {
		f, err := os.Create(o.csv)
		if err != nil {
			return err
		}
		defer f.Close()
		out = csv.NewWriter(f)
		defer out.Flush()
		if err := out.Write([]string{"server", "round", "arm", "per_second", "coverage", "cpu_cores", "rss_mib"}); err != nil {
			return err
		}
	}
	fmt.Println("| server | beside it | throughput lost | 95 % interval | coverage of system calls | CPU of its own, cores | RSS, MiB |\n|---|---|---|---|---|---|---|")
	for _, name := range serverNames {
		s, ok := servers[name]
		if !ok {
			return fmt.Errorf("no server %q", name)
		}
		if err := o.server(ctx, name, s, use, out); err != nil {
			if errors.Is(err, errMissing) {
				fmt.Printf("| %s | left out: %v | | | | | |\n", name, err)
				continue
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// measurement is one run of an arm; an unknown value is NaN.
type measurement struct{ rate, coverage, cpu, rss float64 }

func (o options) server(ctx context.Context, name string, s server, use []arm, out *csv.Writer) error {
	r, err := s(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	runs := make([][]measurement, len(use))
	for round := range o.rounds {
		for _, i := range rand.Perm(len(use)) {
			m, err := o.one(ctx, r.load, use[i])
			if err != nil {
				return fmt.Errorf("round %d, arm %s: %w", round, use[i].name, err)
			}
			runs[i] = append(runs[i], m)
			if out == nil {
				continue
			}
			record := []string{name, strconv.Itoa(round), use[i].name}
			for _, v := range []float64{m.rate, m.coverage, m.cpu, m.rss} {
				text := ""
				if !math.IsNaN(v) {
					text = strconv.FormatFloat(v, 'g', 6, 64)
				}
				record = append(record, text)
			}
			if err := out.Write(record); err != nil {
				return err
			}
			out.Flush()
		}
	}
	for i := 1; i < len(use); i++ {
		c := stats.Paired(column(runs[0], 0), column(runs[i], 0), stats.Options{Margin: 0.03, Confidence: 0.95, Better: 1, Seed: 1})
		fmt.Printf("| %s | %s | %.2f %% | [%.2f, %.2f] | %s | %s | %s |\n", name, use[i].doc,
			100*(1-c.Ratio), 100*(1-c.High), 100*(1-c.Low), middle(runs[i], 1), middle(runs[i], 2), middle(runs[i], 3))
	}
	return nil
}

// one starts an arm's programs next to the server, loads the server, and stops them
// again.
func (o options) one(ctx context.Context, load load, a arm) (measurement, error) {
	m := measurement{coverage: math.NaN(), cpu: math.NaN(), rss: math.NaN()}
	w, err := a.start(ctx, o.bin)
	if err != nil {
		return m, err
	}
	defer w.stop()
	if _, err := load(ctx, o.warm); err != nil {
		return m, err
	}
	before, err := w.cpu()
	if err != nil {
		return m, err
	}
	began := time.Now()
	if m.rate, err = load(ctx, o.measure); err != nil {
		return m, err
	}
	took := time.Since(began).Seconds()
	if len(w.processes) == 0 {
		return m, nil
	}
	after, err := w.cpu()
	if err != nil {
		return m, err
	}
	m.cpu = (after - before) / took
	if m.rss, err = w.rss(); err != nil {
		return m, err
	}
	m.coverage = w.coverage()
	return m, nil
}

func column(ms []measurement, i int) []float64 {
	var out []float64
	for _, m := range ms {
		if v := [...]float64{m.rate, m.coverage, m.cpu, m.rss}[i]; !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

func middle(ms []measurement, i int) string {
	v := column(ms, i)
	if len(v) == 0 {
		return "none"
	}
	return strconv.FormatFloat(stats.Median(v), 'g', 3, 64)
}
