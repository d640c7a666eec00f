package workloads

import (
	"slices"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// Two servers that are slow for a cause that is known: what a comparison says of
// them can be checked. Each answers PING of the RESP protocol.

// clockServer reads the clock for each request, as Redis does for each turn of its
// event loop, by the vDSO or around it. TEEMon (Middleware 2020, section 6.5) found
// this to be what halved Redis in an enclave runtime.
var clockServer = knownCause(bench.Workload{
	Name:    "clock-server",
	Doc:     "A server that reads the clock for each request, by the vDSO or by system calls: a case of known cause.",
	Version: 1,
	Params: []bench.Param{
		{Name: "clock", Default: "vdso", Values: []string{"vdso", "syscall"}, Subject: true, Doc: "How the server reads the clock."},
		{Name: "reads", Default: "16", Doc: "How often it reads the clock for each request."},
	},
}, "4", "8", "clockserver", "reads")

// lockServer takes turns at a lock for each request, under which it computes.
var lockServer = knownCause(bench.Workload{
	Name:    "lock-server",
	Doc:     "A server whose threads take turns at a lock of their own or at one for all: a case of known cause.",
	Version: 1,
	Params: []bench.Param{
		{Name: "locks", Default: "split", Values: []string{"split", "shared"}, Subject: true, Doc: "Whether each connection has a lock, or all share one."},
		{Name: "turns", Default: "64", Doc: "How often it takes the lock for each request."},
		{Name: "rounds", Default: "500", Doc: "Rounds of computing under the lock, of about a nanosecond each."},
	},
}, "8", "1", "lockserver", "turns", "rounds", "connections")

// knownCause completes a workload whose first parameter is the cause and the others
// are numbers; all go to the worker's command by their names.
func knownCause(w bench.Workload, connections, pipeline, command string, numbers ...string) bench.Workload {
	cause := w.Params[0].Name
	load := loadParams(connections)
	i := slices.IndexFunc(load, func(p bench.Param) bool { return p.Name == "pipeline" })
	load[i].Default = pipeline
	w.Params = append(w.Params, load...)
	w.Metrics, w.Primary, w.Operations, w.Estimate = loadMetrics, loadPrimary, loadRequests, loadEstimate
	// Without a series: what matters is the cause, and no run is refused as unsteady.
	w.Parse, w.Failures = parseLoad, loadFailures
	w.Job = func(p bench.Params) (bench.Job, error) {
		// A name of its own, by which the server's counters are told from the load's.
		argv := []string{"{work}/" + w.Name, command, "--address", "{host}:{port}", "--" + cause, p[cause]}
		for _, n := range numbers {
			if _, err := p.Int(n, 1); err != nil {
				return bench.Job{}, err
			}
			argv = append(argv, "--"+n, p[n])
		}
		outside, err := loadOutside(p, "--protocol", "resp", "--command", "PING")
		if err != nil {
			return bench.Job{}, err
		}
		server := bench.File{Name: w.Name, From: bench.Worker, Exec: true}
		return bench.Job{Inside: host.Cmd{Argv: argv}, Outside: outside, Files: append(slices.Clone(loadFiles), server), Window: loadWindow}, nil
	}
	w.Check = func(o bench.Outcome) (string, error) {
		work := []string{w.Name}
		for _, n := range numbers {
			work = append(work, o.Params[n])
		}
		return checkLoad(o, work...)
	}
	return w
}
