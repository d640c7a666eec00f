package host

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestShortage(t *testing.T) {
	for _, err := range []error{unix.EMFILE, fmt.Errorf("load: %w", unix.ENFILE), &os.PathError{Op: "open", Path: "x", Err: unix.EMFILE},
		errors.New("can't clone map: can't dup fd: too many open files"), errors.Join(unix.EPERM, unix.EMFILE)} {
		if Shortage(err) == "" {
			t.Errorf("%v: no advice", err)
		}
	}
	for _, err := range []error{nil, unix.EPERM, unix.ENOENT, errors.New("read- and write-only maps not supported (requires >= v5.2)")} {
		if got := Shortage(err); got != "" {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// TestDescriptors: claims never take the spared descriptors, wait for one another, and say how many are missing.
func TestDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = uint64(len(entries) - 1 + spared + 10)
	if few.Cur > old.Max {
		t.Skipf("the limit of open files is %d", old.Max)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	if _, err := Descriptors(11); !errors.Is(err, unix.EMFILE) || Shortage(err) == "" {
		t.Errorf("11 of 10: %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			opened, err := Descriptors(6) // two do not fit, so they take turns
			if err != nil {
				t.Error(err)
				return
			}
			opened()
			opened() // again does nothing
		})
	}
	all.Wait()
	if Spared(int(few.Cur)-spared-1) || !Spared(int(few.Cur)-spared) {
		t.Errorf("of %d descriptors the last %d are not the spared ones", few.Cur, spared)
	}
}
