package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/store"
)

var kills = part{name: "kill", cases: 1000, begin: beginKills,
	doc: "a process that records is killed (-9) at any moment, the start included"}

// ingest is the process that is killed: it records rounds for ever, and prints those that were acknowledged. args are the folder and the
// first round.
func ingest(args []string) int {
	if len(args) != 2 {
		return 2
	}
	round, err := strconv.Atoi(args[1])
	if err != nil {
		return 2
	}
	s, err := store.Open(context.Background(), options(args[0]))
	if err != nil {
		fmt.Println("open", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	for ; ; round++ {
		if err := s.Append(timeOf(round), samplesOf(round)); err != nil {
			fmt.Println("refused", round)
		} else {
			fmt.Println("acked", round)
		}
		// clock: a pace of the program that is killed, not a wait.
		time.Sleep(2 * time.Millisecond)
	}
}

// recorder is a process that records.
type recorder struct {
	cmd  *exec.Cmd
	done chan struct{} // its output has ended
	said bytes.Buffer  // on standard error

	mu      sync.Mutex
	acked   []int
	refused int
	last    int
	failure string
}

// startRecorder starts one in a folder, from a round on; under is a command that it runs under.
func startRecorder(dir string, from int, under ...string) (*recorder, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line := append(under, self, "ingest", dir, strconv.Itoa(from))
	r := &recorder{cmd: exec.Command(line[0], line[1:]...), done: make(chan struct{}), last: from - 1}
	r.cmd.Env = append(os.Environ(), "TORTURE_INGEST=1") // the binary of a test is this program, too
	r.cmd.Stderr = &r.said
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(r.done)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return // a line without its end was not printed
			}
			r.read(strings.Fields(line))
		}
	}()
	return r, nil
}

func (r *recorder) read(words []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if words[0] == "open" {
		r.failure = strings.Join(words[1:], " ")
		return
	}
	round, _ := strconv.Atoi(words[1])
	r.last = round
	if words[0] == "acked" {
		r.acked = append(r.acked, round)
	} else {
		r.refused++
	}
}

// await waits until so many more rounds were acknowledged or refused.
func (r *recorder) await(acked, refused int) error {
	r.mu.Lock()
	haveAcked, haveRefused := len(r.acked), r.refused
	r.mu.Unlock()
	for range 3000 {
		r.mu.Lock()
		ok, failure := len(r.acked) >= haveAcked+acked && r.refused >= haveRefused+refused, r.failure
		r.mu.Unlock()
		if failure != "" {
			return errors.New(failure)
		}
		if ok {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("within 30 s it did not acknowledge %d and refuse %d rounds more", acked, refused)
}

// kill ends it, and returns the rounds that were acknowledged and the one after the last that it may have tried.
func (r *recorder) kill() (acked []int, next int) {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) // with what it runs under; it may have ended
	<-r.done
	_ = r.cmd.Wait()
	return r.acked, r.last + 2
}

// crash is how a process ended by itself.
type crash struct {
	line string // the first of a panic
	said string // all that the process printed, with the stacks
}

func (c *crash) Error() string { return "it crashed: " + c.line }

// crashed returns how the process ended by itself; nil if it did not.
func (r *recorder) crashed() *crash {
	for line := range strings.Lines(r.said.String()) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "unexpected fault") {
			return &crash{strings.TrimSpace(line), r.said.String()}
		}
	}
	return nil
}

// checkEvery is after how many kills, of the usual number of rounds, the folder is looked through, as after the last. A folder is used for
// as many.
const checkEvery = 10

func beginKills(ctx context.Context, dir string, cases int) (func(int, *rand.Rand) (outcome, error), error) {
	work := filepath.Join(dir, "killed")
	var acked []int
	next := 0
	return func(number int, rnd *rand.Rand) (o outcome, err error) {
		after := time.Duration(rnd.IntN(600)) * time.Millisecond
		o.What = fmt.Sprintf("kill -9 after %v", after)
		r, err := startRecorder(work, next)
		if err != nil {
			return o, err
		}
		time.Sleep(after)
		more, following := r.kill()
		if r.failure != "" {
			return o, fmt.Errorf("it does not start: %s", r.failure)
		}
		acked, next = append(acked, more...), following
		if len(acked) < checkEvery*100 && number < cases {
			return o, nil
		}
		o.Lost, err = check(ctx, work, acked, next)
		acked, next = nil, 0
		return o, errors.Join(err, os.RemoveAll(work))
	}, nil
}
