// Command perf measures what the built monitor costs and prints a table: size, start,
// idle CPU, memory, scrape, and a day of stored data. It is part of `make bench`;
// docs/lab/performance.md holds its output. Timings are medians of several runs and only
// valid for the machine they ran on.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

type options struct {
	out           io.Writer
	bin, dist     string
	usable        string
	idle, settle  time.Duration
	churn         time.Duration
	series, hours int

	// For the measurement of open pages.
	storm                   string
	names, pageRounds       int
	pageSettle, pageMeasure time.Duration
	only                    string
}

func main() {
	o := options{out: os.Stdout}
	flag.StringVar(&o.bin, "bin", "bin/teescope", "binary to measure")
	flag.StringVar(&o.dist, "page", "ui/dist", "build of the page")
	flag.StringVar(&o.usable, "usable", "e2e/browser/usable.js", "what times a page in a browser")
	flag.DurationVar(&o.idle, "idle", 2*time.Minute, "how long to watch idle CPU")
	flag.DurationVar(&o.settle, "settle", 10*time.Minute, "age of the monitor at which its memory is read")
	flag.DurationVar(&o.churn, "churn", 30*time.Minute, "how long control groups and processes come and go beside an agent")
	flag.IntVar(&o.series, "series", 5000, "series of the synthetic day")
	flag.IntVar(&o.hours, "hours", 24, "length of the synthetic data in hours, at 5 s")
	flag.StringVar(&o.storm, "storm", "workloads/storm/storm.c", "source of the load")
	flag.IntVar(&o.names, "names", 130, "process names under load while pages are open")
	flag.IntVar(&o.pageRounds, "pagerounds", 5, "rounds of no, one and ten open pages")
	flag.DurationVar(&o.pageSettle, "pagesettle", 15*time.Second, "how long pages are open before the monitor is measured")
	flag.DurationVar(&o.pageMeasure, "pagemeasure", time.Minute, "how long the monitor is measured for each number of pages")
	flag.StringVar(&o.only, "only", "", "measure only this: sizes, starts, doctor, live, agent, day or pages")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func (o options) row(what, value, how string) {
	fmt.Fprintf(o.out, "| %s | %s | %s |\n", what, value, how)
}

func (o options) run() error {
	fmt.Fprintln(o.out, "| what | measured | how |\n|---|---|---|")
	ran := false
	for _, step := range []struct {
		name string
		run  func() error
	}{{"sizes", o.sizes}, {"starts", o.starts}, {"doctor", o.doctor}, {"live", o.live}, {"agent", o.agent}, {"day", o.day}, {"pages", o.pages}} {
		if o.only != "" && o.only != step.name {
			continue
		}
		ran = true
		if err := step.run(); err != nil {
			return err
		}
	}
	if !ran {
		return fmt.Errorf("-only %s: no such measurement", o.only)
	}
	return nil
}

func (o options) sizes() error {
	fi, err := os.Stat(o.bin)
	if err != nil {
		return err
	}
	o.row("binary", fmt.Sprintf("%.1f MiB", float64(fi.Size())/(1<<20)), "stripped, static")
	index, err := os.ReadFile(filepath.Join(o.dist, "index.html"))
	if err != nil {
		o.row("page, first load", "absent", "the page is not built: "+err.Error())
		return nil
	}
	total := zipped(index)
	for _, m := range regexp.MustCompile(`(?:src|href)="\.?/?([^"]+\.(?:js|css))"`).FindAllSubmatch(index, -1) {
		b, err := os.ReadFile(filepath.Join(o.dist, string(m[1])))
		if err != nil {
			return err
		}
		total += zipped(b)
	}
	o.row("page, first load", fmt.Sprintf("%.0f KiB", float64(total)/1024), "HTML, JS and CSS that index.html names, gzip")
	return nil
}

func zipped(b []byte) int {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Len()
}

// running is a monitor or an agent and the time it took to be ready.
type running struct {
	*await.Program
	url   string // its output: the page's address, or the metrics'
	start time.Duration
}

func (o options) monitor(data string) (*running, error) {
	return o.start("page: ", "monitor", "--listen", "127.0.0.1:0", "--data", data)
}

// start runs the binary, which prints its URL after a word.
func (o options) start(word string, args ...string) (*running, error) {
	began := time.Now()
	p, err := await.Launch(exec.Command(o.bin, args...))
	if err != nil {
		return nil, err
	}
	m := &running{Program: p}
	err = p.Until(context.Background(), "teescope is ready", func() error {
		_, u, _ := strings.Cut(p.Out.String(), word)
		u, _, whole := strings.Cut(u, "\n")
		if !whole {
			return errors.New("it has not printed its URL")
		}
		m.url = strings.TrimSuffix(u, "/")
		_, err := get(strings.TrimSuffix(m.url, "/metrics") + "/-/ready")
		return err
	})
	if err != nil {
		return nil, errors.Join(err, m.stop())
	}
	m.start = time.Since(began)
	return m, nil
}

// stop ends it, which is to succeed.
func (m *running) stop() error {
	if code := m.Stop(syscall.SIGTERM); code != 0 {
		return errors.New(m.Last())
	}
	return nil
}

func get(u string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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

func (o options) starts() error {
	var times []time.Duration
	for range 5 {
		data, err := os.MkdirTemp("", "perf")
		if err != nil {
			return err
		}
		m, err := o.monitor(data)
		if err != nil {
			return err
		}
		times = append(times, m.start)
		if err := errors.Join(m.stop(), os.RemoveAll(data)); err != nil {
			return err
		}
	}
	o.row("start to first sample, empty data", spread(times), "median of 5 (least, most)")
	return nil
}

func (o options) doctor() error {
	var times []time.Duration
	for range 5 {
		began := time.Now()
		if err := exec.Command(o.bin, "doctor").Run(); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	o.row("doctor", spread(times), "median of 5, whole process")
	return nil
}

func spread(t []time.Duration) string {
	slices.Sort(t)
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return fmt.Sprintf("%.1f ms (%.1f, %.1f)", ms(t[len(t)/2]), ms(t[0]), ms(t[len(t)-1]))
}

// live measures a monitor of this machine.
func (o options) live() error {
	data, err := os.MkdirTemp("", "perf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	m, err := o.monitor(data)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }() // after an error
	began := time.Now()
	var times []time.Duration
	var body []byte
	for range 50 {
		at := time.Now()
		if body, err = get(m.url + "/metrics"); err != nil {
			return err
		}
		times = append(times, time.Since(at))
	}
	series := 0
	for l := range bytes.Lines(body) {
		if !bytes.HasPrefix(l, []byte("#")) {
			series++
		}
	}
	o.row("scrape of this machine", spread(times), fmt.Sprintf("median of 50, sources read each time, %d series, %d KiB", series, len(body)>>10))
	time.Sleep(10 * time.Second) // the first rounds open files and compile queries
	before, err := cpuSeconds(m.Process.Pid)
	if err != nil {
		return err
	}
	time.Sleep(o.idle)
	after, err := cpuSeconds(m.Process.Pid)
	if err != nil {
		return err
	}
	o.row("CPU at a 5 s interval", fmt.Sprintf("%.2f %% of one core", 100*(after-before)/o.idle.Seconds()), fmt.Sprintf("user and system time of the process over %v, no page open", o.idle))
	time.Sleep(time.Until(began.Add(o.settle)))
	rss, err := resident(m.Process.Pid)
	if err != nil {
		return err
	}
	o.row("resident memory", rss, fmt.Sprintf("after %v", o.settle))
	if err := o.opened(m.url+"/?range=5m", "overview usable in a browser, 5 min"); err != nil {
		return err
	}
	return m.stop()
}

// opened times a page in a browser.
func (o options) opened(url, what string) error {
	var out, errs bytes.Buffer
	c := exec.Command("node", o.usable, url)
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		o.row(what, "absent", cmp.Or(strings.Join(strings.Fields(errs.String()), " "), err.Error()))
		return nil
	}
	var times []time.Duration
	for _, ms := range strings.Fields(out.String()) {
		d, err := time.ParseDuration(ms + "ms")
		if err != nil {
			return fmt.Errorf("%s: it printed %q", o.usable, ms)
		}
		times = append(times, d)
	}
	if len(times) == 0 {
		return fmt.Errorf("%s printed nothing", o.usable)
	}
	o.row(what, spread(times), fmt.Sprintf("median of %d with an empty cache, from asking for the page until the charts on the screen are drawn", len(times)))
	return nil
}

// cpuSeconds returns utime + stime of /proc/PID/stat, at 100 ticks a second.
func cpuSeconds(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	u, err1 := strconv.ParseFloat(f[11], 64)
	s, err2 := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100, errors.Join(err1, err2)
}

func resident(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", err
	}
	var mib [2]float64
	for i, field := range []string{"VmRSS", "RssAnon"} {
		m := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(b)
		if m == nil {
			return "", fmt.Errorf("no %s of %d", field, pid)
		}
		kib, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			return "", err
		}
		mib[i] = kib / 1024
	}
	return fmt.Sprintf("%.0f MiB (%.0f of it anonymous, the rest mapped files)", mib[0], mib[1]), nil
}

// recordings are the series that the page's first view reads for a long range.
var recordings = []string{
	"process:tee_syscalls:rate1m", "process:tee_context_switches:rate1m", "process:tee_page_faults:rate1m",
	"process:tee_process_cpu_seconds:rate1m",
}

// overview are the queries of the page's first view.
func overview() (list []string) {
	for _, name := range recordings {
		list = append(list, "topk(5, "+name+")")
	}
	return list
}

// panel is the query of one process's system calls by call, which have no recorded series.
func (o options) panel() string {
	return fmt.Sprintf(`sum by (syscall) (rate(tee_syscalls_total{process="process-7"}[%ds]))`, 4*o.step())
}

// day fills a store with synthetic data, starts the monitor on it, and makes the page's
// queries.
func (o options) day() error {
	data, err := os.MkdirTemp("", "perf")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	end := time.Now().Truncate(5 * time.Second)
	began := time.Now()
	if err := o.fill(data, end); err != nil {
		return err
	}
	what := fmt.Sprintf("%d h of 5 s data, %d series", o.hours, o.series)
	o.row("fill the store", fmt.Sprintf("%.1f s", time.Since(began).Seconds()), what)
	m, err := o.monitor(data)
	if err != nil {
		return err
	}
	defer func() { _ = m.stop() }() // after an error
	o.row("start to first sample, stored data", fmt.Sprintf("%.0f ms", float64(m.start)/1e6), what)
	times, err := o.timeQueries(m, end, overview()...)
	if err != nil {
		return err
	}
	o.row("overview queries, whole range", spread(times), fmt.Sprintf("median of 5 rounds of %d queries one after another", len(recordings)))
	if times, err = o.timeQueries(m, end, o.panel()); err != nil {
		return err
	}
	o.row("one raw panel of one process, whole range", spread(times), "median of 5: its system calls by call, as the page asks for them at first")
	rss, err := resident(m.Process.Pid)
	if err != nil {
		return err
	}
	o.row("resident memory, stored data", rss, what+", after the overview queries")
	if err := o.opened(fmt.Sprintf("%s/?range=%dh", m.url, o.hours), "overview usable in a browser, whole range"); err != nil {
		return err
	}
	return m.stop()
}

// timeQueries times five rounds of queries over the whole range, one after another.
func (o options) timeQueries(m *running, end time.Time, queries ...string) ([]time.Duration, error) {
	var times []time.Duration
	for range 5 {
		at := time.Now()
		for _, q := range queries {
			p := url.Values{"query": {q}, "start": {unix(end.Add(-o.length()))}, "end": {unix(end)}, "step": {strconv.Itoa(o.step())}}
			b, err := get(m.url + "/api/v1/query_range?" + p.Encode())
			if err != nil {
				return nil, err
			}
			if bytes.Contains(b, []byte(`"result":[]`)) {
				return nil, fmt.Errorf("%s: no series in %.200s", q, b)
			}
		}
		times = append(times, time.Since(at))
	}
	return times, nil
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

func (o options) length() time.Duration { return time.Duration(o.hours) * time.Hour }

// step returns the page's step: 300 points or a little more, and no closer than the recorded series.
func (o options) step() int { return max(30, o.hours*3600/300) }

func (o options) fill(dir string, end time.Time) error {
	so := store.DefaultOptions()
	so.Dir = dir
	so.Instance, _ = os.Hostname()
	st, err := store.Open(context.Background(), so)
	if err != nil {
		return err
	}
	calls := &metric.Desc{Name: "tee_syscalls_total", Kind: metric.Counter, Labels: []string{"process", "syscall"}}
	samples := make([]metric.Sample, 0, o.series)
	for i := range o.series {
		samples = append(samples, metric.Sample{Desc: calls, Labels: []string{fmt.Sprintf("process-%d", i/25), fmt.Sprintf("syscall_%d", i%25)}})
	}
	var recorded []metric.Sample
	for _, q := range recordings {
		d := &metric.Desc{Name: q, Kind: metric.Gauge, Labels: []string{"process"}}
		for p := range max(1, o.series/25) {
			recorded = append(recorded, metric.Sample{Desc: d, Labels: []string{fmt.Sprintf("process-%d", p)}})
		}
	}
	n := 0
	for t := end.Add(-o.length()); t.Before(end); t = t.Add(5 * time.Second) {
		for i := range samples {
			samples[i].Value += float64((i*7 + n*13) % 1000)
		}
		round := samples
		if n%6 == 0 {
			for i := range recorded {
				recorded[i].Value = float64((i*31 + n) % 5000)
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
