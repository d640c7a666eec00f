package workloads

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strconv"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

//go:embed mongodb.sh
var mongodbScript []byte

var mongodb = mongodbServer.workload()

// The servers that the workload knows.
const (
	mongod     = "mongod"
	mongoInJVM = "mongo-java-server"
	ferretdb   = "ferretdb"
)

// mongodbServer has a thread per connection and its own cache above the kernel's: with a working
// set larger than the enclave page cache, a TEE pages what the server takes for memory. The
// journal stays on, as by default; nothing is written during the measurement. Only find is
// counted, which nothing else uses.
//
// mongod itself is in no package archive available to us. Where it is missing, two others speak its protocol, whose
// results are their own: mongo-java-server, with its data on the heap of a JVM, and FerretDB, with its data in SQLite.
var mongodbServer = dataServer{
	name: "mongodb",
	doc: "MongoDB (if installed; not run by us), or mongo-java-server or FerretDB, which speak MongoDB's protocol, under queries for one random document by its _id: " +
		"requests, latency, the server's own CPU time and cache.",
	tools: []bench.Tool{
		{Command: mongod, Package: "mongodb-org-server of MongoDB's own repository (https://www.mongodb.com/docs/manual/administration/install-on-linux/), " +
			"or measure another server with the same protocol, with --param server=" + mongoInJVM + " or server=" + ferretdb,
			With: func(p bench.Params) bool { return p["server"] == mongod }},
		{Command: javaCommand, Package: javaPackage, Param: "java", With: func(p bench.Params) bool { return p["server"] == mongoInJVM }},
	},
	params: []bench.Param{
		{Name: "server", Default: mongod, Values: []string{mongod, mongoInJVM, ferretdb}, Subject: true, Doc: "The server. mongod: MongoDB. mongo-java-server: the server in workloads/mongodb, which is not MongoDB and keeps its data in the memory of a JVM. " +
			"ferretdb: FerretDB (make ferretdb), which is not MongoDB and keeps its data in SQLite, on the disk; it counts neither its memory nor its CPU time."},
		{Name: "programs", Path: true, Subject: true, Doc: "Folder with mongo-java-server.jar: workloads/mongodb/target after make -C workloads/mongodb."},
		{Name: "java", Path: true, Named: true, Default: javaCommand, Subject: true, Doc: "The java command in the environment; Gramine needs its real path, like /usr/lib/jvm/java-17-openjdk-amd64/bin/java."},
		{Name: "cache", Default: "256MiB", Doc: "Size of the server's own cache (storage.wiredTiger.engineConfig.cacheSizeGB); MongoDB's minimum is 256MiB. Only mongod has such a cache."},
	},
	pipeline: "1", protocol: "mongodb", command: "find test.data key:{key}", stats: "mongodb",
	// 40 bytes of BSON, 30 in the index of _id, and as much again for pages that are not full.
	entry: 140, fill: 100_000,
	requests: []string{"metrics/commands/find/total"}, memory: "wiredTiger/cache/bytes currently in the cache",
	cpu:       []string{"extra_info/user_time_seconds", "extra_info/system_time_seconds"},
	forgetful: func(p bench.Params) bool { return p["server"] == mongoInJVM },
	says:      serverVersion,
	start:     startMongo,
	processes: []string{mongod, ferretdb},
}

// mostFerret bounds the keys in FerretDB. Its index of _id and its question to SQLite are not the same expression (1.24.2: ->"_id" and ->'$._id'), so
// SQLite reads the whole table: 13 ms of CPU time with so many, and the requests of many connections would not be answered in time.
const mostFerret = 20_000

func startMongo(p bench.Params, set dataSet) (host.Cmd, []bench.File, error) {
	if p["server"] == mongoInJVM {
		if p["programs"] == "" {
			return host.Cmd{}, nil, errors.New("parameter programs: want the folder with mongo-java-server.jar: make -C workloads/mongodb makes workloads/mongodb/target")
		}
		const archive = "mongo-java-server.jar"
		return host.Cmd{Dir: "{work}", Argv: []string{p["java"], "-jar", "{work}/" + archive, "{host}", "{port}"}},
			[]bench.File{{Name: archive, From: path.Join(p["programs"], archive), Exec: true, Hint: "make -C workloads/mongodb makes it"}}, nil
	}
	files := []bench.File{{Name: "mongodb.sh", Data: mongodbScript, Exec: true}, {Name: ferretdb, From: bench.FerretDB, Exec: true}}
	if p["server"] == mongod {
		files = files[:1]
	} else if set.keys > mostFerret {
		return host.Cmd{}, nil, fmt.Errorf("%d keys: want at most 20000 with server=ferretdb, which reads all documents for each find: set the parameter keys, as in keys=1000", set.keys)
	}
	cache, err := p.Bytes("cache")
	if err != nil {
		return host.Cmd{}, nil, err
	}
	const gib = 1 << 30
	return host.Cmd{Dir: "{work}", Argv: []string{"sh", "{work}/mongodb.sh", "{data}", p["server"], "{host}", "{port}",
		strconv.FormatInt(set.connections+spare, 10), strconv.FormatFloat(float64(cache)/gib, 'f', -1, 64)}}, files, nil
}
