// Command accuracy compares what a monitor within its budget says of a server's system calls
// with what the kernel counts, minute by minute, under loads that are steady, slow, and in bursts: reads and writes of
// redis in /proc/PID/io (proc_pid_io(5)), which the monitor knows too, and its calls of epoll_wait in redis itself, which it
// does not. They are nearly all of its system calls. It is part of `make bench`;
// docs/lab/performance.md holds its output, which is only valid for the machine it ran on.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/stats"
)

type options struct {
	bin, budget string
	minutes     int
	minute      time.Duration
}

func main() {
	var o options
	var chosen string
	flag.StringVar(&o.bin, "bin", "bin/teescope", "binary to measure; teescope-work lies beside it")
	flag.StringVar(&o.budget, "budget", "1%", "the monitor's budget")
	flag.IntVar(&o.minutes, "minutes", 20, "windows for each load")
	flag.DurationVar(&o.minute, "window", time.Minute, "length of a window; the stated error is that of a minute")
	flag.StringVar(&chosen, "loads", "full,slow,bursts", "loads, in this order")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx, strings.Split(chosen, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

// loads loads the redis at a port until ctx ends.
var loads = map[string]func(ctx context.Context, bin, port string) error{
	"full": func(ctx context.Context, _, port string) error {
		return until(ctx, "redis-benchmark", "-p", port, "-c", "50", "-t", "get", "-q", "-l", "-n", "1000000")
	},
	"slow": func(ctx context.Context, bin, port string) error {
		return until(ctx, filepath.Join(filepath.Dir(bin), "teescope-work"), "load", "--protocol", "resp", "--address", "127.0.0.1:"+port, "--command", "GET key:{key}", "--populate", "--rate", "10000", "--measure", "12h")
	},
	// Between 0.1 and 2 s of full load, then a pause of the same mean length.
	"bursts": func(ctx context.Context, _, port string) error {
		for ctx.Err() == nil {
			burst, end := context.WithTimeout(ctx, 100*time.Millisecond+rand.N(1900*time.Millisecond))
			err := until(burst, "redis-benchmark", "-p", port, "-c", "50", "-t", "get", "-q", "-l", "-n", "1000000")
			end()
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(100*time.Millisecond + rand.N(1900*time.Millisecond)):
			}
		}
		return nil
	},
}

// until runs a command that ends with ctx.
func until(ctx context.Context, name string, args ...string) error {
	if err := exec.CommandContext(ctx, name, args...).Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (o options) run(ctx context.Context, chosen []string) error {
	for _, name := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed", name)
		}
	}
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWaits(ctx, dir)
	if err != nil {
		return err
	}
	m, err := o.monitor(ctx, dir)
	if err != nil {
		return err
	}
	defer m.stop()
	fmt.Println("| load | calls | a second | coverage | minutes | error, mean | size of the error, median | largest | stated error, median | minutes within 1.96 stated errors |\n|---|---|---|---|---|---|---|---|---|---|")
	for _, name := range chosen {
		load, ok := loads[name]
		if !ok {
			return fmt.Errorf("no load %q; there are full, slow and bursts", name)
		}
		if err := o.one(ctx, m, w, dir, name, load); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// process is a running command.
type process struct {
	*await.Program
	url string
}

func (p *process) stop() { p.Stop(syscall.SIGTERM) }

var atURL = regexp.MustCompile(`http://[^/\s]+`)

func (o options) monitor(ctx context.Context, dir string) (*process, error) {
	program, err := await.Launch(exec.Command(o.bin, "monitor", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--budget", o.budget))
	if err != nil {
		return nil, err
	}
	p := &process{Program: program}
	err = p.Until(ctx, "the monitor has readings", func() error {
		if p.url = atURL.FindString(p.Out.String()); p.url == "" {
			return errors.New("it has not printed its URL")
		}
		points, err := p.samples(ctx, `teescope_source_up{source="syscalls"}[10s]`)
		if err == nil && len(points) == 0 {
			err = errors.New("it has none")
		}
		return err
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// one runs a load next to its own redis and prints a row.
func (o options) one(ctx context.Context, m *process, w waits, dir, name string, load func(context.Context, string, string) error) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	comm := "acc-" + name
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	link := filepath.Join(dir, comm)
	if err := os.Symlink(program, link); err != nil {
		return err
	}
	command := exec.Command(link, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := w.count(command); err != nil {
		return err
	}
	redis, err := await.Launch(command)
	if err != nil {
		return err
	}
	defer redis.Stop(syscall.SIGTERM)
	err = redis.Until(ctx, "Redis answers", func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		return err
	}
	loading, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 1)
	var loader sync.WaitGroup
	defer loader.Wait()
	defer end()
	loader.Go(func() { failed <- load(loading, o.bin, port) })
	// The first minute includes the load's start in its stated error.
	length := time.Duration(o.minutes)*o.minute + o.minute + 15*time.Second
	transfers, waited, err := follow(ctx, redis.Process.Pid, w, length, failed)
	if err != nil {
		return err
	}
	both := make([]point, len(transfers))
	for i := range transfers {
		both[i] = point{transfers[i].at, transfers[i].value + waited[i].value}
	}
	of, names := fmt.Sprintf("process=%q", comm), "p?readv?(64)?|p?writev?(64)?"
	ofProcess := `teescope_process_standard_error_ratio{source="syscalls",` + of + `}`
	for _, row := range []struct {
		calls, labels, stated string
		truth                 []point
	}{
		{"reads and writes", fmt.Sprintf("%s,syscall=~%q", of, names), ofProcess, transfers},
		{"epoll_wait", of + `,syscall="epoll_wait"`, `teescope_source_standard_error_ratio{source="syscalls",of="rest"}`, waited},
		{"both", fmt.Sprintf("%s,syscall=~%q", of, names+"|epoll_wait"), ofProcess, both},
	} {
		if err := o.compare(ctx, m, name+" | "+row.calls, row.labels, row.stated, row.truth, length); err != nil {
			return err
		}
	}
	return nil
}

func freePort() (string, error) {
	ports, err := host.Local().FreePorts(1)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(ports[0]), nil
}

// point is a value at a time in seconds since the epoch.
type point struct{ at, value float64 }

// follow reads the kernel's counts of a process's reads and writes, and its own of epoll_wait, ten times a second.
func follow(ctx context.Context, pid int, w waits, length time.Duration, failed <-chan error) (transfers, waited []point, err error) {
	counts := regexp.MustCompile(`sysc[rw]: (\d+)`)
	end := time.After(length)
	for t := time.NewTicker(100 * time.Millisecond); ; {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if err != nil {
			return nil, nil, err
		}
		p := point{at: float64(time.Now().UnixNano()) / 1e9}
		for _, m := range counts.FindAllSubmatch(b, -1) {
			n, err := strconv.ParseFloat(string(m[1]), 64)
			if err != nil {
				return nil, nil, err
			}
			p.value += n
		}
		transfers = append(transfers, p)
		p = point{at: float64(time.Now().UnixNano()) / 1e9}
		if p.value, err = w.read(); err != nil {
			return nil, nil, err
		}
		waited = append(waited, p)
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case err := <-failed:
			return nil, nil, errors.Join(errors.New("the load ended"), err)
		case <-end:
			return transfers, waited, nil
		case <-t.C:
		}
	}
}

// interpolate interpolates between the two points around a time.
func interpolate(points []point, at float64) float64 {
	i, _ := slices.BinarySearchFunc(points, at, func(p point, at float64) int {
		if p.at < at {
			return -1
		}
		return 1
	})
	if i == 0 || i == len(points) {
		return math.NaN()
	}
	a, b := points[i-1], points[i]
	return a.value + (b.value-a.value)*(at-a.at)/(b.at-a.at)
}

// compare prints a row: the monitor's count of the calls that the labels choose, against the truth. stated is the series
// of their standard error; where it is not there, that of all events stands for it.
func (o options) compare(ctx context.Context, m *process, name, labels, stated string, truth []point, length time.Duration) error {
	span := fmt.Sprintf("[%ds]", int(length.Seconds())+10)
	said, err := m.samples(ctx, "tee_syscalls_total{"+labels+"}"+span)
	if err != nil {
		return err
	}
	stateds := map[float64]float64{}
	for _, series := range []string{`teescope_source_standard_error_ratio{source="syscalls",of="sum"}`, stated} {
		points, err := m.samples(ctx, series+span)
		if err != nil {
			return err
		}
		for _, p := range points {
			stateds[p.at] = p.value
		}
	}
	covered, err := m.samples(ctx, `teescope_source_coverage_ratio{source="syscalls"}`+span)
	if err != nil {
		return err
	}
	var errs, claims, shares []float64
	within, calls, seconds, bias := 0, 0.0, 0.0, 0.0
	var begin *point
	for i := range said {
		p := said[i]
		switch {
		case p.at < truth[0].at+o.minute.Seconds() || p.at > truth[len(truth)-1].at:
			continue
		case begin == nil:
			begin = &said[i]
			continue
		case p.at-begin.at < o.minute.Seconds()-1:
			continue
		}
		n := interpolate(truth, p.at) - interpolate(truth, begin.at)
		// Without a stated error the count claims to be exact.
		e, claim := (p.value-begin.value)/n-1, stateds[p.at]
		errs, claims = append(errs, math.Abs(e)), append(claims, claim)
		bias += e
		if math.Abs(e) <= max(1.96*claim, 0.001) { // truth is interpolated over a tenth of a second
			within++
		}
		calls, seconds = calls+n, seconds+p.at-begin.at
		begin = &said[i]
	}
	if len(errs) == 0 {
		return errors.New("the monitor has no minute of it")
	}
	for _, p := range covered {
		if p.at >= truth[0].at {
			shares = append(shares, p.value)
		}
	}
	fmt.Printf("| %s | %.0f | %.2g | %d | %+.1f %% | %.1f %% | %.1f %% | %.1f %% | %d |\n", name, calls/seconds, stats.Median(shares), len(errs),
		100*bias/float64(len(errs)), 100*stats.Median(errs), 100*slices.Max(errs), 100*stats.Median(claims), within)
	return nil
}

// samples returns the stored samples of a range vector, summed over its series.
func (p *process) samples(ctx context.Context, query string) ([]point, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var a struct {
		Error string
		Data  struct {
			Result []struct {
				Values [][2]any
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	sum := map[float64]float64{}
	for _, s := range a.Data.Result {
		for _, v := range s.Values {
			at, _ := v[0].(float64)
			text, _ := v[1].(string)
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			sum[at] += n
		}
	}
	var out []point
	for at, v := range sum {
		out = append(out, point{at, v})
	}
	slices.SortFunc(out, func(a, b point) int { return int(math.Copysign(1, a.at-b.at)) })
	return out, nil
}
