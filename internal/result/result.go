// Package result is the document of a benchmark: what was run, where, in which
// order, what came out, and what may be concluded from it. It is data with its
// JSON Schema, a stream that survives a crash, and an archive of documents; it
// computes nothing.
//
// Values are in base units (seconds, bytes, ratios). An unavailable value is null
// with a reason, never 0.
package result

import (
	"time"

	"github.com/teescope/teescope/internal/metric"
)

// SchemaVersion is the version of the document that this package writes
// (semantic versioning). A document of a newer major version is refused.
const SchemaVersion = "1.8.0"

// Experiment is one document.
type Experiment struct {
	SchemaVersion string        `json:"schema_version"`
	ID            string        `json:"experiment_id"` // UUID
	Name          string        `json:"name"`
	StartedAt     time.Time     `json:"started_at"`
	EndedAt       *time.Time    `json:"ended_at"` // null while it runs
	Tool          Tool          `json:"tool"`
	Commit        *Commit       `json:"commit"` // of the program under test; null if the user named none
	Design        Design        `json:"design"`
	Workload      Workload      `json:"workload"`
	Cases         []Case        `json:"cases"`
	Environments  []Environment `json:"environments"`
	Runs          []Run         `json:"runs"`
	Comparisons   []Comparison  `json:"comparisons"`
	Attribution   []Attribution `json:"attribution"`
	Guards        []Guard       `json:"guards"`
	References    []Reference   `json:"references"`
	// UnitCosts are what counters are priced with; null in results of version 1.0 and
	// where nothing was counted.
	UnitCosts *UnitCosts `json:"unit_costs,omitempty"`
	// Origin is that of an experiment file; null for a workload that was run as it is.
	Origin *Origin `json:"origin,omitempty"`
	// Summary: the document is a copy without raw files, histograms and the conclusions about secondary metrics. System calls that are
	// below 1 % of their process's calls in every run are added up, and counts have four digits.
	Summary bool `json:"summary,omitempty"`
	// Digest is that of the document's values without the members digest and attestation: "sha256:…". Who reads the document is
	// told if it has changed since it was written.
	Digest string `json:"digest,omitempty"`
	// Attestation binds all of the above to a TEE or to a key; null where nobody did that.
	Attestation *Attestation `json:"attestation,omitempty"`
}

// Origin is the source of an experiment.
type Origin struct {
	// Source cites who published its parameters.
	Source string `json:"source,omitempty"`
	// Corrects says how the published method misleads, and what is done differently
	// here.
	Corrects string `json:"corrects,omitempty"`
}

// UnitCosts is what single events cost on the harness's machine, whose kernel
// counted them, whatever arm made them.
type UnitCosts struct {
	MeasuredAt time.Time  `json:"measured_at"`
	Units      []UnitCost `json:"units"`
	// Traced are the tracepoints on which other programs ran during the calibration: their
	// time is part of the costs.
	Traced []string `json:"traced,omitempty"`
	// Reason says why there are none.
	Reason string `json:"missing_reason,omitempty"`
}

// CallCost is what a system call that does nothing costs in an environment, in seconds of
// CPU time by the account of the harness's machine: the median of a few jobs, the least and the most.
type CallCost struct {
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	// Seen is the share of the calls that reached the machine's kernel: 1 for ordinary
	// programs, 0 where a sandbox's own kernel or a guest's answers them.
	Seen float64 `json:"seen_ratio"`
	// Form is how the program that made the calls is linked, static or dynamic: as the
	// workload's where an arm is a library OS, else static. Older documents lack it.
	Form string `json:"form,omitempty"`
}

// UnitCost is the cost of an event in seconds: the median, and what 95 % of the
// measurements lie between.
type UnitCost struct {
	Event   string  `json:"event"` // an event of `teescope calibrate`
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// Tool is the program that made the document.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Go      string `json:"go"`
	// Command is the command line without secrets, to repeat the experiment.
	Command []string `json:"command"`
}

// Commit is a state of the program under test in its repository.
type Commit struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// Kind of design, from the strongest.
type Kind string

// The designs.
const (
	Interleaved Kind = "paired_interleaved" // arms alternate in random order within a pair
	Blocked     Kind = "blocked"            // arms alternate in blocks (a reboot or a mode switch between them)
	Unpaired    Kind = "unpaired"           // separate experiments put side by side
	Single      Kind = "single"             // one arm: nothing to compare
)

// Grade says how strong a comparison is. Only A and B may be called overhead.
type Grade string

// The grades.
const (
	GradeA Grade = "A" // same host, interleaved
	GradeB Grade = "B" // same host, blocked or separate
	GradeC Grade = "C" // same kind of host
	GradeD Grade = "D" // another platform
)

// Design is how the runs were arranged.
type Design struct {
	Kind         Kind   `json:"kind"`
	Grade        Grade  `json:"grade"`
	Seed         uint64 `json:"seed"`
	PairsPlanned int    `json:"pairs_planned"`
	// SparePairs are the most pairs that may follow the planned ones, to replace those that gave no valid ratio. Only
	// those that were run are in Order.
	SparePairs int     `json:"spare_pairs,omitempty"`
	Order      []Slot  `json:"order"`
	Alpha      float64 `json:"alpha"`
	// Margin is the smallest cost that matters, as a ratio (0.03).
	Margin float64 `json:"margin"`
	// Primary is the metric that the verdict is about.
	Primary string `json:"primary_metric"`
	// Subject is the one thing in which the arms are declared to differ:
	// "environment", or the name of a subject parameter ("binary").
	Subject string `json:"subject"`
	// Ceilings are what devices and links can give at most.
	Ceilings []Ceiling `json:"ceilings"`
	// Calibration: both arms are the same on purpose (A/A).
	Calibration bool `json:"calibration,omitempty"`
	// Client is where the load came from: SameHost, ThisHost, the other machine as named by the
	// user, or where environments run it themselves, in words. "" for jobs without a load from outside.
	Client string `json:"client,omitempty"`
	// ClientClock is that machine's clock; absent if it is this machine's, or unknown.
	ClientClock *ClockOffset `json:"client_clock,omitempty"`
	// NoCounters: the experiment wants the monitor's sources off.
	NoCounters bool `json:"no_counters,omitempty"`
	// Then are the passes that follow, each with its own document.
	Then []Pass `json:"then,omitempty"`
	// LeftOut are environments of the experiment that could not run on the machine.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// LeftOut is an environment that was left out, and what it lacks.
type LeftOut struct {
	Env string `json:"env_id"`
	Why string `json:"why"`
}

// Pass is an experiment that follows from another: its cases in its arms, under loads
// that are shares of what the slower arm can do.
type Pass struct {
	Name  string    `json:"name"`
	Loads []float64 `json:"loads"`
	// Params override those of the experiment before; so do Pairs and Margin, if they
	// are not 0. Primary is the metric of the verdict; "" is the workload's own.
	Params  map[string]string `json:"params,omitempty"`
	Pairs   int               `json:"pairs,omitempty"`
	Primary string            `json:"primary_metric,omitempty"`
	Margin  float64           `json:"margin,omitempty"`
}

// SameHost in Design.Client: the load came from the machine that runs the servers.
const SameHost = "same host"

// ThisHost in Design.Client: the load came from the machine that runs the experiment, and
// all servers are on others.
const ThisHost = "this host"

// Ceiling is the best value of a metric that is physically possible: the largest
// where higher is better, the smallest where lower is.
type Ceiling struct {
	Metric string  `json:"metric" yaml:"metric"`
	Env    string  `json:"env_id" yaml:"env"` // "" is every arm
	Value  float64 `json:"value" yaml:"value"`
	Source string  `json:"source" yaml:"source"` // "NIC eth0, 25 Gbit/s"
}

// Slot is one place of the schedule.
type Slot struct {
	Pair int    `json:"pair"` // from 0
	Case string `json:"case"`
	Env  string `json:"env_id"`
}

// Workload is what ran.
type Workload struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Doc     string `json:"doc"`
	// Metrics declares what runs may hold.
	Metrics []MetricDesc `json:"metrics"`
	// Operations names the metric that counts the operations of a run, which
	// counters are divided by; "" when there is none.
	Operations string `json:"operations_metric"`
	// OutputPerArm: equal work gives equal output digests within an arm only,
	// because the arms may have tools of different versions.
	OutputPerArm bool `json:"output_per_arm,omitempty"`
}

// MetricDesc declares a metric of a workload.
type MetricDesc struct {
	Name string `json:"name"`
	Help string `json:"help"`
	Unit string `json:"unit"`
	// Better is "lower", "higher" or "none".
	Better string `json:"better"`
	// Least and Most bound what a value can be at all. Without them, it is from 0 to 1 for a share (a name that ends in
	// _ratio), and from 0 to 2^63 for anything else.
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
	// Unlimited: the name ends in _ratio, and the metric is a share of nothing, so it can be above 1. Documents before
	// version 1.5 have a Most of 2^62 instead.
	Unlimited bool `json:"unlimited,omitempty"`
}

// Case is one job: the workload with one set of parameters. Identity is the hash of
// everything that makes the job: workload, version, parameters that are not subject,
// data. Compared jobs must have the same identity.
type Case struct {
	ID         string            `json:"case_id"` // "threads=4", or "default"
	Params     map[string]string `json:"params"`
	Identity   string            `json:"identity"` // sha256:…
	DataDigest string            `json:"data_digest,omitempty"`
}

// Describe turns a metric's declaration into the document's form.
func Describe(d *metric.Desc) MetricDesc {
	better := "none"
	switch d.Better {
	case metric.Lower:
		better = "lower"
	case metric.Higher:
		better = "higher"
	}
	out := MetricDesc{Name: d.Name, Help: d.Help, Unit: d.Unit, Better: better, Least: d.Least, Most: d.Most}
	if d.Most == metric.Unlimited { // which JSON does not have
		out.Most, out.Unlimited = 0, true
	}
	return out
}
