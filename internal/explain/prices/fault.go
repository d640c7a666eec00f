package prices

import "github.com/teescope/teescope/internal/explain"

// fault is the price of a page fault of a cause of tee_page_faults_total.
func fault(cause, job, method string) Price {
	return Price{
		Price: explain.Price{Event: "fault_" + cause, Metric: explain.FaultCount, Label: "cause", Value: cause,
			How: "such a fault of one page, timed on this machine; one that waits for a disk takes longer"},
		method: method,
		jobs:   map[string][]string{job: timed("thread", "fault", job)}, unit: direct(job),
	}
}

// writing is the job of fresh pages that are written to.
var writing = map[string][]string{"write": timed("thread", "syscall", "fault")}

var (
	faultNoPageFound      = fault("no_page_found", "read", "reading a fresh page of memory, which maps the page of zeros")
	faultWriteProtection  = fault("write_protection", "copy", "writing to a page that is shared since a fork, which copies it")
	faultInstructionFetch = fault("instruction_fetch", "execute", "running code of a file in memory, which maps it with the 15 pages around it")
)

var faultWrite = Price{
	Price:  fault("write", "", "").Price,
	method: "writing to a fresh page of memory, which finds and clears a page",
	jobs:   writing, unit: direct("write"),
}

// faultUnseen is what sampled times of faults lack.
var faultUnseen = Price{
	Price:  explain.Price{Event: "fault_unseen"},
	method: "the share of such a fault's time that CPU samples attribute to the program instead of the kernel, because the processor leaves any fault with interrupts off; the time of the program's loop is subtracted",
	jobs:   map[string][]string{"write": writing["write"], "sampled write": {"thread", "sampled", "write", "70", "53000"}}, unit: unseen("write"),
}

var faultProtection = Price{
	Price: fault("protection", "", "").Price,
	unit:  absent("a program can cause such a fault only by touching forbidden memory, and then gets a signal"),
}

// faultFile is no cause of its own: tee_page_faults_total counts it as no_page_found.
var faultFile = Price{
	Price:  explain.Price{Event: "fault_file"},
	method: "reading a file in memory, which maps the page with the 15 around it",
	jobs:   map[string][]string{"file": timed("thread", "fault", "file")}, unit: direct("file"),
}
