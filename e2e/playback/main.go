// Command playback writes the series of a recorded host into the data folder of a monitor: a
// past, and a future that the monitor's queries reach as time goes on. Every reading has an
// exact time and an exact value, so a slow machine changes none.
//
//	playback -data DIR -instance NAME [-machine JOB/INSTANCE[@AGO]=HOST.txt,HOST.txt...] HOST.txt...
//
// -machine adds another machine, as a monitor has it that scrapes its agent; with AGO ("5m") its series end that long
// before now. It may be given several times.
//
// A line of a host file is a series and its value:
//
//	node_memory_MemTotal_bytes 8589934592
//	tee_syscalls_total{process="redis-0001",syscall="read"} 2000/s
//	tee_syscalls_total{process="postgres",syscall="read"} 600/s swing 200 in 90s
//
//	tee_vm_exit_duration_seconds 1200/s of 0.000002s
//
// A value with /s is a counter that grows at that rate. With a swing, the rate moves by that
// much around its mean, in that time. With "of", it counts events of one length in a histogram. A later line replaces an earlier one of the same series.
//
// It prints what a test needs to know: the times of the readings, and the names of the sources
// to switch off, so that the machine that runs the test is in no series.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/store"
)

// series is one line of a host file.
type series struct {
	desc    *metric.Desc
	labels  []string
	value   float64
	counter bool
	swing   float64
	period  float64       // of the swing, in seconds
	ended   time.Duration // how long before now it ends; 0 is never
	each    float64       // seconds of an event of a histogram
}

// age is the time in seconds that counters had grown before the first reading: rate()
// extrapolates a young counter only down to 0.
const age = 100_000

// at returns the value t seconds after the first reading.
func (s series) at(t float64) float64 {
	if !s.counter {
		return s.value
	}
	v := s.value * (t + age)
	if s.swing != 0 {
		v += s.swing * s.period / (2 * math.Pi) * (1 - math.Cos(2*math.Pi*t/s.period))
	}
	return v
}

var (
	form  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(?:\{(.*)\})?\s+([-+0-9.e]+)(/s)?(?:\s+swing\s+([-0-9.e]+) in ([0-9]+)s|\s+of\s+([-0-9.e]+)s)?$`)
	label = regexp.MustCompile(`^([a-z_]+)="([^"]*)"(?:,|$)`)
)

// machine is another one than that of the monitor; the zero value is the monitor's.
type machine struct {
	job, instance string
	ended         time.Duration
	files         []string
}

var machineForm = regexp.MustCompile(`^([^/]+)/([^@=]+)(?:@([^=]+))?=(.+)$`)

func parseMachine(text string) (m machine, err error) {
	p := machineForm.FindStringSubmatch(text)
	if p == nil {
		return m, fmt.Errorf("%q: want JOB/INSTANCE=FILE,FILE or JOB/INSTANCE@AGO=FILE,FILE", text)
	}
	m = machine{job: p[1], instance: p[2], files: strings.Split(p[4], ",")}
	if p[3] != "" {
		m.ended, err = time.ParseDuration(p[3])
	}
	return m, err
}

// host is a set of series in the order of their first lines.
type host struct {
	series []series
	index  map[string]int
	descs  map[string]*metric.Desc
}

func newHost() *host { return &host{index: map[string]int{}, descs: map[string]*metric.Desc{}} }

// add reads a line about a machine.
func (h *host) add(on machine, line string) error {
	m := form.FindStringSubmatch(line)
	if m == nil {
		return fmt.Errorf("%q: want NAME{LABELS} VALUE, VALUE/s or VALUE/s swing VALUE in SECONDSs", line)
	}
	var names, values []string
	if on.job != "" {
		names, values = []string{"job", "instance"}, []string{on.job, on.instance}
	}
	for rest := m[2]; rest != ""; {
		l := label.FindStringSubmatch(rest)
		if l == nil {
			return fmt.Errorf("%q: cannot read the labels from %s on", line, rest)
		}
		names, values, rest = append(names, l[1]), append(values, l[2]), rest[len(l[0]):]
	}
	s := series{labels: values, counter: m[4] != "", ended: on.ended}
	var err error
	if s.value, err = strconv.ParseFloat(m[3], 64); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	if m[5] != "" {
		if s.swing, err = strconv.ParseFloat(m[5], 64); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if s.period, err = strconv.ParseFloat(m[6], 64); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		if !s.counter || math.Abs(s.swing) > s.value || s.period == 0 {
			return fmt.Errorf("%q: only a counter can swing, and by no more than its rate", line)
		}
	}
	if m[7] != "" {
		if s.each, err = strconv.ParseFloat(m[7], 64); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	family := m[1] + "," + strings.Join(names, ",")
	if h.descs[family] == nil {
		h.descs[family] = &metric.Desc{Name: m[1], Help: "A recorded series.", Kind: metric.Gauge, Labels: names}
		switch {
		case s.each != 0:
			h.descs[family].Kind = metric.Histogram
		case s.counter:
			h.descs[family].Kind = metric.Counter
		}
	}
	s.desc = h.descs[family]
	key := on.job + "/" + on.instance + " " + m[1] + "{" + m[2] + "}"
	if i, ok := h.index[key]; ok {
		h.series[i] = s
		return nil
	}
	h.index[key] = len(h.series)
	h.series = append(h.series, s)
	return nil
}

func (h *host) read(on machine, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for n := 1; in.Scan(); n++ {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := h.add(on, line); err != nil {
			return fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return in.Err()
}

// played is what the program prints: the times, in Unix seconds, of the first reading, of the
// last one of the past, and of the last one; and all sources of a monitor.
type played struct {
	First   int64    `json:"first"`
	Now     int64    `json:"now"`
	Last    int64    `json:"last"`
	Sources []string `json:"sources"`
}

// play stores the readings of a host around a time.
func (h *host) play(ctx context.Context, o store.Options, now time.Time, past, future time.Duration) (p played, err error) {
	st, err := store.Open(ctx, o)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	now = now.Truncate(o.Interval)
	first, last := now.Add(-past).Truncate(o.Interval), now.Add(future).Truncate(o.Interval)
	samples := make([]metric.Sample, 0, len(h.series))
	for t := first; !t.After(last); t = t.Add(o.Interval) {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		samples = samples[:0]
		for _, s := range h.series {
			if s.ended > 0 && t.After(now.Add(-s.ended)) {
				continue
			}
			v := s.at(t.Sub(first).Seconds())
			one := metric.Sample{Desc: s.desc, Labels: s.labels, Value: v}
			if s.each != 0 {
				one.Hist = &metric.Hist{Bounds: []float64{s.each / 2, s.each * 2}, Counts: []uint64{0, uint64(math.Round(v)), 0}, Sum: v * s.each}
			}
			samples = append(samples, one)
		}
		if err := st.Append(t, samples); err != nil {
			return p, err
		}
	}
	return played{First: first.Unix(), Now: now.Unix(), Last: last.Unix()}, nil
}

func run() error {
	o := store.DefaultOptions()
	flag.StringVar(&o.Dir, "data", "", "data folder of the monitor")
	flag.StringVar(&o.Instance, "instance", "", "name of the host")
	flag.DurationVar(&o.Interval, "interval", o.Interval, "time between readings")
	past := flag.Duration("past", 20*time.Minute, "how long the host was watched")
	// The store refuses new samples that are more than an hour older than its latest.
	future := flag.Duration("future", 55*time.Minute, "how long the monitor can go on")
	var others []machine
	flag.Func("machine", "another machine, as JOB/INSTANCE[@AGO]=FILE,FILE", func(text string) error {
		m, err := parseMachine(text)
		others = append(others, m)
		return err
	})
	flag.Parse()
	if o.Dir == "" || o.Instance == "" || flag.NArg() == 0 {
		return errors.New("want -data, -instance and host files")
	}
	if *future >= time.Hour || *past < o.Interval || o.Interval < time.Second {
		return errors.New("want an -interval of at least 1s, a longer -past, and a -future under 1h")
	}
	h := newHost()
	for _, on := range append([]machine{{files: flag.Args()}}, others...) {
		for _, file := range on.files {
			if err := h.read(on, file); err != nil {
				return err
			}
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p, err := h.play(ctx, o, time.Now(), *past, *future)
	if err != nil {
		return err
	}
	for _, x := range sources.All {
		p.Sources = append(p.Sources, x.Name)
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "playback:", err)
		os.Exit(1)
	}
}
