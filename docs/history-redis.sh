#!/bin/sh
# Makes a git repository in which each commit is a redis-server: a version of Debian's
# package, and the options that it runs with. `teescope bench commits` builds and
# compares them (docs/history.md).
#
#   history-redis.sh FOLDER [VERSION...]
#
# VERSION are versions that apt knows (`apt-cache madison redis-tools`, the oldest
# first); without any, those two that are newest here. After them comes a commit that
# reads the clock by system calls, as a runtime without a vDSO does, and one that no
# longer does, but has two I/O threads.
set -eu

folder=${1:?"want the folder of the new repository"}
shift
if [ $# -eq 0 ]; then
	# shellcheck disable=SC2046 # versions have no white space
	set -- $(apt-cache madison redis-tools | awk '{print $3}' | head -n 2 | tac)
fi
[ $# -gt 0 ] || { echo "apt knows no redis-tools; run apt-get update" >&2; exit 1; }

git init -q -b main "$folder"
cd "$folder"

# The package is unpacked beside the tree, in .git, where every work tree finds it.
cat >build.sh <<'SCRIPT'
#!/bin/sh
# Builds this commit as redis-built: Debian's redis-server of the file version, with the options of the file options.
# It has a name of its own, so that another redis-server of the machine is not counted with it.
# With a file clock.c, that is put in front of the C library.
set -eu
version=$(cat version)
cache=$(git rev-parse --path-format=absolute --git-common-dir)/packages/${version#*:} # without the epoch: a colon separates the elements of LD_PRELOAD
if [ ! -x "$cache/redis-built" ]; then
	mkdir -p "$cache"
	(cd "$cache" && apt-get -q download "redis-tools=$version" && dpkg-deb -x redis-tools_*.deb .)
	# One program under several names: it looks at its own to know what it is.
	cp "$cache/usr/bin/redis-check-rdb" "$cache/redis-built"
fi
preload=
if [ -e clock.c ]; then
	cc -O2 -shared -fPIC -o "$cache/clock.so" clock.c
	preload="export LD_PRELOAD=$cache/clock.so; "
fi
printf '#!/bin/sh\n%sexec %s/redis-built "$@" %s\n' "$preload" "$cache" "$(cat options)" >redis-built
chmod +x redis-built
SCRIPT
chmod +x build.sh
: >options

commit() {
	git add -A
	git -c user.name=teescope -c user.email=teescope@example.org -c commit.gpgsign=false commit -q -m "$1"
}
for version; do
	echo "$version" >version
	commit "redis-server $version"
done
cat >clock.c <<'SOURCE'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t) { return syscall(SYS_clock_gettime, id, t); }
int gettimeofday(struct timeval *t, void *zone) { return syscall(SYS_gettimeofday, t, zone); }
SOURCE
commit "read the clock by system calls"
git rm -q clock.c
echo "--io-threads 2 --io-threads-do-reads yes" >options
commit "read the clock by the vDSO again; two threads for input and output"
git log --reverse --format='%h %s'
