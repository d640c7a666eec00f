package load

// MostForeign is the maximum number run in parallel.
const MostForeign = 1024

// Foreign is the output of other load generators run in parallel, and what this program
// observed of them.
type Foreign struct {
	// Seconds is the time from the start of the first process to the end of the last,
	// Together the part of it in which all of them ran.
	Seconds  float64 `json:"seconds"`
	Together float64 `json:"together_seconds"`
	// CPUSeconds is the CPU time of all processes, Cores the number of CPUs that they
	// could use.
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      int     `json:"cores"`
	// Outputs are what each process printed.
	Outputs []string `json:"outputs"`
	// Protocol, Digest, Server and Versions are as in a Report. Where a protocol is named, the server was filled and asked in it
	// before, and Digest is of one right answer; Server is over Seconds.
	Protocol string             `json:"protocol,omitempty"`
	Digest   string             `json:"digest,omitempty"`
	Server   map[string]float64 `json:"server,omitempty"`
	Versions map[string]string  `json:"versions,omitempty"`
}
