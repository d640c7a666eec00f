package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/await"
)

// What a run leaves is ended by its mark, whoever its parent is, and what carries another mark is not.
func TestLeftovers(t *testing.T) {
	own, err := markOf(os.Getpid())
	if err != nil || !strings.HasPrefix(own, strconv.Itoa(os.Getpid())+"-") {
		t.Fatalf("the mark of this process is %q, %v", own, err)
	}
	begin := func(mark string) *await.Program {
		c := exec.Command("sleep", "600")
		c.Env = append(os.Environ(), variable+"="+mark)
		return await.Start(t, c)
	}
	ended, other := begin("1-0-"+own), begin("1-1-"+own)
	await.Event(t, "both are seen", func() error { // a new process has its environment after exec
		n := 0
		for _, p := range marked() {
			if p.pid == ended.Process.Pid || p.pid == other.Process.Pid {
				n++
			}
		}
		if n != 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	endMarked("1-0-" + own)
	if code := ended.ExitStatus(t); code == 0 {
		t.Error("it ended by itself")
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("that of another run: %v", err)
	}
}

// A second run of the same checkout ends at once and says which is the first, until that ends. A run inside another one
// goes on.
func TestLock(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(variable, "")
	if err := lock(); err != nil {
		t.Fatal(err)
	}
	if err := lock(); err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("a second run: %v", err)
	}
	if err := holding.Close(); err != nil {
		t.Fatal(err)
	}
	if err := lock(); err != nil {
		t.Errorf("after the first: %v", err)
	}
	t.Setenv(variable, "1-2-pid:[3]")
	if err := lock(); err != nil {
		t.Errorf("inside: %v", err)
	}
	_ = holding.Close()
}
