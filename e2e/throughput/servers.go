package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/await"
)

// load loads a server for about that long and returns requests a second, as counted by the client.
type load func(context.Context, time.Duration) (float64, error)

// running is a server that was started.
type running struct {
	load load
	stop func()
	// process is the server's parent process, or the server itself.
	process int
	// endless starts a client that loads the server until it is killed. served returns how many requests the server
	// has answered; nil if the server does not report it.
	endless []string
	served  func() (float64, error)
}

type server func(context.Context) (*running, error)

var servers = map[string]server{"redis": redis, "nginx": nginx, "postgres": postgres}

func requireCommands(commands ...string) error {
	for _, c := range commands {
		if _, err := exec.LookPath(c); err != nil {
			return fmt.Errorf("%s: %w", c, errMissing)
		}
	}
	return nil
}

// background starts a command and waits until its port answers.
func background(ctx context.Context, port string, cmd *exec.Cmd, dir string) (*running, error) {
	p, err := await.Launch(cmd)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop := func() {
		p.Stop(syscall.SIGTERM)
		_ = os.RemoveAll(dir)
	}
	err = p.Until(ctx, "its port answers", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		stop()
		return nil, err
	}
	return &running{stop: stop, process: p.Process.Pid}, nil
}

// rate runs a client and finds its rate in the output.
func rate(ctx context.Context, pattern *regexp.Regexp, name string, args ...string) (float64, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", name, err, out)
	}
	m := pattern.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s printed no rate: %s", name, out)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

var (
	redisRate   = regexp.MustCompile(`GET: ([\d.]+) requests per second`)
	redisServed = regexp.MustCompile(`total_commands_processed:(\d+)`)
)

func redis(ctx context.Context) (*running, error) {
	if err := requireCommands("redis-server", "redis-benchmark", "redis-cli"); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	r, err := background(ctx, port, exec.Command("redis-server", "--port", port, "--save", "", "--appendonly", "no"), "")
	if err != nil {
		return nil, err
	}
	run := func(ctx context.Context, n int) (float64, error) {
		return rate(ctx, redisRate, "redis-benchmark", "-p", port, "-c", "50", "-n", strconv.Itoa(n), "-t", "get", "-q")
	}
	// The client takes a number of requests, not a time.
	perSecond, err := run(ctx, 100_000)
	if err != nil {
		r.stop()
		return nil, err
	}
	r.load = func(ctx context.Context, d time.Duration) (float64, error) {
		return run(ctx, int(perSecond*d.Seconds()))
	}
	r.endless = []string{"redis-benchmark", "-p", port, "-c", "50", "-l", "-n", "10000000", "-t", "get", "-q"}
	r.served = func() (float64, error) {
		return rate(ctx, redisServed, "redis-cli", "-p", port, "info", "stats")
	}
	return r, nil
}

var (
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	nginxServed = regexp.MustCompile(`requests\s+\d+ \d+ (\d+)`)
)

func nginx(ctx context.Context) (*running, error) {
	if err := requireCommands("nginx", "wrk"); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "nginx")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf("daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/error;\nevents {}\n"+
		"http { access_log off; server { listen 127.0.0.1:%[2]s; location / { return 200 'teescope'; } location /status { stub_status; } } }\n", dir, port)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return nil, err
	}
	r, err := background(ctx, port, exec.Command("nginx", "-c", conf), dir)
	if err != nil {
		return nil, err
	}
	wrk := func(d time.Duration) []string {
		return []string{"wrk", "-t1", "-c32", "-d" + strconv.Itoa(max(1, int(d.Seconds()))) + "s", "http://127.0.0.1:" + port + "/"}
	}
	r.load = func(ctx context.Context, d time.Duration) (float64, error) {
		command := wrk(d)
		return rate(ctx, wrkRate, command[0], command[1:]...)
	}
	r.endless = wrk(100 * time.Hour)
	r.served = func() (float64, error) {
		a, err := http.Get("http://127.0.0.1:" + port + "/status")
		if err != nil {
			return 0, err
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			return 0, err
		}
		m := nginxServed.FindSubmatch(text)
		if m == nil {
			return 0, fmt.Errorf("nginx's status names no requests: %s", text)
		}
		return strconv.ParseFloat(string(m[1]), 64)
	}
	return r, nil
}

var pgRate = regexp.MustCompile(`tps = ([\d.]+) \(without`)

// postgres runs as the package's user, because it refuses to run as root.
func postgres(ctx context.Context) (*running, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	who, err := user.Lookup("postgres")
	if len(found) == 0 || err != nil {
		return nil, fmt.Errorf("postgres: %w", errMissing)
	}
	bin := filepath.Dir(found[len(found)-1])
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	as := func(args ...string) *exec.Cmd {
		c := exec.Command(args[0], args[1:]...)
		c.Dir = dir
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		return c
	}
	data := filepath.Join(dir, "data")
	if out, err := as(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust").CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}
	r, err := background(ctx, port, as(filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", port, "-k", ""), dir)
	if err != nil {
		return nil, err
	}
	client := filepath.Join(bin, "pgbench")
	login := []string{"-h", "127.0.0.1", "-p", port, "-U", "postgres"}
	for range 50 { // it listens before it accepts connections
		out, ierr := exec.CommandContext(ctx, client, append([]string{"-i", "-s", "5", "-q"}, append(login, "postgres")...)...).CombinedOutput()
		if err = ierr; err == nil {
			break
		}
		err = fmt.Errorf("pgbench -i: %w: %s", err, out)
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		r.stop()
		return nil, err
	}
	r.load = func(ctx context.Context, d time.Duration) (float64, error) {
		return rate(ctx, pgRate, client, append(login, "-S", "-c", "8", "-j", "1", "-T", strconv.Itoa(max(1, int(d.Seconds()))), "postgres")...)
	}
	return r, nil
}
