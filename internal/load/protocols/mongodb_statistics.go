package protocols

import (
	"context"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/teescope/teescope/internal/load"
)

// mongodbNumbers are the values read from serverStatus, by their paths (MongoDB's
// manual, "serverStatus"); those of one storage engine are missing with another.
var mongodbNumbers = []string{
	"opcounters/insert", "opcounters/query", "opcounters/update", "opcounters/delete", "opcounters/getmore", "opcounters/command",
	"metrics/commands/find/total", "metrics/commands/find/failed",
	"network/bytesIn", "network/bytesOut", "network/numRequests",
	"extra_info/user_time_us", "extra_info/system_time_us",
	"wiredTiger/cache/pages requested from the cache", "wiredTiger/cache/pages read into cache",
	mongodbConnections, mongodbCache,
}

// The levels among them.
const (
	mongodbConnections = "connections/current"
	mongodbCache       = "wiredTiger/cache/bytes currently in the cache"
)

// mongodbStatistics names numbers by their paths; times in microseconds become seconds,
// as extra_info/user_time_seconds.
var mongodbStatistics = load.Statistics{
	Name: "mongodb", Doc: "The serverStatus of MongoDB, without authentication.",
	Gauges: []string{mongodbConnections, mongodbCache},
	Read: func(ctx context.Context, o *load.Options) (map[string]float64, map[string]string, error) {
		var numbers map[string]float64
		var version string
		err := dialed(ctx, o, func(c net.Conn) error {
			status, err := mongoAsk(c, "admin", "serverStatus")
			if err != nil {
				return err
			}
			numbers = mongodbStatus(status)
			version = mongodbVersion(status)
			return nil
		})
		return numbers, versionOf(map[string]string{"version": version}, "version"), err
	},
}

// mongodbVersion is the server's version. FerretDB gives as version the one of MongoDB that clients may take it for, and its own beside it.
func mongodbVersion(status bsoncore.Document) string {
	version, _ := status.Lookup("version").StringValueOK()
	if own, _ := status.Lookup("ferretdbVersion").StringValueOK(); own != "" {
		return "FerretDB " + own + ", for MongoDB " + version
	}
	return version
}

// mongodbStatus extracts the numbers from an answer to serverStatus.
func mongodbStatus(status bsoncore.Document) map[string]float64 {
	out := map[string]float64{}
	for _, name := range mongodbNumbers {
		v, ok := status.Lookup(strings.Split(name, "/")...).AsFloat64OK()
		if !ok {
			continue
		}
		if place, micro := strings.CutSuffix(name, "_us"); micro {
			name, v = place+"_seconds", v/1e6
		}
		out[name] = v
	}
	return out
}
