package load

// MostForeign is how many of them run side by side at most.
const MostForeign = 1024

// Foreign is what load generators of others say that ran side by side, and what this
// program saw of them.
type Foreign struct {
	// Seconds is from the start of the first process to the end of the last, Together
	// the part of it in which all of them ran.
	Seconds  float64 `json:"seconds"`
	Together float64 `json:"together_seconds"`
	// CPUSeconds is what all processes used of the CPU, Cores how many CPUs they
	// could fill.
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      int     `json:"cores"`
	// Outputs are what each process printed.
	Outputs []string `json:"outputs"`
	// Server are the server's own statistics, as in a Report, over Seconds.
	Server map[string]float64 `json:"server,omitempty"`
}
