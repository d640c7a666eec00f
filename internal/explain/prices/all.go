// Package prices measures what one event costs on this host: a system call, a page
// fault by cause, a context switch, a wake-up, the copy of a page, an exit from a
// virtual machine. One file holds the prices of one kind of event, with what others
// measured where this machine cannot. A rate times a price is what package explain
// explains time with.
//
// The costs are the host's own. Programs that watch its events, this monitor's probes
// included, make them higher, so a calibration is made before the probes are attached.
// It is kept in the data folder and made again when the machine has changed; see
// Fingerprint.
package prices

import (
	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/host"
)

// Price is a priced event and how its cost is measured here.
type Price struct {
	explain.Price
	// method says in a sentence what is measured and what is part of it.
	method string
	// jobs are runs of the worker, by name; events share those of the same name.
	jobs map[string][]string
	// prepare makes jobs that depend on the machine, or says why it can have none;
	// nil where there are no such jobs.
	prepare func(*host.Host) (map[string][]string, error)
	unit    func(*worker) (Unit, error)
}

// All lists every price, in the order in which reports show them.
var All = []*Price{
	&syscall,
	&syscallUnseen,
	&faultNoPageFound,
	&faultWrite,
	&faultUnseen,
	&faultWriteProtection,
	&faultInstructionFetch,
	&faultProtection,
	&faultFile,
	&switchSameCore,
	&switchCrossCore,
	&wakeup,
	&copyPage,
	&vmExit,
	&enclaveTransition,
	&epcSwap,
}

// Catalog returns the prices as explanations use them.
func Catalog() []*explain.Price {
	var out []*explain.Price
	for _, p := range All {
		out = append(out, &p.Price)
	}
	return out
}
