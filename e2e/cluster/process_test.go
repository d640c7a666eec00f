package main

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
)

// TestRecordedProcess: a process that was killed counts as ended also if its parent does not wait for it.
func TestRecordedProcess(t *testing.T) {
	dir, parent := t.TempDir(), await.Converse(t, exec.Command("sh", "-c", "sleep 6000 & echo $!; exec sleep 6000"))
	child, err := strconv.Atoi(parent.Line(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := recordProcess(dir, child); err != nil {
		t.Error(err)
	}
	if pid := recordedProcess(dir); pid != child {
		t.Errorf("process %d is recorded, want %d", pid, child)
	}
	if err := unix.Kill(child, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await.Event(t, "the process has ended", func() error {
		if recordedProcess(dir) != 0 {
			return errors.New("it is still found")
		}
		return nil
	})
}
