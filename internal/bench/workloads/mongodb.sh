#!/bin/sh
# Starts a server with an empty folder for its data:
#   mongodb.sh FOLDER COMMAND...
set -eu
rm -rf "$1"
mkdir -p "$1"
shift
exec "$@"
