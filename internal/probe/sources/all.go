// Package sources holds what teescope can read, one file per source. A source
// names its metrics and how to open it; opening only looks whether the machine
// has the thing, reading does the work.
package sources

import "github.com/teescope/teescope/internal/probe"

// All lists every source, in the order in which reports show them.
var All = []*probe.Source{
	&teeInfo,
	&syscalls,
	&switches,
	&faults,
	&pageCache,
	&block,
	&tcp,
	&tcpConnect,
	&llc,
	&sgxEPC,
	&sgxFree,
	&sgx,
	&sgxMappings,
	&sgxCgroup,
	&sgxLegacy,
	&runtimes,
	&gramine,
	&swiotlb,
	&swiotlbBounces,
	&unaccepted,
	&nitro,
	&secureExecution,
	&gpu,
	&conversions,
	&guestExits,
	&guestReports,
	&clocksource,
	&virtio,
	&cpu,
	&memory,
	&disk,
	&filesystem,
	&network,
	&pressure,
	&interruptCounts,
	&energy,
	&system,
	&container,
	&self,
}
