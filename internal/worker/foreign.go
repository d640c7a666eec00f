package worker

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
)

// foreign runs another load generator, in as many parallel processes as wanted. It passes their
// output on unchanged and adds what no process knows of the others. With a protocol it first waits for a
// right answer of the server, and fills it, as load does.
var foreign = Command{
	Name: "foreign",
	Doc:  "run another load generator in several processes at once, and print what each reports",
	Flags: func(f *flag.FlagSet) func(context.Context, Streams) error {
		var r foreignRun
		r.declare(f, "")
		f.StringVar(&r.generator, "generator", "", "the load generator's command, as a JSON array of its words")
		f.StringVar(&r.input, "input", "", "what each load generator gets on standard input")
		count(f, &r.processes, "processes", 1, 1, load.MostForeign, "number of load generators that run at once")
		count(f, &r.cores, "cores", 1, 1, mostCores, "number of CPUs that one load generator can use fully")
		return r.run
	},
}

// foreignRun holds the flags.
type foreignRun struct {
	serverFlags
	generator, input string
	processes, cores int
}

// Bounds on the CPUs of a machine, and on the size of all outputs in bytes, which the harness reads in one document.
const (
	mostCores         = 1 << 16
	mostForeignOutput = 2 << 20
)

func (r *foreignRun) run(ctx context.Context, s Streams) error {
	var argv []string
	if err := json.Unmarshal([]byte(r.generator), &argv); err != nil || len(argv) == 0 {
		return fmt.Errorf("-generator %q: want a JSON array of words", r.generator)
	}
	h := host.Local()
	if _, err := h.LookPath(argv[0]); err != nil {
		return fmt.Errorf("the load generator: %w (it is needed where the load runs; Debian has ab in apache2-utils, wrk in wrk, h2load in nghttp2-client)", err)
	}
	if err := r.apply(s); err != nil {
		return err
	}
	// What belongs to a load of ours alone.
	r.o.Connections, r.o.Pipeline, r.o.Threads, r.o.Measure = 1, 1, 1, time.Second
	if r.o.Protocol == nil {
		for _, address := range []string{r.o.Address, r.o.StatisticsAddress} {
			if err := answers(ctx, address); err != nil {
				return fmt.Errorf("the server: %w", err)
			}
		}
	}
	var outputs []host.Output
	around, err := load.RunForeign(ctx, r.o, func(ctx context.Context) (err error) {
		outputs, err = r.all(ctx, h, argv)
		return err
	})
	if err != nil {
		return err
	}
	report, err := r.report(outputs)
	if err != nil {
		return err
	}
	report.Protocol, report.Digest, report.Server, report.Versions = around.Protocol, around.Digest, around.Server, around.Versions
	return json.NewEncoder(s.Out).Encode(report)
}

// all runs the processes to their ends; if one fails, it ends the others.
func (r *foreignRun) all(ctx context.Context, h *host.Host, argv []string) ([]host.Output, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	outputs := make([]host.Output, r.processes)
	ended := make(chan struct{}, r.processes)
	started := 0
	for i := range outputs {
		p, err := h.Start(ctx, host.Cmd{Argv: argv, Stdin: []byte(r.input)})
		if err != nil {
			cancel(fmt.Errorf("start load generator %d: %w", i+1, err))
			break
		}
		started++
		go func() {
			var err error
			if outputs[i], err = p.Wait(); err != nil {
				cancel(host.WithReason(fmt.Errorf("load generator %d: %w", i+1, err), outputs[i]))
			}
			ended <- struct{}{}
		}()
	}
	for range started {
		<-ended
	}
	return outputs, context.Cause(ctx)
}

// report computes when the processes ran, by this program's clock. Outputs are whole: numbers in them are added up.
func (r *foreignRun) report(outputs []host.Output) (*load.Foreign, error) {
	out := &load.Foreign{Cores: min(r.processes*r.cores, runtime.NumCPU())}
	var cpu time.Duration
	var began, ended []time.Time
	for i, o := range outputs {
		if most := mostForeignOutput / len(outputs); len(o.Stdout) > most {
			return nil, fmt.Errorf("load generator %d printed more than the %d bytes that are read: let it print only its summary (ab -q)", i+1, most)
		}
		began, ended = append(began, o.Began), append(ended, o.Began.Add(o.Wall))
		cpu += o.User + o.System
		out.Outputs = append(out.Outputs, string(o.Stdout))
	}
	first, last := slices.MinFunc(began, time.Time.Compare), slices.MaxFunc(ended, time.Time.Compare)
	allBegan, oneEnded := slices.MaxFunc(began, time.Time.Compare), slices.MinFunc(ended, time.Time.Compare)
	out.Seconds, out.Together = last.Sub(first).Seconds(), max(oneEnded.Sub(allBegan), 0).Seconds()
	out.CPUSeconds = cpu.Seconds()
	return out, nil
}
