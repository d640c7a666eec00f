package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var calls = part{name: "calls", cases: 1000, begin: beginCalls,
	doc: "a system call of a process that records fails (strace), those of the embedded database included, once or from then on; then it is killed (-9)"}

// systemCalls are those that fail.
var systemCalls = []string{"write", "pwrite64", "openat", "fsync", "fdatasync", "renameat", "renameat2", "ftruncate", "fallocate", "unlinkat", "mkdirat", "mmap", "statfs", "fstatfs", "newfstatat"}

func beginCalls(ctx context.Context, dir string, _ int) (func(int, *rand.Rand) (outcome, error), error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("calls of the database fail by strace: %w: install it", err)
	}
	sound, work := filepath.Join(dir, "sound"), filepath.Join(dir, "work")
	acked, err := soundFolder(ctx, sound)
	if err != nil {
		return nil, err
	}
	return func(_ int, rnd *rand.Rand) (o outcome, err error) {
		if err := copyFolder(sound, work); err != nil {
			return o, err
		}
		call, mistake := systemCalls[rnd.IntN(len(systemCalls))], mistakes[rnd.IntN(len(mistakes))]
		most, paths := 60, []string(nil)
		if call == "mmap" { // only of the folder's files: Go's runtime ends the process when it gets no memory
			names, err := files(work)
			if err != nil {
				return o, err
			}
			most = 20 // about as many are mapped
			for _, n := range names {
				paths = append(paths, "-P", n)
			}
		}
		when := fmt.Sprint(1 + rnd.IntN(most))
		if rnd.IntN(2) == 0 {
			when += "+"
		}
		name := map[error]string{mistakes[0]: "EIO", mistakes[1]: "ENOSPC", mistakes[2]: "EMFILE", mistakes[3]: "EROFS"}[mistake]
		o.What = fmt.Sprintf("%s at call %s of %s", name, when, call)
		// strace counts the calls of each thread apart.
		line := append([]string{strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%s", call, name, when)}, paths...)
		r, err := startRecorder(work, sessions*perSession, line...)
		if err != nil {
			return o, err
		}
		time.Sleep(time.Duration(500+rnd.IntN(1500)) * time.Millisecond)
		more, end := r.kill()
		// strace cannot spare the pipe with which Go's runtime wakes a thread, and the runtime ends the process when that write fails. Then
		// only what is on the disk is judged.
		if c := r.crashed(); c != nil && !strings.Contains(c.line, "netpollBreak") {
			return o, c
		}
		o.Lost, err = check(ctx, work, append(append([]int(nil), acked...), more...), end)
		return o, err
	}, nil
}
