// Package kinds holds the servers that say how many requests they have answered,
// one file each.
package kinds

import "github.com/teescope/teescope/internal/app"

// All lists every kind of server.
var All = []*app.App{
	&redis,
	&nginx,
	&postgresql,
	&memcached,
	&openMetrics,
}
