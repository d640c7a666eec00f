package workloads

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

var (
	attestInside = loadGauge("inside_mean_seconds", "seconds", metric.Lower, "Mean time of the operation in seconds, on the environment's clock. The time includes the wait for the device, but not the network time to the server and back. "+
		"The mean covers the whole run, in which the device's queue builds up twice. In the measured time alone, many callers wait longer.")
	attestFailed = loadGauge("failed_ratio", "ratio", metric.Lower, "Share of the operations that failed inside, over the whole run.")
	attestBytes  = loadGauge("quote_bytes", "bytes", metric.Lower, "Size of a quote in bytes.")
)

// attestation makes and verifies quotes behind a server in the environment, under a load from
// outside. Quotes come from a device that makes few at once (a PSP, a quoting service), so a
// closed loop of many callers times its queue: with c callers and r quotes per second the
// response time is c/r, however long a quote itself takes (J. Little, 1961). The time of a quote
// shows with one caller, or at a rate below r.
//
// Without a TEE the device is simulated, and then every metric says so in its name.
var attestation = bench.Workload{
	Name: "attest",
	Doc: "Attestation as users see it: quotes at a given concurrency or rate, and verification with cached or freshly fetched collateral. " +
		"Without a TEE (provider=simulated) the device is simulated with stated times, and each metric's name begins with simulated.",
	Version: 1,
	Params: append([]bench.Param{
		{Name: "operation", Default: "quote", Values: []string{"quote", "verify-cached", "verify-fetched"}, Doc: "The operation to measure. quote: make a quote. verify-cached: verify with collateral that is fetched once. verify-fetched: fetch the collateral for each verification."},
		{Name: "provider", Default: "simulated", Values: []string{"simulated", "configfs-tsm"}, Doc: "Source of quotes. configfs-tsm: the environment's TEE (TDX or SEV-SNP; Linux 6.7 or newer, as root). simulated: no TEE."},
		{Name: "delay", Default: "39ms", Doc: "Duration of a simulated quote; the default was measured for a TDX quote on Google's cloud (flashbots/attested-tls-benchmarks)."},
		{Name: "parallel", Default: "1", Doc: "Number of simulated quotes made at the same time; a hardware device makes one at a time."},
		{Name: "fetch", Default: "1s", Doc: "Duration of fetching simulated collateral; the default is close to what the same study measured for Intel's service."},
	}, loadParams("1")...),
	Metrics: func(p bench.Params) []*metric.Desc {
		out := append(loadMetrics(p), attestInside, attestFailed, attestBytes)
		for i, d := range out {
			out[i] = asSimulated(p, d)
		}
		return out
	},
	Primary:    func(p bench.Params) *metric.Desc { return asSimulated(p, loadPrimary(p)) },
	Operations: loadRequests,
	Sweep:      map[string][]string{"connections": {"1", "8", "32", "128"}},
	Quick:      map[string]string{"measure": quickMeasure},
	Estimate:   loadEstimate,
	Job: func(p bench.Params) (bench.Job, error) {
		parallel, err := p.Int("parallel", 1)
		if err != nil {
			return bench.Job{}, err
		}
		for _, name := range []string{"delay", "fetch"} {
			if _, err := p.Seconds(name); err != nil {
				return bench.Job{}, err
			}
		}
		argv := []string{"{work}/teescope-work", "attest", "--address", "{host}:{port}", "--provider", p["provider"]}
		if p["provider"] == "simulated" {
			argv = append(argv, "--delay", p["delay"], "--parallel", fmt.Sprint(parallel), "--fetch", p["fetch"])
		}
		request := "quote"
		if p["operation"] != "quote" {
			request = "verify"
		}
		if p["operation"] == "verify-fetched" {
			argv = append(argv, "--fetched")
		}
		outside, err := loadOutside(p, "--protocol", "line", "--command", request)
		return bench.Job{Inside: host.Cmd{Argv: argv}, Outside: outside, Files: loadFiles, Window: loadWindow, Waits: loadWaits}, err
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		report, err := readLoad(o)
		if err != nil {
			return nil, err
		}
		var found reading
		found.load(report, o)
		const none = "no request reached the server"
		if inside, err := readAttest(o); err != nil {
			for _, d := range []*metric.Desc{attestInside, attestFailed, attestBytes} {
				found.lack(d, err.Error())
			}
		} else {
			t := inside.tallyOf(o.Params)
			found.derived(attestInside, t.Seconds/float64(t.Done), none)
			found.derived(attestFailed, float64(t.Failed)/float64(t.Done+t.Failed), none)
			found.value(attestBytes, float64(inside.Bytes), none)
		}
		for i := range found.samples {
			found.samples[i].Desc = asSimulated(o.Params, found.samples[i].Desc)
		}
		return found.samples, errors.Join(found.missing...)
	},
	Series:   loadSeries,
	Failures: loadFailures,
	Check: func(o bench.Outcome) (string, error) {
		inside, err := readAttest(o)
		if err != nil {
			return "", err
		}
		t := inside.tallyOf(o.Params)
		switch {
		case inside.Provider != o.Params["provider"]:
			return "", fmt.Errorf("the quotes came from provider %q, want provider %s", inside.Provider, o.Params["provider"])
		case inside.Simulated != (o.Params["provider"] == "simulated"):
			return "", errors.New("the quotes do not match the requested provider (simulated or real)")
		case t.Done == 0 || inside.Bytes == 0:
			return "", fmt.Errorf("the server completed %d operations (%d failed), and a quote has %d bytes: want at least one operation, and a quote that is not empty", t.Done, t.Failed, inside.Bytes)
		}
		return checkLoad(o, o.Params["operation"], inside.Format)
	},
}

// asSimulated marks a metric of a simulated device in its name, which stays with it wherever the
// result is used.
func asSimulated(p bench.Params, d *metric.Desc) *metric.Desc {
	if p["provider"] != "simulated" || slices.Contains([]*metric.Desc{loadRequests, loadErrors, loadLate, loadCPU}, d) {
		return d // about the load, not about the device
	}
	s := *d
	s.Name, s.Help = bench.SimulatedPrefix+d.Name, "Simulated device, no TEE: "+d.Help
	return &s
}

// attestReport is the server's report at its end.
type attestReport struct {
	Provider  string      `json:"provider"`
	Simulated bool        `json:"simulated"`
	Format    string      `json:"format"`
	Bytes     uint32      `json:"quote_bytes"`
	Delay     float64     `json:"stated_quote_seconds"`
	Parallel  int         `json:"stated_parallel"`
	Fetch     float64     `json:"stated_fetch_seconds"`
	Quotes    attestTally `json:"quotes"`
	Verified  attestTally `json:"verified"`
}

type attestTally struct {
	Done    uint64  `json:"done"`
	Failed  uint64  `json:"failed"`
	Seconds float64 `json:"seconds"`
}

// tallyOf is the tally of the operation that the parameters name.
func (r *attestReport) tallyOf(p bench.Params) attestTally {
	if p["operation"] == "quote" {
		return r.Quotes
	}
	return r.Verified
}

func readAttest(o bench.Outcome) (*attestReport, error) {
	var r attestReport
	if err := readReport("server inside", o.Inside.Stdout, &r); err != nil {
		return nil, err
	}
	for _, t := range []attestTally{r.Quotes, r.Verified} {
		if t.Seconds < 0 || math.IsInf(t.Seconds, 0) {
			return nil, errors.New("report of the server inside: a time is negative or infinite")
		}
	}
	return &r, nil
}
