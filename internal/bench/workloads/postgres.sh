#!/bin/sh
# Starts PostgreSQL with its data for one run:
#   postgres.sh WORK DATA HOST PORT KEYS BYTES CONNECTIONS BUFFERS
#
# The cluster is made once per environment, and each run gets a copy of it, so that all
# begin alike and none has to recover what the end of the last one left.
set -eu
work=$1 data=$2 host=$3 port=$4 keys=$5 bytes=$6 connections=$7 buffers=$8

# Debian keeps the programs outside PATH; the last of them is the newest.
for bin in /usr/lib/postgresql/*/bin; do
	if [ -x "$bin/postgres" ]; then PATH=$bin:$PATH; fi
done
for program in initdb postgres; do
	command -v "$program" >/dev/null || {
		echo "$program is not here: install PostgreSQL (Debian's package postgresql)" >&2
		exit 1
	}
done

# The server refuses to run as root. Its user must have a name (nobody has one
# everywhere) and a way to the data. With the user the kernel forgets that the server is to
# end with a harness that is killed, and is told again.
as=
if [ "$(id -u)" = 0 ]; then
	user=$(id -u nobody)
	chmod o+x "$work"
	chown "$user" "$data"
	as="setpriv --reuid=$user --regid=$(id -g nobody) --clear-groups --pdeathsig=INT"
fi
cd "$data"
made=made-$keys-$bytes
if [ ! -e "$made" ]; then
	rm -rf part
	# No collation of the machine's, which may differ between environments.
	$as initdb --pgdata=part --auth=trust --username=postgres --no-locale --encoding=UTF8 --no-sync >/dev/null
	# Frozen and vacuumed, so that reading does not write.
	$as postgres --single -D part -c exit_on_error=on -c max_wal_size=8GB postgres >/dev/null <<-SQL
		CREATE TABLE data (key integer PRIMARY KEY, value text)
		ALTER TABLE data ALTER value SET STORAGE EXTERNAL
		INSERT INTO data SELECT i, left(lpad(i::text, 9, '0') || repeat('abcdefghijklmnopqrstuvwxyz0123456789-', $bytes / 37 + 1), $bytes) FROM generate_series(0, $keys - 1) i
		VACUUM (FREEZE, ANALYZE) data
	SQL
	mv part "$made"
fi
rm -rf run
$as cp -R "$made" run
$as chmod 700 run
# initdb lets in who comes from this machine; a client elsewhere asks this address.
$as sh -c 'echo "host all all all trust" >>run/pg_hba.conf'

# What would work beside the load now and then is off or put off.
exec $as postgres -D run -p "$port" -c listen_addresses="$host" -c unix_socket_directories= \
	-c max_connections="$connections" -c shared_buffers="$buffers" -c autovacuum=off -c max_wal_size=8GB -c checkpoint_timeout=1h
