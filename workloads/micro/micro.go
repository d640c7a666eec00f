// Package micro carries the tiny worker as a program: a static executable of a
// few tens of kilobytes that measures itself and nothing else. Its C sources
// begin with a build constraint, so that the go command leaves them alone.
package micro

//go:generate sh -c "LC_ALL=C; musl-gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -s -Wl,--build-id=none -o micro_amd64 *.c"
