package prices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/workloads/micro"
)

// worker runs the tiny worker and keeps what it said.
type worker struct {
	ctx  context.Context
	host *host.Host
	dir  string
	name string
	nice string
	got  map[string]*readings
	cpu  time.Duration
	most time.Duration // that measuring may take
}

// readings are what the runs of a job have said so far.
type readings struct {
	seconds             []float64 // of an operation, by batch
	operations          uint64
	user, kernel, other uint64
	loop                []float64
	err                 error
}

// newWorker writes the worker's program into a new temporary folder. Its context ends after most.
func newWorker(ctx context.Context, h *host.Host, most time.Duration) (*worker, error) {
	if err := micro.Missing(micro.Static); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	const folder = "teescope-calibrate"
	h.RemoveTemp(ctx, folder, 10*time.Minute) // a measurement takes seconds
	dir, err := h.MkdirTemp(folder)
	if err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	w := &worker{ctx: ctx, host: h, dir: dir, name: path.Join(dir, "micro"), nice: nice(h), got: map[string]*readings{}, most: most}
	if err := h.Install(w.name, micro.Program, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("calibrate: %w", err), w.close())
	}
	return w, nil
}

// nice is the lowest priority, or the usual one on a machine whose CPUs all have
// more to do than they can: nothing would be left for a second of work.
func nice(h *host.Host) string {
	load, _ := h.ReadString("/proc/loadavg")
	cpuinfo, _ := machine.ReadCPUInfo(h)
	minute, _, _ := strings.Cut(load, " ")
	if busy, err := strconv.ParseFloat(minute, 64); err == nil && busy > float64(cpuinfo.Processors()) {
		return "0"
	}
	return "19"
}

// hurried is why there are too few readings when the time is over.
func (w *worker) hurried() error {
	return fmt.Errorf("measuring did not end within %v, because the machine is busy; try again when it is quiet", w.most)
}

func (w *worker) close() error { return w.host.RemoveAll(w.dir) }

// run runs a job once. What has gone wrong once is not tried again.
func (w *worker) run(job string, args []string) {
	r := w.got[job]
	if r == nil {
		r = new(readings)
		w.got[job] = r
	}
	if r.err != nil {
		return
	}
	out, err := w.host.Exec(w.ctx, host.Cmd{Argv: append([]string{w.name, "calm", w.nice}, args...)})
	w.cpu += out.User + out.System
	switch text := strings.TrimPrefix(out.FailureReason(), "micro: "); {
	case w.ctx.Err() != nil && (len(r.seconds) >= leastBatches || r.user+r.kernel > 0): // fewer rounds have to do
	case w.ctx.Err() != nil:
		r.err = w.hurried()
	case err != nil && text != "":
		r.err = errors.New(text)
	case errors.Is(err, fs.ErrPermission):
		r.err = fmt.Errorf("%w; set TMPDIR to a folder from which programs may be run", err)
	case err != nil:
		r.err = err
	default:
		r.err = r.read(string(out.Stdout))
	}
}

// readings returns what a job's runs have said, if that is enough.
func (w *worker) readings(job string) (*readings, error) {
	switch r := w.got[job]; {
	case r == nil:
		return nil, w.hurried()
	case r.err != nil:
		return nil, r.err
	case len(r.seconds) < leastBatches && r.user+r.kernel+r.other == 0:
		return nil, fmt.Errorf("only %d batches were measured, want %d", len(r.seconds), leastBatches)
	default:
		return r, nil
	}
}

// read adds what one run has printed; see the worker's modes for the lines. A run
// that did wrong work is none.
func (r *readings) read(out string) error {
	var next readings
	done := false
	for line := range strings.Lines(out) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if done {
			return fmt.Errorf("the worker said %.60q after its end", line)
		}
		var n [3]uint64
		var err error
		switch word {
		case "end":
			err = numbers(rest, n[:3])
			next.add(n[1], float64(n[2]))
		case "wake":
			err = numbers(rest, n[:3])
			next.add(n[0], float64(n[1])-float64(n[2]))
		case "samples":
			err = numbers(rest, n[:3])
			next.user, next.kernel, next.other = n[0], n[1], n[2]
		case "loop":
			err = numbers(rest, n[:2])
			next.loop = append(next.loop, float64(n[1])/1e9/float64(max(1, n[0])))
		case "done":
			err = numbers(rest, n[:2])
			done = true
			next.operations = n[0]
			if err == nil && n[1] > 0 {
				err = fmt.Errorf("%d of %d operations went wrong", n[1], n[0])
			}
		}
		if err != nil {
			return err
		}
	}
	if !done {
		return errors.New("the worker ended early")
	}
	r.seconds, r.loop = append(r.seconds, next.seconds...), append(r.loop, next.loop...)
	r.operations += next.operations
	r.user, r.kernel, r.other = r.user+next.user, r.kernel+next.kernel, r.other+next.other
	return nil
}

// add is a batch of n operations; none take no time.
func (r *readings) add(n uint64, nanoseconds float64) {
	if n > 0 {
		r.seconds = append(r.seconds, nanoseconds/1e9/float64(n))
	}
}

// mostCounted is more than a worker can count or time: 19 hours in nanoseconds.
const mostCounted = 1 << 46

// numbers reads as many numbers as there is room for.
func numbers(s string, n []uint64) error {
	f := strings.Fields(s)
	if len(f) != len(n) {
		return fmt.Errorf("the worker said %.60q: want %d numbers", s, len(n))
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(f[i], 10, 64); err != nil {
			return fmt.Errorf("the worker said %.60q: %w", s, err)
		}
		if n[i] > mostCounted {
			return fmt.Errorf("the worker said %.60q: no number of it is above 2^46", s)
		}
	}
	return nil
}
