package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// openPages are the numbers of open pages to compare.
var openPages = []int{0, 1, 10}

// pages measures the cost of open pages to the monitor: its CPU time with none, one and ten open, in random order,
// next to a load of many process names and with an hour of their data in the store. The CPUs do not sleep: pages are drawn
// here too, so without any each of the monitor's wake-ups would cost more.
func (o options) pages() error {
	dir, err := os.MkdirTemp("", "perf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := o.history(filepath.Join(dir, "data"), time.Now().Truncate(5*time.Second)); err != nil {
		return err
	}
	stop, err := o.load(dir)
	if err != nil {
		return err
	}
	defer stop()
	sleepless, err := awake()
	if err != nil {
		return err
	}
	defer sleepless.Close() // nil too
	m, err := o.monitor(filepath.Join(dir, "data"))
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }() // after an error
	b, err := o.browser(m.url + "/")
	if err != nil {
		return err
	}
	defer b.close()
	time.Sleep(4 * o.pageSettle) // the first readings and rules, the first start of the browser
	used := map[int][]float64{}  // percent of one core by number of pages
	ledger := map[int][]float64{}
	for range o.pageRounds {
		for _, i := range rand.Perm(len(openPages)) {
			n := openPages[i]
			if err := b.open(n); err != nil {
				return err
			}
			time.Sleep(o.pageSettle)
			before, err := cpuSeconds(m.Process.Pid)
			if err != nil {
				return err
			}
			page := m.pageSeconds()
			time.Sleep(o.pageMeasure)
			after, err := cpuSeconds(m.Process.Pid)
			if err != nil {
				return err
			}
			used[n] = append(used[n], 100*(after-before)/o.pageMeasure.Seconds())
			ledger[n] = append(ledger[n], 100*(m.pageSeconds()-page)/o.pageMeasure.Seconds())
		}
	}
	how := fmt.Sprintf("user and system time of the process over %v; median of %d rounds in random order (least, most); %d process names under load, an hour of data, refresh every 5 s, CPUs that do not sleep", o.pageMeasure, o.pageRounds, o.names)
	for _, n := range openPages {
		o.row(fmt.Sprintf("CPU, %d pages open", n), middle(used[n])+" of one core", how)
		if n == 0 {
			continue
		}
		extra := make([]float64, o.pageRounds)
		for i := range extra {
			extra[i] = used[n][i] - used[0][i]
		}
		o.row(fmt.Sprintf("of it for %d pages", n), middle(extra)+" of one core", "difference from no page in the same round")
		value := middle(ledger[n]) + " of one core"
		if slices.ContainsFunc(ledger[n], math.IsNaN) {
			value = "absent"
		}
		o.row(fmt.Sprintf("for %d pages by the monitor's own account", n), value, `teescope_overhead_cpu_seconds_total{part="page"}, without garbage collection`)
	}
	return errors.Join(b.close(), m.stop())
}

func middle(v []float64) string {
	s := slices.Sorted(slices.Values(v))
	return fmt.Sprintf("%.2f %% (%.2f, %.2f)", s[len(s)/2], s[0], s[len(s)-1])
}

// pageSeconds returns the monitor's own account, NaN without one.
func (m *running) pageSeconds() float64 {
	b, err := get(m.url + "/metrics")
	if err != nil {
		return math.NaN()
	}
	found := regexp.MustCompile(`teescope_overhead_cpu_seconds_total\{part="page"\} (\S+)`).FindSubmatch(b)
	if found == nil {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// tabs is a browser that opens pages.
type tabs struct {
	*exec.Cmd
	in   *os.File
	out  *bufio.Scanner
	done bool
}

func (o options) browser(url string) (*tabs, error) {
	b := &tabs{Cmd: exec.Command("node", filepath.Join(filepath.Dir(o.usable), "open.js"), url)}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.Stdin, b.in, b.Stderr = r, w, os.Stderr
	out, err := b.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.out = bufio.NewScanner(out)
	return b, errors.Join(b.Start(), r.Close())
}

// open returns once n pages show their charts.
func (b *tabs) open(n int) error {
	if _, err := fmt.Fprintln(b.in, n); err != nil {
		return err
	}
	if !b.out.Scan() || b.out.Text() != strconv.Itoa(n) {
		return fmt.Errorf("the browser did not open %d pages: %q", n, b.out.Text())
	}
	return nil
}

func (b *tabs) close() error {
	if b.done {
		return nil
	}
	b.done = true
	return errors.Join(b.in.Close(), b.Wait())
}

// burdens are the calls of the load; each process makes one of them.
var burdens = []string{"getpid", "getppid", "getuid", "getcpu", "umask", "sched_yield", "clock_gettime", "times", "sysinfo", "uname", "getrusage", "futex"}

func nameOf(i int) string { return fmt.Sprintf("load-%03d", i) }

// awake keeps the CPUs from sleeping until the file is closed (Documentation/power/pm_qos_interface.rst). Where the
// kernel has no such file, it says so and returns nil.
func awake() (*os.File, error) {
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "no /dev/cpu_dma_latency here: CPUs that sleep between wake-ups make the monitor alone look more expensive")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keep the CPUs awake: %w", err)
	}
	if _, err := f.Write(make([]byte, 4)); err != nil { // a latency of 0 us
		return nil, errors.Join(fmt.Errorf("keep the CPUs awake: %w", err), f.Close())
	}
	return f, nil
}

// load starts a process for each name, which makes some fifty system calls a second.
func (o options) load(dir string) (stop func(), err error) {
	program := filepath.Join(dir, "storm")
	if out, err := exec.Command("cc", "-static", "-O2", "-o", program, o.storm).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cc: %w: %s", err, out)
	}
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Signal(syscall.SIGTERM)
		}
		for _, c := range all {
			_ = c.Wait()
		}
	}
	for i := range o.names {
		c := exec.Command(program, "--name", nameOf(i), "--syscall", burdens[i%len(burdens)], "--rate", "50", "--seconds", "7200")
		if err := c.Start(); err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// history fills a store with an hour of the data that a monitor would have stored of the load.
func (o options) history(dir string, end time.Time) error {
	so := store.DefaultOptions()
	so.Dir = dir
	so.Instance, _ = os.Hostname()
	so.RuleInterval = 24 * time.Hour // the recorded series are written below
	st, err := store.Open(context.Background(), so)
	if err != nil {
		return err
	}
	counter := func(name string, labels ...string) *metric.Desc {
		return &metric.Desc{Name: name, Kind: metric.Counter, Labels: labels}
	}
	calls, switches := counter("tee_syscalls_total", "process", "syscall"), counter("tee_context_switches_total", "process", "kind")
	faults, cpu := counter("tee_page_faults_total", "process", "space", "cause"), counter("tee_process_cpu_seconds_total", "process")
	var samples, recorded []metric.Sample
	add := func(d *metric.Desc, labels ...string) {
		samples = append(samples, metric.Sample{Desc: d, Labels: labels})
	}
	for i := range o.names {
		name := nameOf(i)
		for _, call := range burdens[:8] {
			add(calls, name, call)
		}
		for _, kind := range []string{"voluntary", "involuntary"} {
			add(switches, name, kind)
		}
		for _, cause := range []string{"no_page_found", "protection", "write"} {
			add(faults, name, "user", cause)
		}
		add(cpu, name)
		for _, r := range recordings {
			recorded = append(recorded, metric.Sample{Desc: &metric.Desc{Name: r, Kind: metric.Gauge, Labels: []string{"process"}}, Labels: []string{name}})
		}
	}
	n := 0
	for t := end.Add(-time.Hour); t.Before(end); t = t.Add(5 * time.Second) {
		round := samples
		for i := range samples {
			samples[i].Value += float64((i*7 + n*13) % 500)
		}
		if n%6 == 0 {
			for i := range recorded {
				recorded[i].Value = float64((i*31 + n) % 100)
			}
			round = slices.Concat(samples, recorded)
		}
		if err := st.Append(t, round); err != nil {
			return errors.Join(err, st.Close())
		}
		n++
	}
	return st.Close()
}
