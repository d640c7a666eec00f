// Package micro carries the tiny worker as a program of a few tens of kilobytes that
// measures itself and nothing else, in two forms: static, which runs everywhere, and
// linked to the GNU C library as most programs are. Its C sources begin with a build
// constraint, so that the go command leaves them alone.
package micro

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
)

//go:generate sh -c "LC_ALL=C; musl-gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -static -s -Wl,--build-id=none -o micro_amd64 *.c && gzip -9nf micro_amd64"
//go:generate sh -c "LC_ALL=C; gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -pthread -s -Wl,--build-id=none -o micro_dynamic_amd64 *.c && gzip -9nf micro_dynamic_amd64"

// The forms of the worker. A runtime that replaces the C library answers a dynamic
// program's system calls in it, and has to trap those of a static one.
const (
	Static  = "static"
	Dynamic = "dynamic"
)

// Missing is the error where no worker of a form was built for this architecture, with what to do; it wraps errors.ErrUnsupported.
// It is nil where one was.
func Missing(form string) error {
	if Program != nil && In(form) != nil {
		return nil
	}
	return notBuilt(form)
}

// notBuilt is a form of the worker.
type notBuilt string

func (f notBuilt) Error() string {
	return fmt.Sprintf("this build of teescope has no test program (workloads/micro, %s) for %s, only for amd64: use a machine with that, or build workloads/micro/*.c with a C compiler, "+
		"add micro_%s.go next to micro_amd64.go, and build teescope again", string(f), runtime.GOARCH, runtime.GOARCH)
}

func (notBuilt) Is(target error) bool { return target == errors.ErrUnsupported }

// In returns the worker in a form, or nil where none was built.
func In(form string) []byte {
	if form == Dynamic {
		return unpackDynamic()
	}
	return Program
}

// Program is the static worker for this architecture, or nil where none was built.
var Program = unpack(static)

// unpackDynamic returns the dynamic worker, which few runs need.
var unpackDynamic = sync.OnceValue(func() []byte { return unpack(dynamic) })

// unpack returns a worker, which is compressed by gzip; nil for none. A panic would be a fault of the program's build, which every test finds.
func unpack(packed []byte) []byte {
	if packed == nil {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		var b []byte
		if b, err = io.ReadAll(z); err == nil {
			return b
		}
	}
	panic(fmt.Sprintf("micro: the worker for %s: %v", runtime.GOARCH, err))
}
