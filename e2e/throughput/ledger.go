package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/stats"
)

// part is a state of a continuously running monitor: the set of its active kernel sources. Between parts the monitor
// has none active, and is stopped (SIGSTOP).
type part struct {
	name, doc string
	// budget selects the monitor; "" is none.
	budget  string
	sources []string
	// sample is the part of the time in which sources may count, 0 for all.
	sample float64
	// loop: no monitor, but a loop that takes about as much CPU time in as many pieces.
	loop bool
	// begins: the load rests until the monitor has settled, and begins with the measurement.
	begins bool
}

// off is the baseline of each part.
var off = part{name: "off", doc: "nothing"}

// parts lists them. The first is off itself: its difference is the machine's noise.
func parts() []part {
	all := []part{off, {name: "loop", doc: "instead of a monitor a loop with its CPU time", loop: true}, {name: "user", doc: "no kernel sources", budget: "1%"},
		{name: "attach", doc: "attaching and detaching, with windows of 2 ms", budget: "1%", sources: windowed, sample: 0.002}}
	for _, s := range kernelSources {
		all = append(all, part{name: "only-" + s, doc: s + " alone", budget: "1%", sources: []string{s}})
	}
	return append(all, part{name: "monitor", doc: "everything, budget 1 %", budget: "1%", sources: kernelSources},
		part{name: "first", doc: "everything, budget 1 %, a load that begins", budget: "1%", sources: kernelSources, begins: true},
		part{name: "full-syscalls", doc: "syscalls alone, every event", budget: "100%", sources: []string{"syscalls"}},
		part{name: "full", doc: "everything, every event", budget: "100%", sources: kernelSources})
}

func (o options) chosenParts(names string) ([]part, error) {
	all := parts()
	if names == "" {
		return all, nil
	}
	var out []part
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no part %q; there are: %s", name, strings.Join(partNames(all), ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func partNames(list []part) []string {
	var out []string
	for _, p := range list {
		out = append(out, p.name)
	}
	return out
}

// slot is the result of one part in one round.
type slot struct {
	rate    float64 // requests per second
	work    float64 // CPU time of server and client per request in seconds
	busy    float64 // cores that were not idle
	own     float64 // of the monitor or the loop, in cores
	kernel  float64 // all cores' time in the monitor's kernel programs, by its own account
	covered float64 // of system calls
}

// accounted is the share of all cores that the monitor took, by its own account.
func (s slot) accounted(cpus int) float64 {
	var sum float64
	for _, v := range []float64{s.own, s.kernel} {
		if !math.IsNaN(v) { // nothing ran that could cost something
			sum += v
		}
	}
	return sum / float64(cpus)
}

// ledger loads each server without a break and prints what each part takes from the throughput
// adds to the CPU time of a request, and leaves idle. A round has, in random order, a pair for each part:
// the part and nothing, in random order and right after each other, because the speed of a
// shared machine changes from one half minute to the next.
func (o options) ledger(ctx context.Context, serverNames []string, list []part) error {
	fmt.Fprintln(o.out, "| server | monitor | throughput lost | 95 % interval | CPU time of a request, more | 95 % interval | CPUs busy, less | 95 % interval | CPU of the monitor, cores | of its programs in the kernel, by its own account | "+
		"lost beside both | 95 % interval | coverage of system calls |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, name := range serverNames {
		s, ok := servers[name]
		if !ok {
			return fmt.Errorf("no server %q", name)
		}
		if err := o.ledgerOf(ctx, name, s, list); err != nil {
			if errors.Is(err, errMissing) {
				fmt.Fprintf(o.out, "| %s | left out: %v | | | | | | | | | | | |\n", name, err)
				continue
			}
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (o options) ledgerOf(ctx context.Context, name string, s server, list []part) error {
	r, err := s(ctx)
	if err != nil {
		return err
	}
	defer r.stop()
	if r.served == nil {
		return fmt.Errorf("it does not say how many requests it has answered: %w", errMissing)
	}
	l := &ledger{options: o, running: r, monitors: map[string]*watching{}}
	defer l.stop()
	for _, p := range list {
		if err := l.start(ctx, p.budget); err != nil {
			return err
		}
	}
	client := exec.Command(r.endless[0], r.endless[1:]...)
	if err := client.Start(); err != nil {
		return err
	}
	defer func() {
		_ = client.Process.Kill()
		_ = client.Wait()
	}()
	l.client, l.processes = client.Process, []int{client.Process.Pid, r.process}
	without, with := make([][]slot, len(list)), make([][]slot, len(list))
	for round := range o.rounds {
		for _, i := range rand.Perm(len(list)) {
			pair := []struct {
				part
				to *[]slot
			}{{list[i].base(), &without[i]}, {list[i], &with[i]}}
			for _, k := range rand.Perm(len(pair)) {
				m, err := l.one(ctx, pair[k].part)
				if err != nil {
					return fmt.Errorf("round %d, %s: %w", round, list[i].name, err)
				}
				*pair[k].to = append(*pair[k].to, m)
			}
		}
	}
	for i, p := range list {
		fmt.Fprintln(o.out, row(name, p, without[i], with[i], runtime.NumCPU()))
	}
	return nil
}

// base is what a part is compared with.
func (p part) base() part {
	b := off
	b.begins = p.begins
	return b
}

// row is the line of a part in the table. What is lost beside both is the throughput lost if it had all cores but what the
// monitor took by its own account: the load keeps every core busy.
func row(server string, p part, without, with []slot, cpus int) string {
	lost := comparePaired(without, with, 1, func(s slot) float64 { return s.rate })
	work := comparePaired(without, with, -1, func(s slot) float64 { return s.work })
	busy := comparePaired(without, with, 1, func(s slot) float64 { return s.busy })
	rest := comparePaired(without, with, 1, func(s slot) float64 { return s.rate / (1 - s.accounted(cpus)) })
	return fmt.Sprintf("| %s | %s | %.2f %% | [%.2f, %.2f] | %.2f %% | [%.2f, %.2f] | %.2f %% | [%.2f, %.2f] | %s | %s | %.2f %% | [%.2f, %.2f] | %s |", server, p.doc,
		100*(1-lost.Ratio), 100*(1-lost.High), 100*(1-lost.Low), 100*(work.Ratio-1), 100*(work.Low-1), 100*(work.High-1), 100*(1-busy.Ratio), 100*(1-busy.High), 100*(1-busy.Low),
		among(with, func(s slot) float64 { return s.own }), among(with, func(s slot) float64 { return s.kernel }),
		100*(1-rest.Ratio), 100*(1-rest.High), 100*(1-rest.Low), among(with, func(s slot) float64 { return s.covered }))
}

func comparePaired(base, treat []slot, better int8, of func(slot) float64) stats.Comparison {
	var b, t []float64
	for i := range base {
		b, t = append(b, of(base[i])), append(t, of(treat[i]))
	}
	return stats.Paired(b, t, stats.Options{Margin: 0.01, Confidence: 0.95, Better: better, Seed: 1})
}

// among returns the mean of the known values of a list, as text.
func among(list []slot, of func(slot) float64) string {
	var sum, n float64
	for _, s := range list {
		if v := of(s); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(sum/n, 'g', 3, 64)
}

// ledger is a loaded server with one monitor for each budget.
type ledger struct {
	options
	*running
	client    *os.Process
	processes []int
	monitors  map[string]*watching
}

// start starts the monitor of a budget, and leaves it stopped with nothing on.
func (l *ledger) start(ctx context.Context, budget string) error {
	if budget == "" || l.monitors[budget] != nil {
		return nil
	}
	a := arm{name: "monitor " + budget, commands: [][]string{{"BIN", "monitor", "--listen", "127.0.0.1:PORT", "--data", "DIR/data", "--budget", budget}}}
	w, err := a.start(ctx, l.bin)
	if err != nil {
		return err
	}
	l.monitors[budget] = w
	return w.suspend()
}

func (l *ledger) stop() {
	for _, w := range l.monitors {
		_ = w.signal(syscall.SIGCONT)
		w.stop()
	}
}

func (w *watching) signal(s syscall.Signal) error { return w.processes[0].Process.Signal(s) }

// suspend switches the kernel sources off and stops the monitor.
func (w *watching) suspend() error {
	for _, s := range kernelSources {
		if err := w.source(s, false, 1); err != nil {
			return err
		}
	}
	return w.signal(syscall.SIGSTOP)
}

// source switches a source, and sets the part of the time in which it may count.
func (w *watching) source(name string, on bool, sample float64) error {
	socket := filepath.Join(host.SystemSockets, w.url[strings.LastIndex(w.url, ":")+1:]+".sock")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return host.Local().Dial(ctx, socket)
	}}}
	r, err := client.Post("http://localhost/api/teescope/v1/sources/"+name, "application/json", strings.NewReader(fmt.Sprintf(`{"on":%t,"sample":%g}`, on, sample)))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("switch %s: %s: %s", name, r.Status, b)
	}
	return nil
}

// reads waits until the sources have delivered values: on a busy machine it takes a while until
// their programs are loaded. Those that this machine lacks are not waited for.
func (w *watching) reads(ctx context.Context, sources []string) error {
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); ; {
		waits, err := w.waits(sources)
		if err == nil && waits == "" {
			return nil
		}
		if time.Now().After(end) {
			if err == nil {
				err = errors.New(waits)
			}
			return fmt.Errorf("wait %v for the sources to deliver values: %w", patience, err)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// waits says which of the sources has yet to deliver values, "" for none.
func (w *watching) waits(sources []string) (string, error) {
	r, err := http.Get(w.url + "/api/teescope/v1/sources")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	var all []struct{ Name, State string }
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		return "", fmt.Errorf("read the sources: %w", err)
	}
	for _, s := range all {
		if !slices.Contains(sources, s.Name) {
			continue
		}
		switch s.State {
		case "available", "degraded":
			up := regexp.MustCompile(`(?m)^teescope_source_up\{source="` + s.Name + `"\} (1)$`)
			if len(w.metrics(up)) == 0 {
				return s.Name + " has not been read", nil
			}
		case "opening", "off":
			return s.Name + " is " + s.State, nil
		}
	}
	return "", nil
}

// one activates a part, waits until its budget has settled, and measures.
func (l *ledger) one(ctx context.Context, p part) (slot, error) {
	m := slot{own: math.NaN(), kernel: math.NaN(), covered: math.NaN()}
	w := l.monitors[p.budget]
	if p.begins {
		if err := l.client.Signal(syscall.SIGSTOP); err != nil {
			return m, err
		}
		defer func() { _ = l.client.Signal(syscall.SIGCONT) }() // also after an error
	}
	if w != nil {
		if err := w.signal(syscall.SIGCONT); err != nil {
			return m, err
		}
		for _, s := range p.sources {
			if err := w.source(s, true, cmp.Or(p.sample, 1)); err != nil {
				return m, err
			}
		}
		if err := w.reads(ctx, p.sources); err != nil {
			return m, err
		}
	}
	settle := l.warm
	if w == nil && !p.begins {
		settle = min(settle, 200*time.Millisecond) // nothing has to settle
	}
	own := func() (float64, error) { return math.NaN(), nil }
	switch {
	case w != nil:
		own = w.cpu
	case p.loop:
		defer loop()()
		own = ownCPU
	}
	if err := pause(ctx, settle); err != nil {
		return m, err
	}
	spent := w.spent()
	before, err := l.read(own)
	if err != nil {
		return m, err
	}
	if p.begins {
		if err := l.client.Signal(syscall.SIGCONT); err != nil {
			return m, err
		}
	}
	if err := pause(ctx, l.measure); err != nil {
		return m, err
	}
	after, err := l.read(own)
	if err != nil {
		return m, err
	}
	took, n := after.at.Sub(before.at).Seconds(), after.served-before.served
	if n <= 0 {
		return m, errors.New("the server answered nothing")
	}
	m.rate, m.work, m.own = n/took, (after.work-before.work)/n, (after.own-before.own)/took
	m.busy = float64(runtime.NumCPU()) - (after.idle-before.idle)/took
	if w == nil {
		return m, nil
	}
	m.covered = w.coverage()
	if len(p.sources) > 0 {
		m.kernel = (w.spent() - spent) / took
	}
	return m, w.suspend()
}

// The pieces of the loop: the monitor beside a loaded Redis ran 160 times a second, for 54 µs each (schedstat of its threads). What a
// piece costs with its wake-up is in the table.
const (
	pieceEvery = time.Second / 160
	piece      = 20 * time.Microsecond
)

// loop takes CPU time in pieces until the function that it returns has returned.
func loop() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(pieceEvery); ; {
			select {
			case <-done:
				tick.Stop()
				return
			case at := <-tick.C:
				for time.Since(at) < piece { //nolint:revive // it shall take time
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// reading is the state of all counters at one moment.
type reading struct {
	at                      time.Time
	served, work, own, idle float64
}

func (l *ledger) read(own func() (float64, error)) (reading, error) {
	var r reading
	for _, p := range l.processes {
		s, err := onCPU(p)
		if err != nil {
			return r, err
		}
		r.work += s
	}
	var err error
	if r.own, err = own(); err != nil {
		return r, err
	}
	if r.idle, err = idle(); err != nil {
		return r, err
	}
	r.at = time.Now()
	r.served, err = l.served()
	return r, err
}

// idle returns the time in seconds for which CPUs were idle, the sum over all (/proc/uptime, proc_uptime(5)).
func idle() (float64, error) {
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, err
	}
	_, s, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("parse /proc/uptime: %w", err)
	}
	return v, nil
}

// ownCPU returns the CPU time of this program in seconds.
func ownCPU() (float64, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds(), err
}

// onCPU returns the CPU time in seconds of the living threads of a process and its children, by the scheduler's clock
// (/proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
func onCPU(pid int) (float64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("read the CPU time of process %d: it has ended", pid)
	}
	var sum float64
	for _, t := range tasks {
		b, err := os.ReadFile(filepath.Join(t, "schedstat"))
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, fmt.Errorf("parse %s/schedstat: %w", t, err)
		}
		sum += ns / 1e9
		children, err := os.ReadFile(filepath.Join(t, "children")) // CONFIG_PROC_CHILDREN
		if err != nil {
			return 0, err
		}
		for c := range strings.FieldsSeq(string(children)) {
			id, err := strconv.Atoi(c)
			if err != nil {
				return 0, fmt.Errorf("parse %s/children: %w", t, err)
			}
			s, err := onCPU(id)
			if err != nil {
				return 0, err
			}
			sum += s
		}
	}
	return sum, nil
}

var charged = regexp.MustCompile(`(?m)^teescope_source_cpu_seconds_total\{.*\} (\S+)`)

// spent returns the cost of the kernel programs so far in seconds, by the monitor's account; NaN if it does not
// report it.
func (w *watching) spent() float64 {
	sum := math.NaN()
	for _, v := range w.metrics(charged) {
		if math.IsNaN(sum) {
			sum = 0
		}
		sum += v
	}
	return sum
}
