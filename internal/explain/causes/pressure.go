package causes

import "github.com/teescope/teescope/internal/explain"

// CPUPressure is threads that wait for a free CPU. No event speaks for it, as it is not the
// process's own doing; an explanation asks for it by name.
var CPUPressure = explain.Cause{
	Name: explain.Queueing,
	Remedy: "More threads want to run than there are CPUs. Use fewer threads, fewer workloads or more CPUs; " +
		"do not compare results measured during that time.",
}
