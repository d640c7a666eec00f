// Command generator compares the throughput of our load generator with wrk (HTTP) and
// redis-benchmark (RESP): the same request, on the same number of connections, to the
// same server, in pairs of random order. Each generator has one CPU, and the server
// another. It is part of `make bench`; docs/lab/performance.md holds its output, which is
// only valid for the machine it ran on.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/load"
	"github.com/teescope/teescope/internal/stats"
)

type options struct {
	out     io.Writer
	bin     string
	pairs   int
	measure time.Duration
	// The CPUs of the server and of the generators, in taskset(1)'s notation.
	server, client string
}

func main() {
	o := options{out: os.Stdout}
	flag.StringVar(&o.bin, "bin", "bin/teescope-work", "our load generator")
	flag.IntVar(&o.pairs, "pairs", 10, "pairs of each comparison")
	flag.DurationVar(&o.measure, "measure", 3*time.Second, "length of one measurement")
	flag.StringVar(&o.server, "server-cpu", "0", "CPUs of the server")
	flag.StringVar(&o.client, "client-cpu", "1", "CPU of the generators")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(1)
	}
}

// contest is one request on that many connections, by another generator and by ours.
type contest struct {
	name        string
	connections int
	server      func(o options, port, dir string) (*exec.Cmd, error)
	other       func(o options, port string, connections int, perSecond float64) []string
	rate        *regexp.Regexp // in the other's output
	ours        []string
}

var contests = []contest{
	{"HTTP GET of 612 bytes, nginx; wrk", 64, nginx, wrk, wrkRate, []string{"--protocol", "http1", "--path", "/file"}},
	{"RESP GET of 64 bytes, redis; redis-benchmark", 64, redis, redisBenchmark("1"), redisRate, redisOurs("1")},
	{"the same with a pipeline of 8", 64, redis, redisBenchmark("8"), redisRate, redisOurs("8")},
}

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	redisRate = regexp.MustCompile(`GET: ([\d.]+) requests per second`)
)

func wrk(o options, port string, connections int, _ float64) []string {
	return []string{"wrk", "-t1", "-c" + strconv.Itoa(connections), "-d" + o.measure.String(), "http://127.0.0.1:" + port + "/file"}
}

// Both use the same keys: twelve digits, out of a thousand.
const keys = 1000

func redisBenchmark(pipeline string) func(options, string, int, float64) []string {
	return func(o options, port string, connections int, perSecond float64) []string {
		n := max(10_000, int(perSecond*o.measure.Seconds())) // it takes a number, not a time
		return []string{"redis-benchmark", "-p", port, "-c", strconv.Itoa(connections), "-P", pipeline, "-n", strconv.Itoa(n), "-r", strconv.Itoa(keys), "-t", "get", "-q"}
	}
}

func redisOurs(pipeline string) []string {
	return []string{"--protocol", "resp", "--command", "GET key:000{key}", "--keys", strconv.Itoa(keys), "--populate", "--pipeline", pipeline}
}

func redis(_ options, port, dir string) (*exec.Cmd, error) {
	return exec.Command("redis-server", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir), nil
}

const nginxConfig = `daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events { worker_connections 1024; }
http {
	access_log off;
	keepalive_requests 1000000000;
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	server { listen 127.0.0.1:%s; root .; }
}
`

func nginx(_ options, port, dir string) (*exec.Cmd, error) {
	config := fmt.Appendf(nil, nginxConfig, port)
	if os.Geteuid() == 0 {
		config = append([]byte("user root;\n"), config...) // nginx reads a folder of root's
	}
	err := errors.Join(os.WriteFile(filepath.Join(dir, "nginx.conf"), config, 0o644), os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte("x"), 612), 0o644))
	return exec.Command("nginx", "-p", dir, "-c", "nginx.conf", "-e", "error.log"), err
}

func (o options) run(ctx context.Context) error {
	fmt.Fprintln(o.out, "| request, server; other generator | its requests/s | ours | ours over it | 95 % interval | requests per CPU second, ours over it |\n|---|---|---|---|---|---|")
	for _, c := range contests {
		if err := o.contest(ctx, c); err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				fmt.Fprintf(o.out, "| %s | left out: %v | | | | |\n", c.name, err)
				continue
			}
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// side is the result of one generator: requests per second of time, and of its own CPU.
type side struct{ rate, perCPU []float64 }

func (o options) contest(ctx context.Context, c contest) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "generator")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := c.server(o, port, dir)
	if err != nil {
		return err
	}
	if server.Err != nil {
		return server.Err
	}
	server.Args = append([]string{"taskset", "-c", o.server}, server.Args...)
	if server.Path, err = exec.LookPath("taskset"); err != nil {
		return err
	}
	serving, err := await.Launch(server)
	if err != nil {
		return err
	}
	defer serving.Stop(syscall.SIGTERM)
	err = serving.Until(ctx, "the server's port answers", func() error {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	// Ours fills the server, so it runs first; these runs do not count.
	warm, _, err := o.ours(ctx, c, port)
	if err != nil {
		return err
	}
	if warm, _, err = o.other(ctx, c, port, warm); err != nil {
		return err
	}
	var other, ours side
	for range o.pairs {
		for _, i := range rand.Perm(2) {
			s, measure := &ours, o.ours
			if i == 0 {
				s, measure = &other, func(ctx context.Context, c contest, port string) (float64, float64, error) {
					return o.other(ctx, c, port, warm)
				}
			}
			rate, perCPU, err := measure(ctx, c, port)
			if err != nil {
				return err
			}
			s.rate, s.perCPU = append(s.rate, rate), append(s.perCPU, perCPU)
		}
	}
	r := stats.Paired(other.rate, ours.rate, stats.Options{Margin: 0.03, Confidence: 0.95, Better: 1, Seed: 1})
	p := stats.Paired(other.perCPU, ours.perCPU, stats.Options{Margin: 0.03, Confidence: 0.95, Better: 1, Seed: 1})
	fmt.Fprintf(o.out, "| %s | %.0f | %.0f | %.2f | [%.2f, %.2f] | %.2f [%.2f, %.2f] |\n", c.name, r.BaseMedian, r.TreatMedian, r.Ratio, r.Low, r.High, p.Ratio, p.Low, p.High)
	return nil
}

// pinned runs a generator on its CPU.
func (o options) pinned(ctx context.Context, argv []string) (stdout []byte, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", o.client}, argv...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if _, err := exec.LookPath(argv[0]); err != nil {
		return nil, 0, err
	}
	if err := cmd.Run(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %s", argv[0], err, errs.Bytes())
	}
	return out.Bytes(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// other runs the other generator. Its rate is per second of the time that it measures; its CPU time covers the whole
// run, which is mostly that.
func (o options) other(ctx context.Context, c contest, port string, perSecond float64) (rate, perCPU float64, err error) {
	began := time.Now()
	out, cpu, err := o.pinned(ctx, c.other(o, port, c.connections, perSecond))
	if err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	m := c.rate.FindSubmatch(out)
	if m == nil {
		return 0, 0, fmt.Errorf("it printed no rate: %.300s", out)
	}
	if rate, err = strconv.ParseFloat(string(m[1]), 64); err != nil {
		return 0, 0, err
	}
	return rate, rate * took.Seconds() / cpu.Seconds(), nil
}

// ours runs our generator.
func (o options) ours(ctx context.Context, c contest, port string) (rate, perCPU float64, err error) {
	argv := append([]string{o.bin, "load", "--json", "--address", "127.0.0.1:" + port, "--connections", strconv.Itoa(c.connections),
		"--warm", "200ms", "--measure", o.measure.String()}, c.ours...)
	out, _, err := o.pinned(ctx, argv)
	if err != nil {
		return 0, 0, err
	}
	var r load.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, 0, err
	}
	if len(r.Errors) > 0 || r.Requests == 0 {
		return 0, 0, fmt.Errorf("%d requests, errors %v", r.Requests, r.Errors)
	}
	return float64(r.Requests) / r.Seconds, float64(r.Requests) / r.CPUSeconds, nil
}

func freePort() (string, error) {
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(ports[0]), nil
}
