// Command demo shows in three minutes the purpose of teescope: a monitor watches a redis-server under load, a program
// starts a system call storm, a finding opens, is explained, and closes when the storm is over. `make demo` runs it.
//
// Everything it starts listens on loopback ports chosen by the kernel, keeps its data in a temporary folder and ends
// with it, even on Ctrl-C.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
)

// What the storm does, and for how long.
const (
	stormName    = "chatty-service"
	stormCall    = "clock_gettime"
	stormRule    = "vdso_bypass"
	stormSeconds = 60
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Println("stopped; everything that was started has ended")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("needs root, as eBPF programs do: sudo make demo")
	}
	dir, err := os.MkdirTemp("", "teescope-demo")
	if err != nil {
		return err
	}
	var s stage
	defer func() {
		s.clear()
		err = errors.Join(err, os.RemoveAll(dir))
	}()

	storm := filepath.Join(dir, "storm")
	if out, err := exec.CommandContext(ctx, "cc", "-static", "-O2", "-o", storm, "workloads/storm/storm.c").CombinedOutput(); err != nil {
		return fmt.Errorf("compile workloads/storm/storm.c: %w\n%s", err, out)
	}

	logf("1. The monitor starts.")
	url, err := s.monitor(ctx, dir)
	if err != nil {
		return err
	}
	logf("   Its page: %s", url)

	logf("2. A redis-server works under redis-benchmark's load: busy, and healthy.")
	load, err := s.redis(ctx, dir)
	if err != nil {
		return err
	}
	if err := sleep(ctx, 15*time.Second); err != nil {
		return err
	}
	if err := explain(ctx, url); err != nil {
		return err
	}

	logf("3. A program named %q calls %s as fast as it can, for %d seconds. Watch the page: %s", stormName, stormCall, stormSeconds, url)
	began := time.Now()
	busy, err := s.start(ctx, nil, storm, "--syscall", stormCall, "--name", stormName, "--seconds", strconv.Itoa(stormSeconds))
	if err != nil {
		return err
	}
	if err := await(ctx, url, "open", time.Minute); err != nil {
		return err
	}
	logf("   After %.0f seconds a finding is open. `teescope explain` says:", time.Since(began).Seconds())
	if err := explain(ctx, url); err != nil {
		return err
	}

	if err := busy.Wait(); err != nil {
		return fmt.Errorf("storm: %w", err)
	}
	load.stop()
	ended := time.Now()
	logf("4. The storm is over, and so is redis' load. A finding closes when its cause has been gone for a minute.")
	if err := await(ctx, url, "closed", 2*time.Minute); err != nil {
		return err
	}
	logf("   After %.0f seconds the finding is closed:", time.Since(ended).Seconds())
	if err := explain(ctx, url); err != nil {
		return err
	}
	if terminal(os.Stdin) {
		logf("The page stays at %s until you press Enter.", url)
		enter := make(chan struct{})
		go func() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n'); close(enter) }()
		select {
		case <-enter:
		case <-ctx.Done():
		}
	}
	return nil
}

// stage holds the running programs, in their starting order.
type stage struct{ running []*program }

type program struct {
	*exec.Cmd
	ended chan struct{}
	err   error
}

// Wait returns how the program ended.
func (p *program) Wait() error { <-p.ended; return p.err }

// stop ends the program: first politely, then by force.
func (p *program) stop() {
	_ = p.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.Process.Kill()
		<-p.ended
	}
}

// start runs a program in its own process group, so Ctrl-C reaches only this one and
// the others end in order. A nil stdout is discarded.
func (s *stage) start(ctx context.Context, stdout io.Writer, name string, args ...string) (*program, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout = stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &program{Cmd: c, ended: make(chan struct{})}
	go func() { p.err = c.Wait(); close(p.ended) }()
	s.running = append(s.running, p)
	return p, nil
}

// clear ends the running programs, the last first.
func (s *stage) clear() {
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].stop()
	}
}

// monitor starts teescope and returns the address of its page.
func (s *stage) monitor(ctx context.Context, dir string) (string, error) {
	r, w := io.Pipe()
	p, err := s.start(ctx, w, "bin/teescope", "monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"))
	if err != nil {
		return "", err
	}
	found := make(chan string, 1)
	go func() {
		at := regexp.MustCompile(`http://\S+?:\d+`)
		for sc := bufio.NewScanner(r); sc.Scan(); {
			if u := at.FindString(sc.Text()); u != "" {
				select {
				case found <- u:
				default:
				}
			}
		}
	}()
	select {
	case u := <-found:
		return u, nil
	case <-p.ended:
		return "", fmt.Errorf("the monitor ended: %w", p.err)
	case <-time.After(30 * time.Second):
		return "", errors.New("the monitor printed no address within 30 seconds")
	}
}

// redis starts a server and its load, and returns the load.
func (s *stage) redis(ctx context.Context, dir string) (*program, error) {
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(ports[0])
	if _, err := s.start(ctx, nil, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir); err != nil {
		return nil, err
	}
	for range 50 {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = c.Close()
			break
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return s.start(ctx, nil, "redis-benchmark", "-p", port, "-t", "set,get", "-c", "16", "-n", "100000000", "-q")
}

// await waits until the storm's finding has the given state.
func await(ctx context.Context, url, state string, limit time.Duration) error {
	for end := time.Now().Add(limit); time.Now().Before(end); {
		var answer struct {
			Findings []struct{ Rule, Subject, State string }
		}
		if err := getJSON(ctx, url+"/api/teescope/v1/findings", &answer); err != nil {
			return err
		}
		for _, f := range answer.Findings {
			if f.Rule == stormRule && f.Subject == stormName && f.State == state {
				return nil
			}
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("no finding of %s is %s after %v", stormName, state, limit)
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, r.Status)
	}
	return json.NewDecoder(r.Body).Decode(into)
}

// explain shows the output of `teescope explain`, indented.
func explain(ctx context.Context, url string) error {
	out, err := exec.CommandContext(ctx, "bin/teescope", "explain", "--server", url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("teescope explain: %w\n%s", err, out)
	}
	fmt.Println("      $ teescope explain --server " + url)
	for line := range strings.Lines(string(out)) {
		fmt.Print("      " + line)
	}
	fmt.Println()
	return nil
}

func logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// terminal reports whether a person can press Enter there.
func terminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
