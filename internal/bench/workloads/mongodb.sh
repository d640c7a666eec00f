#!/bin/sh
# Starts MongoDB with nothing in it:
#   mongodb.sh DATA OPTION...
set -eu
data=$1/mongodb
shift
rm -rf "$data"
mkdir -p "$data"

# What would work beside the load now and then is off.
exec mongod --dbpath "$data" --nounixsocket --quiet --setParameter diagnosticDataCollectionEnabled=false "$@"
