//go:build measure

package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/measured"
)

// TestTopAloneTimes: without a monitor, top shows the first numbers of processes within a second of its start, and the first
// explanation within ten.
func TestTopAloneTimes(t *testing.T) {
	name := startStorm(t)
	var numbers, explanation []float64
	for range 7 {
		e := newAloneEnv(t)
		term := openTerminal(t)
		c := e.command("top")
		c.Stdin, c.Stdout = term.slave, term.slave
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		began := time.Now()
		p := await.Start(t, c)
		term.shows(t, "CPU%", name)
		numbers = append(numbers, time.Since(began).Seconds())
		if _, err := term.master.WriteString("/" + name + "\r\r"); err != nil {
			t.Fatal(err)
		}
		term.shows(t, "share of active time")
		explanation = append(explanation, time.Since(began).Seconds())
		if code := p.Stop(syscall.SIGTERM); code != 0 {
			t.Errorf("exit status %d: %s", code, p.Err)
		}
	}
	measured.AtMost(t, "top alone shows the first numbers of processes within a second", "s", 1, numbers)
	measured.AtMost(t, "top alone shows the first explanation of a process within ten seconds", "s", 10, explanation)
}
