package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/bench/launchers"
	"github.com/teescope/teescope/internal/host"
	loads "github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/result"
)

// listening is a script that runs its arguments once the server accepts connections: a load with a short patience
// must meet the server's fault, not a server that is about to start.
const listening = `until exec 3<>/dev/tcp/{host}/{port}; do sleep 0.01; done 2>/dev/null; exec 3>&-; exec "$@"`

// faulty is a workload whose server has a fault: what the worker's faultserver is
// told, what the load is told besides, what comes before the load's command, and the
// name in the certificate that lies in the work folder.
func faulty(t *testing.T, server, load, wrap, name string) *bench.Workload {
	t.Helper()
	certificate, key, err := loads.Certificate("", name)
	if err != nil {
		t.Fatal(err)
	}
	return &bench.Workload{
		Name: "faulty", Doc: "A server with a fault.", Version: 1, Params: loadParams("4"),
		Metrics: loadMetrics, Primary: loadPrimary, Operations: loadRequests, Estimate: loadEstimate, Parse: parseLoad, Failures: loadFailures,
		Check: func(o bench.Outcome) (string, error) { return checkLoad(o) },
		Job: func(p bench.Params) (bench.Job, error) {
			outside, err := loadOutside(p, append([]string{"--protocol", "raw", "--value-size", "64", "--start", "0", "--wait", "10m", "--timeout", "10m"}, strings.Fields(load)...)...)
			if err != nil {
				return bench.Job{}, err
			}
			if wrap == listening {
				outside.Argv = append([]string{"bash", "-c", listening, "bash"}, outside.Argv...)
			} else {
				outside.Argv = append(strings.Fields(wrap), outside.Argv...)
			}
			return bench.Job{
				Inside:  host.Cmd{Argv: append([]string{"{work}/faulty", "faultserver", "--address", "{host}:{port}"}, strings.Fields(server)...)},
				Outside: outside,
				Files: append([]bench.File{{Name: "faulty", From: bench.Worker, Exec: true},
					{Name: "server.pem", Data: certificate}, {Name: "server.key", Data: key}}, loadFiles...),
			}, nil
		},
	}
}

// TestFaults: a broken server gives a failed run with the reason in words, or errors counted by
// kind, and never a number; the engine ends by itself.
func TestFaults(t *testing.T) {
	buildWorker(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the tests below continue after this function
	const (
		protected = "--certificate {work}/server.pem --key {work}/server.key"
		trusting  = "--tls --ca {work}/server.pem"
	)
	for _, c := range []struct {
		name, server, load, wrap string
		certificate              string // its name, or "" for the server's address
		connections, measure     string
		reason                   []string // of the failed run; none if the run is good
		kind                     string   // of the counted errors
	}{
		{name: "nothing is wrong"},
		{name: "never ready", server: "--fault deaf", load: "--wait 300ms", reason: []string{"did not become ready within 300ms", "refused"}},
		{name: "never answers", server: "--fault mute", wrap: listening, load: "--wait 300ms --timeout 200ms", reason: []string{"did not become ready", "timeout"}},
		{name: "dies in the middle", server: "--fault dies --after 500", measure: "1h", reason: []string{"ended before the load", "out of memory"}},
		{name: "answers wrongly", server: "--fault wrong", wrap: listening, load: "--wait 300ms", reason: []string{"answer is wrong"}},
		{name: "answers wrongly once it was ready", server: "--fault wrong --after 1", kind: "wrong answer"},
		{name: "resets connections once it was ready", server: "--fault reset --after 1", kind: "reset"},
		{name: "stops answering once it was ready", server: "--fault mute --after 1", load: "--timeout 100ms", kind: "timeout"},
		{name: "the port is in use", server: "--address " + taken.Addr().String(), reason: []string{"address already in use"}},
		{name: "fewer descriptors than connections", connections: "500", wrap: "prlimit --nofile=64:64 setpriv --bounding-set=-sys_resource",
			reason: []string{"500 connections need", "the limit is 64 and cannot be raised", "ulimit -n"}},
		{name: "a certificate that is trusted", server: protected, load: trusting},
		{name: "a certificate of an unknown authority", server: protected, load: "--tls", reason: []string{"certificate signed by unknown authority"}},
		{name: "a certificate of another name", server: protected, load: trusting, certificate: "another.example", reason: []string{"certificate", "127.0.0.1"}},
		{name: "TLS where it is not expected", server: protected, wrap: listening, load: "--wait 300ms --timeout 200ms", reason: []string{"did not become ready"}},
		{name: "no TLS where it is expected", wrap: listening, load: trusting + " --wait 300ms --timeout 200ms", reason: []string{"TLS with 127.0.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tools := []string{"prlimit", "setpriv"}
			switch c.wrap {
			case "":
				tools = nil
			case listening:
				tools = []string{"bash"}
			}
			for _, tool := range tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not here (packages util-linux, bash)", tool)
				}
			}
			t.Parallel()
			r := runOnce(t, faulty(t, c.server, c.load, c.wrap, cmp.Or(c.certificate, "127.0.0.1")), c.connections, c.measure)
			said := fmt.Sprintf("status %s, reason %q, errors %v", r.Status, r.Reason, r.Errors)
			m := r.Metric(loadRate.Name)
			switch {
			case c.reason == nil && c.kind == "" && (r.Status != result.OK || m == nil || m.Value == nil || *m.Value <= 0 || len(r.Errors) > 0):
				t.Error(said)
			case c.reason != nil && (r.Status != result.Failed || m != nil && m.Value != nil):
				t.Error(said)
			case c.kind != "" && r.Errors[c.kind] == 0:
				t.Errorf("%s: want some of kind %q", said, c.kind)
			}
			for _, want := range c.reason {
				if !strings.Contains(r.Reason, want) {
					t.Errorf("%s: want %q in the reason", said, want)
				}
			}
		})
	}
}

// buildWorker puts the worker where the engine looks for it.
func buildWorker(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "teescope-work"), "../../../cmd/teescope-work")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the worker: %v\n%s", err, out)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TEESCOPE_PATIENCE", "10")
}

// runOnce makes one run of a workload with the engine, in which the machine did not stand still for the whole measured
// time.
func runOnce(t *testing.T, w *bench.Workload, connections, measure string) (r *result.Run) {
	t.Helper()
	params := map[string]string{"warm": "100ms", "measure": cmp.Or(measure, "300ms")}
	if connections != "" {
		params["connections"] = connections
	}
	plans, err := bench.NewPlans(bench.Choice{Experiment: &bench.Experiment{Name: "faulty", Workload: w.Name}, Params: params, Envs: []string{"native"}, Pairs: 1, Seed: 1},
		bench.Lists{Workloads: []*bench.Workload{w}, Launchers: launchers.All})
	if err != nil {
		t.Fatal(err)
	}
	await.Event(t, "something happens in the measured time", func() error {
		e, err := bench.Run(t.Context(), plans[0], bench.Options{Host: host.Local(), NoCounters: "not in this test", Timeout: time.Hour}, filepath.Join(t.TempDir(), "r.json"))
		if err != nil || len(e.Runs) != 1 {
			t.Fatalf("%+v: %v", e, err)
		}
		if r = &e.Runs[0]; len(r.Errors) == 0 && strings.Contains(r.Reason, "no request was answered") {
			return errors.New(r.Reason)
		}
		return nil
	})
	return r
}
