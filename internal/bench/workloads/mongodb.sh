#!/bin/sh
# mongodb.sh DATA mongod|ferretdb HOST PORT CONNECTIONS CACHE-GIB: starts the server with nothing in it.
set -eu
data=$1/mongodb
rm -rf "$data"
mkdir -p "$data"

# What would work beside the load now and then is off.
if [ "$2" = mongod ]; then
	exec mongod --dbpath "$data" --nounixsocket --quiet --setParameter diagnosticDataCollectionEnabled=false --bind_ip "$3" --port "$4" --maxConns "$5" --wiredTigerCacheSizeGB "$6"
fi
export DO_NOT_TRACK=1 # FerretDB would report its use to its makers
exec ./ferretdb --handler=sqlite --sqlite-url="file:$data/" --state-dir="$data" --listen-addr="$3:$4" --debug-addr=- --telemetry=disable --log-level=warn
