// Package workloads is what can be measured, one file per workload.
package workloads

import "github.com/teescope/teescope/internal/bench"

// All is every workload, in the order of `teescope bench list`.
var All = []*bench.Workload{
	&null,
	&sevenZip,
	&fio,
	&syscallCost,
	&wakeup,
	&memoryCost,
	&startup,
	&iperf,
	&secureChannel,
	&attestation,
	&redis,
	&memcached,
	&postgres,
	&tlsScaling,
	&clockServer,
	&lockServer,
	&custom,
	&gateway,
	&nginxStatic,
}
