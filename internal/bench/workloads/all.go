// Package workloads holds what can be measured, one file per workload.
package workloads

// All is every workload, in the order of `teescope bench list`.
var All = bounded(
	&null,
	&sevenZip,
	&fio,
	&syscallCost,
	&wakeup,
	&memoryCost,
	&startup,
	&firstTouch,
	&iperf,
	&network,
	&secureChannel,
	&attestation,
	&redis,
	&memcached,
	&postgres,
	&mongodb,
	&tlsScaling,
	&gpuGemm,
	&gpuCopy,
	&gpuLaunch,
	&zkRSA,
	&llm,
	&clockServer,
	&lockServer,
	&custom,
	&gateway,
	&gatewayLoad,
	&nginxStatic,
)
