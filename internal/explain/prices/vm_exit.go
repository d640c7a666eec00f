package prices

import "github.com/teescope/teescope/internal/explain"

var vmExit = Price{
	Price:  explain.Price{Event: "vm_exit_cpuid", Metric: explain.GuestExceptions, How: "the instruction CPUID, which the hypervisor answers, timed in this guest", Literature: &VMExit},
	method: "the instruction CPUID, which the hypervisor answers: the least exit from a virtual machine",
	jobs:   map[string][]string{"cpuid": timed("thread", "cpuid")}, unit: direct("cpuid"),
}

// VMExit is one entry into a plain virtual machine and its exit with nothing done in
// between: from before VMRUN until after it on an AMD processor, Linux 5.10.
var VMExit = explain.Literature{Low: 1_350, High: 1_350, Each: "to leave a plain guest and return, the minimum",
	On: "an AMD processor of 2020", Name: "a kernel developer's measurement on AMD in 2020", Source: "https://lkml.iu.edu/hypermail/linux/kernel/2012.2/00527.html"}
