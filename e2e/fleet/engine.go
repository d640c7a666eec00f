package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// engine is what scrapes the agents: a monitor or a Prometheus. It has a folder of its own, which close removes.
type engine struct {
	name string
	ours bool
	url  string
	dir  string
	cmd  *exec.Cmd
	gone chan error
}

// job is the name of the agents' job.
const job = "agents"

// startEngine starts the monitor, or the Prometheus at a path, on the first targets of the agents.
func (o options) startEngine(ctx context.Context, a *agents, targets int, prometheus string) (e *engine, err error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	e = &engine{dir: dir, name: "teescope monitor", ours: prometheus == "", gone: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	found, err := a.discovery(targets)
	if err != nil {
		return e, err
	}
	config := fmt.Sprintf("global: {scrape_interval: %s, scrape_timeout: %s}\nscrape_configs:\n- job_name: %s\n  file_sd_configs: [{files: [targets.json]}]\n", inPrometheus(o.every), inPrometheus(min(o.every, 10*time.Second)), job)
	file := filepath.Join(dir, "config.yml")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "targets.json"), found, 0o644), os.WriteFile(file, []byte(config), 0o644)); err != nil {
		return e, err
	}
	if e.ours {
		e.cmd = exec.CommandContext(ctx, o.bin, "monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--config", file, "--sources", "^self$")
	} else {
		port, err := freePort()
		if err != nil {
			return e, err
		}
		e.name, e.url = "Prometheus", "http://127.0.0.1:"+port
		e.cmd = exec.CommandContext(ctx, prometheus, "--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:"+port)
	}
	return e, e.start(ctx)
}

// inPrometheus writes a duration of whole seconds.
func inPrometheus(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// start runs the program until it is ready. It ends with this program.
func (e *engine) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(e.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	e.cmd.Stderr = log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	e.cmd.Cancel = func() error { return e.cmd.Process.Signal(syscall.SIGTERM) }
	e.cmd.WaitDelay = time.Minute
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := e.cmd.Start(); err != nil {
		e.cmd = nil
		return err
	}
	lines := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			if _, u, ok := strings.Cut(sc.Text(), "page: "); ok {
				lines <- strings.TrimSuffix(u, "/")
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	go func() {
		<-read
		e.gone <- e.cmd.Wait()
	}()
	for began := time.Now(); time.Since(began) < 3*time.Minute; {
		if e.url != "" {
			if _, err := get(ctx, e.url+"/-/ready"); err == nil {
				return nil
			}
		}
		select {
		case u := <-lines:
			e.url = u
		case err := <-e.gone:
			e.cmd = nil
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended at its start: %w: %s", e.name, err, tail(said))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s at %q is not ready after three minutes", e.name, e.url)
}

// close ends the program, and removes its folder.
func (e *engine) close() error {
	var err error
	if e.cmd != nil {
		_ = e.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-e.gone:
		case <-time.After(2 * time.Minute):
			_ = e.cmd.Process.Kill()
			err = errors.Join(fmt.Errorf("%s did not end within two minutes", e.name), <-e.gone)
		}
		if errors.As(err, new(*exec.ExitError)) || errors.Is(err, context.Canceled) {
			said, _ := os.ReadFile(filepath.Join(e.dir, "log"))
			err = fmt.Errorf("%s: %w: %s", e.name, err, tail(said))
		}
	}
	return errors.Join(err, os.RemoveAll(e.dir))
}

func tail(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// cpu returns the user and system time of the program in seconds, from /proc/PID/stat at 100 ticks a second.
func (e *engine) cpu() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", e.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	u, err1 := strconv.ParseFloat(f[11], 64)
	s, err2 := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100, errors.Join(err1, err2)
}

var residents = regexp.MustCompile(`(?m)^(?:VmRSS|RssAnon):\s+(\d+) kB`)

// resident returns the resident memory of the program in bytes, and its anonymous part.
func (e *engine) resident() (all, anonymous float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	m := residents.FindAllSubmatch(b, 2)
	if len(m) != 2 {
		return 0, 0, fmt.Errorf("parse /proc/%d/status: want VmRSS and RssAnon", e.cmd.Process.Pid)
	}
	all, err1 := strconv.ParseFloat(string(m[0][1]), 64)
	anonymous, err2 := strconv.ParseFloat(string(m[1][1]), 64)
	return all * 1024, anonymous * 1024, errors.Join(err1, err2)
}

func get(ctx context.Context, u string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.200s", u, r.Status, b)
	}
	return b, err
}

// reading is a sample: Unix time in seconds, and the value.
type reading struct{ at, value float64 }

// UnmarshalJSON reads a sample of Prometheus' API: [time, "value"].
func (r *reading) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &[]any{&r.at, &text})
	if err == nil {
		r.value, err = strconv.ParseFloat(text, 64)
	}
	return err
}

// series is a series of an answer: one value, or several.
type series struct {
	Metric map[string]string
	Value  *reading
	Values []reading
}

// query evaluates an expression at a time.
func (e *engine) query(ctx context.Context, expr string, at time.Time) ([]series, error) {
	v := url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	b, err := get(ctx, e.url+"/api/v1/query?"+v.Encode())
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct{ Result []series }
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	return answer.Data.Result, nil
}

// number evaluates an expression whose result is one number; ok is false where it has none.
func (e *engine) number(ctx context.Context, expr string, at time.Time) (v float64, ok bool, err error) {
	got, err := e.query(ctx, expr, at)
	if err != nil || len(got) == 0 {
		return 0, false, err
	}
	if len(got) > 1 || got[0].Value == nil {
		return 0, false, fmt.Errorf("query %s: want one number, got %d series", expr, len(got))
	}
	return got[0].Value.value, true, nil
}
