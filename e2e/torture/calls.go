package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		if call == "mmap" || call == "write" { // only of the folder's files: Go's runtime ends the process when it gets no memory, or cannot wake a thread
			names, err := files(work)
			if err != nil {
				return o, err
			}
			for _, n := range append(names, nextFiles(names)...) {
				paths = append(paths, "-P", n)
			}
		}
		if call == "mmap" {
			most = 20 // about as many are mapped
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
		// The database ends the process if it cannot write a chunk of the head. Then what is on the disk is judged.
		if c := r.crashed(); c != nil {
			if o.Ended = strings.Contains(c.said, "(*ChunkDiskMapper).WriteChunk"); !o.Ended {
				return o, c
			}
		}
		o.Lost, err = check(ctx, work, append(append([]int(nil), acked...), more...), end)
		return o, err
	}, nil
}

// nextFiles returns the names that a folder's log and head chunks get next.
func nextFiles(names []string) (out []string) {
	last := map[string]int{} // by folder
	digits := map[string]int{}
	for _, name := range names {
		dir, base := filepath.Split(name)
		if n, err := strconv.Atoi(base); err == nil && (strings.HasSuffix(dir, "/wal/") || strings.HasSuffix(dir, "/chunks_head/")) {
			last[dir], digits[dir] = max(last[dir], n), len(base)
		}
	}
	for dir, n := range last {
		for i := range 5 {
			out = append(out, fmt.Sprintf("%s%0*d", dir, digits[dir], n+1+i))
		}
	}
	return out
}
