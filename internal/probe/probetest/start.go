package probetest

import (
	"math/rand/v2"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// mostName is how long a process name of a test may begin, so that Name and a number of three digits fit into the
// kernel's 15 bytes.
const mostName = 6

// Name returns a process name that no other run of any test uses. It begins with prefix, which has six bytes at most,
// and ends in a letter.
func Name(prefix string) string {
	if len(prefix) > mostName {
		panic("the prefix " + prefix + " is too long")
	}
	b := []byte(prefix + "-")
	for range 5 {
		b = append(b, byte('a'+rand.N(26)))
	}
	return string(b)
}

// Start starts a program that ends with the test, or when the test's process is killed.
func Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// The signal comes when the thread that started the program ends (prctl(2), PR_SET_PDEATHSIG), so a thread is
	// kept for that.
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		<-ended
	}()
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it was killed
		}
		close(ended)
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}
