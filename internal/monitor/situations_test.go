package monitor

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/teescope/teescope/internal/explain"
	"github.com/teescope/teescope/internal/findings"
	"github.com/teescope/teescope/internal/findings/rules"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/observe"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/sources"
	"github.com/teescope/teescope/internal/rivals"
	"github.com/teescope/teescope/internal/store"
	"github.com/teescope/teescope/internal/web"
)

// situation is a file of e2e/situations/truth.
type situation struct {
	Situation   string
	Neighbours  int
	MachineCPUs int `yaml:"machine_cpus"`
	Programs    []struct {
		Name, Role, Does   string
		Processes, Threads int
		CPUs               []int `yaml:"cpus"`
	}
	Why   string
	Truth []shortage
	Takes []struct {
		Program     string
		Least, Most float64
	}
	FirstTwoLines struct {
		Within   time.Duration
		Resource string
		Culprits []string
		Victims  []string
		Never    []string `yaml:"never_culprit"`
	} `yaml:"first_two_lines"`
}

// shortage is who takes what from whom.
type shortage struct {
	Resource          string
	Culprits, Victims []string
}

func readSituations(t *testing.T) []situation {
	t.Helper()
	files, err := filepath.Glob("../../e2e/situations/truth/*.yaml")
	if err != nil || len(files) != 12 {
		t.Fatalf("%d truth files, %v; want 12", len(files), err)
	}
	var out []situation
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s situation
		d := yaml.NewDecoder(strings.NewReader(string(b)))
		d.KnownFields(true)
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, s)
	}
	return out
}

// life is what the sources count of a program, per second: CPU time, and threads that wait, by what they wait for.
type life struct {
	cores, queued, locked, disk float64
	call                        string // in which it waits for the disk
	calls                       map[string]float64
	inCall                      map[string]float64 // CPU time in system calls
	voluntary, involuntary      float64
}

// lives are what the sources count in a situation: the CPU time is the middle of the truth's range. A thread that
// could run and has no CPU waits for one.
func (s situation) lives() map[string]life {
	out := map[string]life{}
	for _, p := range s.Programs {
		i := slices.IndexFunc(s.Takes, func(t struct {
			Program     string
			Least, Most float64
		}) bool {
			return t.Program == p.Name
		})
		c := (s.Takes[i].Least + s.Takes[i].Most) / 2
		var l life
		switch p.Name {
		default: // it computes without end
			l = life{cores: c, queued: float64(p.Processes) - c, involuntary: 300}
		case "lockfight":
			l = life{cores: c, queued: max(0, 1-c), calls: map[string]float64{"futex": 2000}, inCall: map[string]float64{"futex": 0.1 * c}, voluntary: 2000, involuntary: 100}
			l.locked = float64(p.Threads) - l.cores - l.queued
		case "paylog": // what is left of its one thread's time is fsync
			l = life{cores: c, queued: map[int]float64{0: 0, 2: 0.1, 6: 0.55}[s.Neighbours], call: "fsync", voluntary: 500, involuntary: 100}
			l.disk = 1 - l.cores - l.queued
			l.calls = map[string]float64{"fsync": 450, "write": 450}
			l.inCall = map[string]float64{"fsync": 0.3 * c, "write": 0.1 * c}
		case "paysvc": // it falls behind, and sleeps a tenth of the time
			l = life{cores: c, queued: 0.9 - c, voluntary: 100, involuntary: 100}
		case "redis-server":
			l = life{cores: c, queued: map[int]float64{0: 0, 2: 0.1, 6: 0.7 * (1 - c)}[s.Neighbours], voluntary: 2000, involuntary: 50,
				calls: map[string]float64{"read": 2000, "write": 2000, "epoll_wait": 2000}, inCall: map[string]float64{"read": 0.2 * c, "write": 0.3 * c}}
		case "clockhog":
			l = life{cores: c, queued: map[int]float64{0: 0, 2: 0.1, 6: 0.3}[s.Neighbours], calls: map[string]float64{"clock_gettime": 300_000}, inCall: map[string]float64{"clock_gettime": 0.8 * c}, involuntary: 200, voluntary: 20}
		}
		out[p.Name] = l
	}
	return out
}

// played is a monitor whose store is filled with the readings of a situation, as the sources would give them.
type played struct {
	*monitor
	t      *testing.T
	s      situation
	store  *store.Store
	descs  map[string]*metric.Desc
	begin  time.Time     // of the monitor
	starts time.Duration // of the situation, after begin; before, the machine is calm
	at     time.Time
	filled time.Duration
}

// play returns a monitor that has not read yet; the situation begins when it is so old.
func play(t *testing.T, s situation, age time.Duration) *played {
	t.Helper()
	o := store.DefaultOptions()
	o.Dir, o.Instance = t.TempDir(), "vm-1"
	st, err := store.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &played{t: t, s: s, store: st, descs: map[string]*metric.Desc{}, begin: time.Now().Add(-20*time.Minute - age).Truncate(time.Minute), starts: age}
	p.at = p.begin
	for _, source := range sources.All {
		for _, d := range source.Metrics {
			p.descs[d.Name] = d
		}
	}
	p.descs[probe.Up.Name] = probe.Up
	of := probe.SourceNames(sources.All)
	h := host.At(t.TempDir())
	h.Now = func() time.Time { return p.at }
	p.monitor = &monitor{Settings: Settings{Judging: judging}, Observer: &observe.Observer{Host: h, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Platform: web.Platform{Hostname: "vm-1", CPUs: 2}}, series: st}
	p.places = &places{host: h}
	p.files(h)
	ao := findings.DefaultOptions()
	ao.Now, ao.Started, ao.Interval, ao.Places = h.Now, p.begin, 5*time.Second, p.placesOn
	ao.Source = func(metric string) string { return of[metric] }
	p.analysis = findings.New(rules.All, st, ao)
	return p
}

// files writes what the kernel says of the programs' CPUs.
func (p *played) files(h *host.Host) {
	p.t.Helper()
	write := func(name, text string) {
		p.t.Helper()
		if err := os.MkdirAll(filepath.Dir(h.Path(name)), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := h.WriteFile(name, []byte(text)); err != nil {
			p.t.Fatal(err)
		}
	}
	write("/sys/devices/system/cpu/online", "0-1\n")
	pid := 100
	for _, program := range p.s.Programs {
		for range program.Processes {
			cpus := "0-1"
			if len(program.CPUs) == 1 {
				cpus = fmt.Sprint(program.CPUs[0])
			}
			write(fmt.Sprintf("/proc/%d/status", pid), fmt.Sprintf("Name:\t%s\nVmSize:\t    1000 kB\nCpus_allowed_list:\t%s\n", program.Name, cpus))
			write(fmt.Sprintf("/proc/%d/cgroup", pid), fmt.Sprintf("0::/system.slice/%s.service\n", program.Name))
			pid++
		}
	}
}

// until fills the store with a reading every five seconds until a time after the situation's begin. It evaluates the rules every
// fifteen and looks at each reading in between, as a monitor does; of the calm before, only at the end.
func (p *played) until(end time.Duration) {
	p.t.Helper()
	for ; p.filled <= p.starts+end; p.filled += 5 * time.Second {
		p.at = p.begin.Add(p.filled)
		if err := p.store.Append(p.at, p.reading((p.filled - p.starts).Seconds())); err != nil {
			p.t.Fatal(err)
		}
		switch {
		case p.filled < p.starts-time.Minute:
		case p.filled%(15*time.Second) == 0:
			p.analysis.Evaluate(p.t.Context())
		default:
			p.analysis.CheckSubjects(p.t.Context())
		}
	}
}

// reading returns what the sources read so many seconds after the situation's begin. Before, no program of it runs.
func (p *played) reading(s float64) (out []metric.Sample) {
	put := func(name string, v float64, labels ...string) {
		d := p.descs[name]
		if d == nil || len(labels) != len(d.Labels) {
			p.t.Fatalf("%s%q: no source emits it", name, labels)
		}
		out = append(out, metric.Sample{Desc: d, Value: v, Labels: labels})
	}
	put("tee_sample_interval_seconds", 1.0/97, "cpu")
	put("tee_sample_interval_seconds", 0.05, "wait")
	put("teescope_source_up", 1, "switches")
	put("tee_process_start_time_seconds", float64(p.begin.Add(-time.Hour).Unix()), "systemd")
	waiting, blocked, busy := false, false, map[int]float64{}
	programs := p.s.Programs
	if s < 0 {
		programs = nil
	}
	// Counters of the machine go on from what the calm has counted.
	const calm = 0.05
	before := p.starts.Seconds()
	counted := func(share float64) float64 {
		if s < 0 {
			return calm * (s + before)
		}
		return calm*before + share*s
	}
	for _, program := range programs {
		name, l := program.Name, p.s.lives()[program.Name]
		waiting, blocked = waiting || l.queued >= 0.5, blocked || l.disk >= 0.5
		put("tee_process_start_time_seconds", float64(p.begin.Add(p.starts).Unix()), name)
		put("tee_process_cpu_seconds_total", l.cores*s, name)
		put("tee_context_switches_total", l.voluntary*s, name, "voluntary")
		put("tee_context_switches_total", l.involuntary*s, name, "involuntary")
		user := l.cores
		for call, cores := range l.inCall {
			put("tee_sampled_cpu_seconds_total", cores*s, name, "kernel", call)
			user -= cores
		}
		put("tee_sampled_cpu_seconds_total", user*s, name, "user", "")
		for call, rate := range l.calls {
			put("tee_syscalls_total", rate*s, name, call)
		}
		for state, threads := range map[string]float64{"cpu": l.queued, "lock": l.locked, "disk": l.disk} {
			if threads > 0 {
				put("tee_sampled_wait_seconds_total", threads*s, name, state, map[string]string{"lock": "futex", "disk": l.call}[state])
			}
		}
		if len(program.CPUs) == 1 {
			busy[program.CPUs[0]] += l.cores
		} else {
			busy[-1] += l.cores
		}
	}
	for cpu := range p.s.MachineCPUs {
		used := min(1, busy[cpu]+busy[-1]/2) // what is bound to a CPU leaves the other one to the rest
		if used == 1 {
			busy[-1] += busy[cpu] + busy[-1]/2 - 1
		}
		put("node_cpu_seconds_total", counted(used), fmt.Sprint(cpu), "user")
		put("node_cpu_seconds_total", s+before-counted(used), fmt.Sprint(cpu), "idle")
	}
	share := map[bool]float64{true: 0.97, false: calm}
	put("node_pressure_cpu_waiting_seconds_total", counted(share[waiting]))
	put("node_pressure_memory_waiting_seconds_total", 0)
	put("node_pressure_io_waiting_seconds_total", counted(share[blocked]))
	return out
}

// lines are the first two lines about the machine and its programs that a user reads.
func (p *played) lines() []findings.Record {
	var out []findings.Record
	for _, r := range (findings.Filter{State: findings.Open}).Select(p.analysis.Records()) {
		if r.Severity != findings.Info && len(out) < 2 {
			out = append(out, r)
		}
	}
	return out
}

// blamed and waits are the names that a line gives for who takes and who waits: those of its parts, else its subject.
func blamed(r findings.Record) []string { return namesOr(r.Takers, r.Subject) }

func waits(r findings.Record) []string { return namesOr(r.Waiters, r.Subject) }

func namesOr(parts []rivals.Part, subject string) (out []string) {
	for _, p := range parts {
		out = append(out, p.Name)
	}
	if out == nil {
		out = []string{subject}
	}
	return out
}

// TestSituations plays the twelve situations back, on a monitor that starts with them and on one that watched a calm machine for
// twenty minutes. Within the time that the truth gives, and later, the first two lines name every culprit and every victim of the truth,
// and blame nobody whom it clears.
func TestSituations(t *testing.T) {
	for _, s := range readSituations(t) {
		for _, age := range []time.Duration{0, 20 * time.Minute} {
			t.Run(fmt.Sprintf("%s-%d/%v", s.Situation, s.Neighbours, age), func(t *testing.T) {
				p := play(t, s, age)
				for _, after := range []time.Duration{s.FirstTwoLines.Within, 2 * time.Minute, 10 * time.Minute} {
					p.until(after)
					p.judge(after)
				}
			})
		}
	}
}

// judge compares the first two lines with the truth.
func (p *played) judge(after time.Duration) {
	p.t.Helper()
	truth, lines := p.s.FirstTwoLines, p.lines()
	var text strings.Builder
	var takers, victims []string
	for _, r := range lines {
		fmt.Fprintln(&text, r.Sentence)
		takers, victims = append(takers, blamed(r)...), append(victims, waits(r)...)
		for _, name := range truth.Never {
			if len(r.Takers) > 0 && slices.Contains(blamed(r), name) {
				p.t.Errorf("after %v %s is blamed: %s", after, name, r.Sentence)
			}
		}
	}
	for _, name := range truth.Culprits {
		if !slices.Contains(takers, name) || !strings.Contains(text.String(), name) {
			p.t.Errorf("after %v the first two lines do not name %s as the one that takes:\n%s", after, name, &text)
		}
	}
	for _, name := range truth.Victims {
		if !slices.Contains(victims, name) || !strings.Contains(text.String(), name) {
			p.t.Errorf("after %v the first two lines do not name %s as the one that waits:\n%s", after, name, &text)
		}
	}
	p.t.Logf("after %v:\n%s", after, &text)
	p.agrees(lines)
}

// agrees checks that the list of findings and an explanation say the same, and where programs run.
func (p *played) agrees(lines []findings.Record) {
	p.t.Helper()
	for _, victim := range p.s.FirstTwoLines.Victims {
		e, err := p.explain(p.t.Context(), explain.Question{Process: victim, From: p.at.Add(-time.Minute), To: p.at})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, r := range lines {
			if home := r.Subject + ".service"; r.Subject != findings.WholeMachine && !slices.Equal(r.RunsIn, []string{home}) {
				p.t.Errorf("%s runs in %q, want %s", r.Subject, r.RunsIn, home)
			}
		}
		for _, r := range e.Findings {
			i := slices.IndexFunc(lines, func(l findings.Record) bool { return l.ID == r.ID })
			if i >= 0 && lines[i].Sentence != r.Sentence {
				p.t.Errorf("the API says %q, the list of findings %q", r.Sentence, lines[i].Sentence)
			}
		}
	}
}
