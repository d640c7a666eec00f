package result

import (
	"github.com/teescope/teescope/internal/tee"
)

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
