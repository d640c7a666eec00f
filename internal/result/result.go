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
	"github.com/teescope/teescope/internal/stats"
	"github.com/teescope/teescope/internal/tee"
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

// Role of an environment in the experiment.
type Role string

// The roles. The first environment is the baseline; of three or more, those
// between the first and the last are intermediate rungs of a ladder.
const (
	Baseline     Role = "baseline"
	Treatment    Role = "treatment"
	Intermediate Role = "intermediate"
)

// Environment is one arm: where the job ran, as seen from inside and outside.
type Environment struct {
	ID       string `json:"env_id"` // the label of the arm
	Role     Role   `json:"role"`
	Launcher string `json:"launcher"`
	// StandsFor is what the experiment declares the arm to stand in for ("tdx"); "" if it is asked for as what it is.
	StandsFor string            `json:"stands_for,omitempty"`
	Params    map[string]string `json:"params"`  // of the launcher, as read back
	Subject   map[string]string `json:"subject"` // subject parameters of the workload in this arm
	// Digests are hashes of the files that ran (worker, binaries), by name.
	Digests  map[string]string `json:"digests"`
	TEE      TEE               `json:"tee"`
	Hardware Hardware          `json:"hardware"`
	Software Software          `json:"software"`
	// Network is the way from the load generator to the servers of the environment, in
	// words; absent without such a load.
	Network string `json:"network,omitempty"`
	// Path is what a run found of the network between the two machines, by end: MTU, driver and
	// offloads of the interfaces. Absent for jobs that do not report it.
	Path map[string]string `json:"network_path,omitempty"`
	// Clock is the clock of another machine, read when the environment was opened; absent on the
	// harness's machine, or if it is unknown.
	Clock *ClockOffset `json:"clock_offset,omitempty"`
	// Boot is the boot ID of another machine: its runs are all of one boot.
	Boot  string `json:"boot_id,omitempty"`
	Cloud *Cloud `json:"cloud"` // null: not a known cloud, or could not tell (see Missing)
	// Fingerprint is the hash of what must be equal for two results to be of the
	// same environment; Class, of what must be equal for the same kind of host.
	Fingerprint string `json:"fingerprint"`
	Class       string `json:"fingerprint_class"`
	// Missing says why a field is null or empty, by its JSON path in the
	// environment ("hardware.microcode").
	Missing map[string]string `json:"missing"`
	// Opened is how long it took to have the environment ready for its first
	// run (boot of a VM, build of an enclave), in seconds.
	OpenSeconds *float64 `json:"open_seconds"`
	// NullSeconds is the time of an empty job here: the harness's own cost, which is
	// not subtracted from anything. Null if the environment only runs its own programs.
	NullSeconds *Spread `json:"null_run_seconds"`
	// Call is what a system call that does nothing costs here; absent where that is not known,
	// for the reason in Missing.
	Call *CallCost `json:"system_call,omitempty"`
	// FirstSeconds is the duration of the first run, which is cold and not counted;
	// null if it failed.
	FirstSeconds *float64 `json:"first_run_seconds"`
	// Changed are fields that were different at the end of the experiment.
	Changed map[string]string `json:"changed_during_experiment,omitempty"`
	// Joined says where a joined document has the environment from; nil in a result of its own.
	Joined *Joined `json:"-"`
}

// ClockOffset is by how much the clock of another machine is ahead of the harness's, in seconds. The truth is at
// most Uncertainty away, because the clock was read at an unknown moment of a question and its answer.
type ClockOffset struct {
	Seconds     float64 `json:"seconds"`
	Uncertainty float64 `json:"uncertainty_seconds"`
}

// Joined is an environment of one of the results that were joined.
type Joined struct {
	ID, Name, Env string       // the result's ID, a name that no other of them has, and the environment's ID there
	Kind          Kind         // how the result's arms alternated
	Own           []Comparison // what the result itself concluded about the environment
}

// TEE describes the protection of an arm.
type TEE struct {
	// Type is "none" or a kind of package tee ("sgx", "tdx", "sev", …); "unknown" if it
	// could not be determined.
	Type   string `json:"type"`
	Active bool   `json:"active"`
	Debug  bool   `json:"debug"`
	// Declared: the launcher says so; nothing inside the environment showed it.
	Declared bool `json:"declared"`
	// Facts are what was detected from inside.
	Facts    []tee.Facts    `json:"facts"`
	Evidence []tee.Evidence `json:"evidence"`
	// Settings are what the TEE was configured with (EPC size, enclave size,
	// SWIOTLB size, policy), as read back.
	Settings map[string]string `json:"settings"`
}

// Hardware is the machine under an arm.
type Hardware struct {
	CPUModel       string            `json:"cpu_model"`
	CPUVendor      string            `json:"cpu_vendor"`
	CPUFamily      string            `json:"cpu_family"` // "family-model-stepping"
	Microcode      string            `json:"microcode"`
	CPUs           int               `json:"cpus"` // online logical CPUs
	Sockets        int               `json:"sockets"`
	ThreadsPerCore int               `json:"threads_per_core"`
	SMT            string            `json:"smt"`
	NUMANodes      int               `json:"numa_nodes"`
	Affinity       string            `json:"affinity"` // CPUs that the workload may use
	Governor       string            `json:"governor"`
	Turbo          string            `json:"turbo"`
	CacheBytes     map[string]int64  `json:"cache_bytes"` // "L1d", "L2", "L3"
	Mitigations    map[string]string `json:"mitigations"`
	MemoryBytes    int64             `json:"memory_bytes"`
	SwapBytes      int64             `json:"swap_bytes"`
	THP            string            `json:"transparent_hugepage"`
	Disks          []Disk            `json:"disks"`
	NICs           []NIC             `json:"nics"`
	GPUs           []GPU             `json:"gpus"`
	Serial         string            `json:"host_id"` // hash of the machine's id: same host or not
}

// Disk is a block device.
type Disk struct {
	Name       string `json:"name"`
	Model      string `json:"model"`
	Bytes      int64  `json:"bytes"`
	Rotational bool   `json:"rotational"`
	Scheduler  string `json:"scheduler"`
	WriteCache string `json:"write_cache"`
}

// NIC is a network interface. BitsPerSecond is null if the driver does not say.
type NIC struct {
	Name          string   `json:"name"`
	Driver        string   `json:"driver"`
	MTU           int      `json:"mtu"`
	BitsPerSecond *float64 `json:"bits_per_second"`
}

// GPU is a graphics or compute card.
type GPU struct {
	Model  string `json:"model"`
	Driver string `json:"driver"`
	CCMode string `json:"confidential_compute"` // mode, as nvidia-smi says it
}

// ServerVersion is the entry of Versions that runs fill in, where several servers speak the protocol of a workload.
const ServerVersion = "server"

// Software is what runs under the workload.
type Software struct {
	Kernel      string `json:"kernel"`
	Cmdline     string `json:"cmdline"`
	OS          string `json:"os"`
	Libc        string `json:"libc"`
	Hypervisor  string `json:"hypervisor"` // "none", a name from CPUID, or "unknown"
	ClockSource string `json:"clock_source"`
	// Limits are those of the cgroup or container: cpu, memory, pids.
	Limits map[string]string `json:"limits"`
	// Versions are of tools and runtimes in use ("fio": "3.33", "runsc": "…"); of ServerVersion what a server of a workload says that it is.
	Versions map[string]string `json:"versions"`
	// Worker is how the program under test was built: compiler, flags, date.
	Worker map[string]string `json:"worker"`
	// CachePolicy is how the page cache is treated ("dropped before each run",
	// "direct", "as found").
	CachePolicy string `json:"page_cache_policy"`
	// Encryption layers in the way of data: "network", "storage".
	Encryption map[string]string `json:"encryption"`
}

// Cloud is where a rented machine is hosted.
type Cloud struct {
	Provider     string `json:"provider"`
	Region       string `json:"region"`
	Zone         string `json:"zone"`
	InstanceType string `json:"instance_type"`
}

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

// Bound says that a ratio is only a limit, because an arm stood at a ceiling.
type Bound string

// The bounds.
const (
	Exact   Bound = "none"
	AtMost  Bound = "le"
	AtLeast Bound = "ge"
)

// Comparison is one treatment against one baseline for one metric of one case.
type Comparison struct {
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
	Case      string `json:"case"`
	Metric    string `json:"metric"`
	Primary   bool   `json:"primary"`
	// Headline is the verdict in one sentence of at most 25 words, made from the fields below.
	Headline string `json:"headline"`
	// Details are the sentences below the headline: medians, and in what else the arms differ.
	Details []string `json:"details,omitempty"`
	// StandIn says why the ratio is not what an environment of this name costs: an arm is emulated or stands in
	// for another, or the measured device is simulated. "" for a real measurement.
	StandIn string `json:"stand_in,omitempty"`
	// Open says what keeps an inconclusive comparison from a verdict: how many pairs would probably decide it if the
	// spread does, or else what blocks it. "" if nothing is open.
	Open string `json:"open,omitempty"`
	// Changed names what differs between the arms, as JSON paths of Environment.
	Changed   []Difference `json:"changed_dimensions"`
	Estimator string       `json:"estimator"`
	// Ratio is treatment divided by baseline, of the values as measured; its
	// interval has Confidence. Null when there is no ratio.
	Ratio      *float64 `json:"ratio"`
	Low        *float64 `json:"ci_low"`
	High       *float64 `json:"ci_high"`
	Confidence float64  `json:"confidence"`
	// Cost is the ratio, inverted if needed so that above 1 is worse: 1.25 takes 25 %
	// more time, or does the work of 1 in 1.25 times the time.
	Cost     *float64 `json:"cost_ratio"`
	CostLow  *float64 `json:"cost_ci_low"`
	CostHigh *float64 `json:"cost_ci_high"`
	// BootLow and BootHigh are the pair bootstrap's interval of Ratio, the second opinion.
	BootLow  *float64 `json:"boot_ci_low"`
	BootHigh *float64 `json:"boot_ci_high"`
	Pairs    int      `json:"n_pairs"`
	// BaseMedian and TreatMedian are medians of the values that were compared.
	BaseMedian  *float64 `json:"baseline_median"`
	TreatMedian *float64 `json:"treatment_median"`
	SDLog       *float64 `json:"sd_log"`
	// MDE is the smallest ratio minus 1 that this many pairs would find four times in five.
	MDE *float64 `json:"mde"`
	// PairsNeeded would probably decide a comparison that its spread leaves open; 0 where nothing is open, or
	// something else blocks it.
	PairsNeeded int      `json:"pairs_needed"`
	Margin      float64  `json:"margin"`
	NoiseFloor  *float64 `json:"noise_floor"`
	Bound       Bound    `json:"bound"`
	Grade       Grade    `json:"grade"`
	// Verdict is empty for a metric that is not the primary one.
	Verdict stats.Verdict `json:"verdict"`
	// Material: a cost or gain whose whole interval lies beyond the margin.
	Material bool     `json:"material"`
	Reasons  []string `json:"reasons"`
	// Cause says in one sentence what causes most of a cost and what fixes it, as far
	// as counters and their prices show; "" if they do not.
	Cause string `json:"cause,omitempty"`
	// Rung is the place on a ladder, from 1; 0 when it is not one.
	Rung int `json:"ladder_step"`
}

// Difference is one field in which two environments differ.
type Difference struct {
	Field     string `json:"field"`
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
}

// Dearer is the counter of rows about the system calls of both arms, which cost more in one of them.
const Dearer = `tee_syscalls_total{each="dearer"}`

// Attribution is what a cause explains of a cost.
type Attribution struct {
	Baseline  string `json:"baseline"`
	Treatment string `json:"treatment"`
	Case      string `json:"case"`
	// Counter is the counter as PromQL writes it, for people; Metric and Labels say the
	// same to programs, and are missing in documents before version 1.2.
	Counter string            `json:"counter"`
	Metric  string            `json:"metric,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Base is the baseline's count per operation, Delta how much more the treatment
	// has. For the counter Dearer, Delta is how many system calls both arms make per
	// operation, and UnitCost the extra cost of one in the treatment.
	Base  *float64 `json:"baseline_per_operation,omitempty"`
	Delta float64  `json:"delta_per_operation"`
	// DeltaLow and DeltaHigh are the 95 % interval of the pairs' centre, if there are
	// enough of them.
	DeltaLow  *float64 `json:"delta_low_per_operation,omitempty"`
	DeltaHigh *float64 `json:"delta_high_per_operation,omitempty"`
	// Seconds is Delta times UnitCost, or Delta itself for a counter of waiting time.
	// The largest come first.
	UnitCost *float64 `json:"unit_cost_seconds"`
	// UnitLow and UnitHigh are, for the counter Dearer, the minimum and maximum extra
	// cost of a call: the extremes of the few jobs measured in each arm. They bound the
	// observations and are not a confidence interval.
	UnitLow  *float64 `json:"unit_cost_low_seconds,omitempty"`
	UnitHigh *float64 `json:"unit_cost_high_seconds,omitempty"`
	Seconds  *float64 `json:"seconds_per_operation,omitempty"`
	// Share is the part that Seconds are of the time by which an operation takes
	// longer: on CPUs, and waiting for locks and disks. Unexplained is the part that
	// no row has; it is below 0 where prices explain too much.
	Share       *float64 `json:"explained_share"`
	Unexplained *float64 `json:"unexplained_share"`
	// Cause names the rule that is about such events; "" for none.
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"missing_reason,omitempty"`
}

// Level of a guard's message.
type Level string

// The levels. Refuse makes a comparison invalid.
const (
	Note   Level = "info"
	Warn   Level = "warn"
	Refuse Level = "invalid"
)

// Guard is a guard that tripped: a reason to refuse or doubt a verdict.
type Guard struct {
	ID      string `json:"id"`
	Level   Level  `json:"level"`
	Message string `json:"message"` // what was seen
	Help    string `json:"help"`    // what would help
	// Scope limits it to comparisons of a case, treatment or metric; "" is all.
	Case      string             `json:"case,omitempty"`
	Treatment string             `json:"treatment,omitempty"`
	Metric    string             `json:"metric,omitempty"`
	Values    map[string]float64 `json:"values,omitempty"`
}

// Reference is a published figure shown next to ours; it never decides a verdict. A
// Unit of "cost_ratio" (above 1 is worse) is drawn next to our cost ratios.
type Reference struct {
	ID       string     `json:"id"`
	Citation string     `json:"citation"`
	Workload string     `json:"workload"`
	TEE      string     `json:"tee"`
	Low      float64    `json:"low"`
	High     float64    `json:"high"`
	Unit     string     `json:"unit"`
	Caveat   string     `json:"caveat"`
	Source   Provenance `json:"source"`
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
