#!/bin/sh
# Starts a server with an empty folder for its data:
#   mongodb.sh FOLDER COMMAND...
set -eu
rm -rf "$1"
mkdir -p "$1"
shift
export DO_NOT_TRACK=1 # FerretDB would report its use to its makers
exec "$@"
