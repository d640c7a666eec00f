package causes

import (
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/explain"
)

// SyncCalls return when data are safe on the disk.
var SyncCalls = strings.Fields("fsync fdatasync msync sync_file_range sync syncfs")

// Logging is a program that waits until what it wrote is safe.
var Logging = explain.Cause{
	Name:  "logging",
	What:  "waiting until written data is safe on the disk",
	Fix:   "gather writes and synchronise them together, or put them on a disk that completes flushes fast",
	Doing: "waiting until written data is safe on the disk",
	Remedy: "Find the files with `strace -f -y -e trace=fsync,fdatasync,write -p PID`. Log less, or log to memory and write from another thread; gather records and synchronise " +
		"them together (group commit, redis appendfsync everysec, PostgreSQL commit_delay); put the log on a device of its own with fast flushes. " +
		"In an enclave each write is also an exit, and a protected file system encrypts each block again: buffer the log inside the enclave.",
	Matches: func(e explain.Event, _ explain.Circumstances) bool {
		return called(e, SyncCalls) || waits(e, "disk") && slices.Contains(SyncCalls, e.Label("call"))
	},
}
