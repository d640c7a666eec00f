// Package protocols is what a load can ask, one file each, and how servers are asked
// for what they count themselves.
package protocols

import "github.com/teescope/teescope/internal/load"

// All is every protocol, in the order of the help text.
var All = []*load.Protocol{
	&http1,
	&http2,
	&resp,
	&memcached,
	&postgres,
	&mongodb,
	&line,
	&raw,
}

// Statistics is every way to ask a server what it counts.
var Statistics = []*load.Statistics{
	&redisStatistics,
	&nginxStatistics,
	&postgresStatistics,
	&memcachedStatistics,
	&mongodbStatistics,
	&countsStatistics,
}
