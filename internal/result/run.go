package result

import (
	"time"
)

// Status of a run.
type Status string

// The states. An excluded run stays in the document.
const (
	OK       Status = "ok"
	Failed   Status = "failed"
	Excluded Status = "excluded"
)

// Run is one execution of one case in one environment.
type Run struct {
	ID        string    `json:"run_id"` // "p03-threads=4-native"
	Env       string    `json:"env_id"`
	Case      string    `json:"case"`
	Pair      int       `json:"pair"`     // from 0
	Position  int       `json:"position"` // place of the arm within its pair, from 0
	StartedAt time.Time `json:"started_at"`
	// Seconds is the wall time of the whole run on the harness's clock.
	Seconds float64 `json:"duration_seconds"`
	Status  Status  `json:"status"`
	// Reason explains a status other than OK.
	Reason  string   `json:"reason,omitempty"`
	Warmup  *Warmup  `json:"warmup"` // null: the job has no windows to look at
	Metrics []Metric `json:"metrics"`
	// OutputDigest is what the workload's own check made of its answer; equal
	// digests are equal work.
	OutputDigest string    `json:"output_digest"`
	Counters     []Counter `json:"counters"`
	// HostCounters are events of the whole machine, which include everything else that ran
	// on it, so they explain nothing about the workload. Without labels they are totals over
	// all processes. With the label helper they are those of kernel threads and virtual
	// machine monitors whose names match its pattern; a helper that is not listed had none.
	HostCounters []Counter      `json:"host_counters,omitempty"`
	Interference Interference   `json:"interference"`
	Clock        string         `json:"clock_source"`
	Errors       map[string]int `json:"errors"`
	Raw          []RawFile      `json:"raw_refs"`
	// Missing says why a metric or counter is absent, by name.
	Missing map[string]string `json:"missing,omitempty"`
}

// Warmup is how a run's warm-up was cut off.
type Warmup struct {
	Method string `json:"method"` // "slope-deviation+mser5", "fio"
	// CutSeconds were dropped from the start of the run.
	CutSeconds float64 `json:"cut_seconds"`
	// Steady: a steady state was reached. If not, the run gives no ratio.
	Steady bool `json:"steady"`
	// Windows are the values of the primary metric, Width seconds each.
	Windows []float64 `json:"windows"`
	Width   float64   `json:"window_seconds"`
}

// Provenance is the origin of a number.
type Provenance string

// The sources of numbers. Only measured and derived ones are compared.
const (
	Measured   Provenance = "measured"
	Derived    Provenance = "derived"
	VendorSpec Provenance = "vendor_spec"
	Literature Provenance = "literature"
)

// Metric is one value of a run. Value is null when it is unavailable; Reason
// says why.
type Metric struct {
	Name      string     `json:"name"`
	Value     *float64   `json:"value"`
	Reason    string     `json:"missing_reason,omitempty"`
	Source    Provenance `json:"source"`
	Histogram *Histogram `json:"histogram,omitempty"`
	// N is the number of observations behind the value, 0 where that has no meaning.
	N int64 `json:"n,omitempty"`
}

// Histogram is a classic histogram: Counts[i] observations at most Bounds[i]
// and above Bounds[i-1]; the last count is of those above all bounds.
type Histogram struct {
	Bounds []float64 `json:"bounds"`
	Counts []uint64  `json:"counts"`
	Sum    float64   `json:"sum"`
}

// Trust in a counter: what of the workload it can see.
type Trust string

// The levels. In a production enclave a host's counter may see nothing.
const (
	Full    Trust = "full"
	Partial Trust = "partial"
	None    Trust = "none"
)

// Counter is what the monitor's sources counted during a run.
type Counter struct {
	Name   string            `json:"name"` // a metric of docs/metrics.md
	Labels map[string]string `json:"labels"`
	Value  *float64          `json:"value"`
	// PerOperation is Value divided by the run's operations; null where those
	// are not known.
	PerOperation *float64 `json:"per_operation"`
	Scope        string   `json:"scope"` // "process", or "machine" where others are counted too
	Trust        Trust    `json:"trust"`
	Note         string   `json:"note,omitempty"`
}

// Interference is what disturbed a run, measured apart from its metrics. A
// null field could not be read; Missing says why.
type Interference struct {
	StealRatio     *float64 `json:"steal_ratio"`
	ForeignCPU     *float64 `json:"foreign_cpu_ratio"` // CPU time of others, as a share of all CPUs
	ThrottleEvents *float64 `json:"throttle_events"`
	SwapBytes      *float64 `json:"swap_bytes"`
	LoadBefore     *float64 `json:"load_before"`
	MemoryPressure *float64 `json:"memory_pressure_ratio"`
	Frequency      *Spread  `json:"cpu_hertz"` // null: blind
	// HarnessCPU and MonitorCPU are CPU seconds that teescope itself used outside the
	// workload during the run; Monitor is the counting, if known.
	HarnessCPU *float64          `json:"harness_cpu_seconds"`
	MonitorCPU *float64          `json:"monitor_cpu_seconds"`
	Missing    map[string]string `json:"missing,omitempty"`
}

// Spread describes readings of one quantity.
type Spread struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
	// CV is the standard deviation divided by the mean.
	CV float64 `json:"cv"`
	N  int     `json:"n"`
}

// RawFile is a file next to the document, with a relative path.
type RawFile struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // sha256:…
}
