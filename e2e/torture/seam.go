package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/disk"
	"github.com/teescope/teescope/internal/store"
)

// everyCall is up to which call each fails in turn; later ones are drawn.
const everyCall = 200

var seam = part{name: "seam", cases: 2*everyCall + 1600, begin: beginSeam,
	doc: "one of the program's own calls to the file system fails, once or from then on, while a store is opened, written, queried and closed"}

// mistakes are the errors that calls get, in turn.
var mistakes = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.EROFS}

func beginSeam(ctx context.Context, dir string, cases int) (func(int, *rand.Rand) (outcome, error), error) {
	sound, work := filepath.Join(dir, "sound"), filepath.Join(dir, "work")
	acked, err := soundFolder(ctx, sound)
	if err != nil {
		return nil, err
	}
	count := &disk.Fault{}
	if err := copyFolder(sound, work); err != nil {
		return nil, err
	}
	if _, err := useStore(ctx, work, count); err != nil {
		return nil, err
	}
	calls := count.Calls()
	return func(number int, rnd *rand.Rand) (o outcome, err error) {
		at := int64((number + 1) / 2)
		switch {
		case cases <= 2*everyCall: // so few are drawn from all calls, not only from the first, with which it opens
			at = 1 + rnd.Int64N(max(1, calls))
		case at > everyCall:
			at = everyCall + 1 + rnd.Int64N(max(1, calls-everyCall))
		}
		f := &disk.Fault{At: at, Onward: number%2 == 0, Err: mistakes[rnd.IntN(len(mistakes))]}
		if err := copyFolder(sound, work); err != nil {
			return o, err
		}
		before := heldResources()
		more, err := useStore(ctx, work, f)
		o.What = fmt.Sprintf("%v at call %d (%s), from then on: %v", f.Err, f.At, f.First(), f.Onward)
		if err != nil {
			return o, err
		}
		if err := before.leaked(); err != nil {
			return o, err
		}
		o.Lost, err = check(ctx, work, append(append([]int(nil), acked...), more...), sessions*perSession+moreRounds)
		return o, err
	}, nil
}

// moreRounds are recorded while calls fail.
const moreRounds = 40

// useStore opens a store, appends to it, queries it and closes it while calls fail. It returns the rounds that were acknowledged. Values
// that are wrong are an error, and that it does not open is none.
func useStore(ctx context.Context, dir string, f *disk.Fault) (acked []int, err error) {
	end := disk.Inject(f)
	defer end()
	s, err := store.Open(ctx, options(dir))
	if err != nil {
		return nil, nil //nolint:nilerror // with its files unreadable it need not open; afterwards it must
	}
	from := sessions * perSession
	acked = record(s, from, from+moreRounds)
	_, err = found(ctx, s, from+moreRounds)
	_ = s.Close() // it may fail
	return acked, err
}

// resources are what this process holds.
type resources struct{ descriptors, goroutines int }

func heldResources() resources {
	fds, _ := os.ReadDir("/proc/self/fd")
	return resources{len(fds), runtime.NumGoroutine()}
}

// leaked returns what is still held of what was taken since. Goroutines that end take a moment.
func (r resources) leaked() error {
	var now resources
	for range 100 {
		if now = heldResources(); now.descriptors <= r.descriptors && now.goroutines <= r.goroutines {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%d descriptors and %d goroutines before, %d and %d after it was closed", r.descriptors, r.goroutines, now.descriptors, now.goroutines)
}
