package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Shortage returns the advice on an error that says nothing about what was tried, but that this process or machine has
// run out of something; "" for any other error. It comes before every other reading of an error.
func Shortage(err error) string {
	is := func(no syscall.Errno) bool {
		return errors.Is(err, no) || err != nil && strings.Contains(err.Error(), no.Error()) // libraries keep only the text
	}
	switch {
	case is(syscall.EMFILE):
		return "this process has too few file descriptors: raise `ulimit -n` (with systemd LimitNOFILE=65536), or narrow the source to fewer processes"
	case is(syscall.ENFILE):
		return "the machine has no file descriptors left: raise the sysctl fs.file-max, or end the program that holds them"
	}
	return ""
}

// spared is how many file descriptors stay free for reading /proc, answering requests and storing values, which go on
// whatever else cannot be opened.
const spared = 24

// claims are the descriptors that callers are about to open.
var claims = sync.NewCond(&sync.Mutex{})

var claimed int

// Descriptors claims file descriptors before they are opened; the caller returns the claim when it has opened them, and
// makes no other claim until then. The error wraps EMFILE. Whoever needs several asks first: a library that fails halfway
// may take that for a fault of the kernel, and who takes the last one keeps all others from reading anything.
func Descriptors(n int) (opened func(), err error) {
	claims.L.Lock()
	defer claims.L.Unlock()
	for {
		limit := fileLimit()
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil || limit == 0 {
			if Shortage(err) != "" {
				return nil, err
			}
			break // then opening tells
		}
		free := limit - (len(entries) - 1) // less the one for reading the folder
		if claimed+n+spared <= free {
			break
		}
		if claimed == 0 {
			return nil, fmt.Errorf("%d file descriptors are needed, and of %d only %d are free, less %d that are kept for reading /proc and answering: %w",
				n, limit, max(0, free), spared, syscall.EMFILE)
		}
		claims.Wait() // some of what is claimed may be open already, or come back
	}
	claimed += n
	return sync.OnceFunc(func() {
		claims.L.Lock()
		defer claims.L.Unlock()
		claimed -= n
		claims.Broadcast()
	}), nil
}

// Spared reports whether a descriptor is one of those to be spared: the kernel gives out the lowest number that is free.
func Spared(fd int) bool {
	limit := fileLimit()
	return limit > 0 && fd >= limit-spared
}
