package workloads

import (
	"slices"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// Two servers that are slow for a known cause, so a comparison's explanation can be
// checked. Each answers PING of the RESP protocol.

// knownCause completes a workload whose first parameter is the cause. The others
// are numbers; all become flags of the worker's command, by their names.
func knownCause(w bench.Workload, connections, pipeline, command string, numbers ...string) bench.Workload {
	cause := w.Params[0].Name
	load := loadParams(connections)
	i := slices.IndexFunc(load, func(p bench.Param) bool { return p.Name == "pipeline" })
	load[i].Default = pipeline
	w.Params = append(w.Params, load...)
	w.Metrics, w.Primary, w.Operations, w.Estimate, w.Quick = loadMetrics, loadPrimary, loadRequests, loadEstimate, map[string]string{"measure": quickMeasure}
	// No series, so no run is refused as unsteady: only the cause matters.
	w.Parse, w.Failures = parseLoad, loadFailures
	w.Job = func(p bench.Params) (bench.Job, error) {
		// A name of its own separates the server's counters from the load's.
		argv := []string{"{work}/" + w.Name, command, "--address", "{host}:{port}", "--" + cause, p[cause]}
		for _, n := range numbers {
			least := int64(1)
			if n == "pause" {
				least = 0
			}
			if _, err := p.Int(n, least); err != nil {
				return bench.Job{}, err
			}
			argv = append(argv, "--"+n, p[n])
		}
		outside, err := loadOutside(p, "--protocol", "resp", "--command", "PING")
		if err != nil {
			return bench.Job{}, err
		}
		server := bench.File{Name: w.Name, From: bench.Worker, Exec: true}
		return bench.Job{Inside: host.Cmd{Argv: argv}, Outside: outside, Files: append(slices.Clone(loadFiles), server), Window: loadWindow, Waits: loadWaits}, nil
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
