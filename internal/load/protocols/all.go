// Package protocols holds the protocols that a load can speak, one file each, and the ways to
// read a server's own counters.
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

// Statistics lists every way to read a server's own counters.
var Statistics = []*load.Statistics{
	&redisStatistics,
	&nginxStatistics,
	&postgresStatistics,
	&memcachedStatistics,
	&mongodbStatistics,
	&countsStatistics,
}
