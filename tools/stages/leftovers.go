package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// variable marks, in the environment, every process that a run starts. Its value is the run's process id, the start of
// that process and its PID namespace, so the mark of a run that has ended is never that of another program.
const variable = "TEESCOPE_TEST_RUN"

// locked is the file that a run has locked until it ends.
const locked = "bin/stages.lock"

// lock makes this run the only one of its checkout: two would build the same binaries and end each other's stages. A run
// inside another one, as in a test, belongs to that.
func lock() error {
	if os.Getenv(variable) != "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(locked), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(locked, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("lock this checkout: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { // until this process ends
		holder, _ := io.ReadAll(f)
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock this checkout: tests already run in it (process %s); wait for their end, or run these in another clone", bytes.TrimSpace(holder))
		}
		return fmt.Errorf("lock this checkout: flock %s: %w", locked, err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("lock this checkout: %w", err)
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	holding = f
	return err
}

// holding keeps the lock's file open: a finalizer would close it.
var holding *os.File

// mark marks this process and its future children, and ends what runs that have ended left behind. A run inside
// another one, as in a test, leaves the mark of that.
func mark() error {
	if os.Getenv(variable) != "" {
		return nil
	}
	own, err := markOf(os.Getpid())
	if err != nil {
		return fmt.Errorf("mark this run: %w", err)
	}
	for _, p := range marked() {
		pid, _, _ := strings.Cut(p.mark, "-")
		n, err := strconv.Atoi(pid)
		if err != nil || !strings.HasSuffix(p.mark, own[strings.LastIndexByte(own, '-'):]) { // or of a container
			continue
		}
		if now, err := markOf(n); err != nil || now != p.mark {
			fmt.Printf("ends what an earlier run left: process %d: %s\n", p.pid, p.command)
			kill(p.pid)
		}
	}
	return os.Setenv(variable, own)
}

// ownMark is the mark of this run, or "" if another run marked this process.
func ownMark() string {
	if own, err := markOf(os.Getpid()); err == nil && own == os.Getenv(variable) {
		return own
	}
	return ""
}

// endMarked ends all processes with a mark.
func endMarked(mark string) {
	for _, p := range marked() {
		if mark != "" && p.mark == mark && p.pid != os.Getpid() {
			fmt.Printf("ends what a stage left: process %d: %s\n", p.pid, p.command)
			kill(p.pid)
		}
	}
}

func kill(pid int) {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		fmt.Printf("kill %d: %v\n", pid, err)
	}
}

// markOf is the mark of a run whose process is pid: the process id and the start time in ticks after boot, field 22 of
// proc_pid_stat(5).
func markOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from field 3 on: names contain anything
	if len(fields) < 20 {
		return "", fmt.Errorf("read /proc/%d/stat: %q has too few fields", pid, stat)
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d-%s-%s", pid, fields[19], namespace), nil
}

// process is one that has a mark.
type process struct {
	pid           int
	mark, command string
}

// marked lists the processes that have a mark, of whichever run. Those of other users are unseen.
func marked() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, _ := os.ReadFile(file) // gone, or another user's
		for pair := range bytes.SplitSeq(environ, []byte{0}) {
			if value, ok := bytes.CutPrefix(pair, []byte(variable+"=")); ok {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
				all = append(all, process{pid, string(value), strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))})
				break
			}
		}
	}
	return all
}
