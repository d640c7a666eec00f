package kernels

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// inputKernel is the kernel for tests with bad input.
const inputKernel = "6.12 deb12 cloud"

// TestBadInput tests what goes wrong on machines, each in a separate guest.
func TestBadInput(t *testing.T) {
	needMatrix(t)
	for name, test := range map[string]func(*testing.T){
		"garbage BTF": garbageBTF, "refused midway": refusedMidway, "clock step": clockStep, "crowds": crowds, "hotplug": hotplug,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// scrape is a step that prints the metrics.
func scrape(name string) Step { return Step{Name: name, Script: metrics} }

// known is a step that makes system calls under the given name.
func known(name string) Step {
	return Step{Name: "make " + name, Script: fmt.Sprintf("events --comm %s getppid %d", name, calls)}
}

// value sums the series that a pattern matches in a step's metrics.
func value(t *testing.T, r *Report, step, pattern string) (sum float64) {
	t.Helper()
	for _, f := range regexp.MustCompile("(?m)^"+pattern+` (\S+)$`).FindAllStringSubmatch(r.Steps[step].Text, -1) {
		v, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			t.Error(err)
		}
		sum += v
	}
	return sum
}

// exact checks the counted calls of a process.
func exact(t *testing.T, r *Report, step, process string, want float64) {
	t.Helper()
	if got := value(t, r, step, `tee_syscalls_total\{process="`+regexp.QuoteMeta(process)+`",syscall="getppid"\}`); got != want {
		t.Errorf("%s: %v calls of %s, want %v", step, got, process, want)
	}
}

// ended checks that all steps succeeded.
func ended(t *testing.T, g *Guest, r *Report) {
	t.Helper()
	for _, s := range g.Steps {
		if o := r.Steps[s.Name]; o.Status != 0 {
			t.Errorf("step %s ended with status %d: %s", s.Name, o.Status, tail(o.Text))
		}
	}
}

// garbageBTF: sources report unreadable type information as the reason, and sources that read
// files work.
func garbageBTF(t *testing.T) {
	k := fetch(t, named(t, inputKernel))
	g := &Guest{Kernel: k, WithoutBTF: true, Steps: []Step{{Name: "doctor", Script: "umount /sys/kernel/btf && ls -l /sys/kernel/btf/vmlinux >/dev/null && teescope doctor --json"}}}
	r := boot(t, g)
	ended(t, g, r)
	d := readDoctor(t, r.Steps["doctor"])
	for _, name := range counted {
		if s := d.state(name); s.State != "unavailable" || !strings.Contains(s.Reason, "BTF") || s.Remedy == "" {
			t.Errorf("source %+v", s)
		}
	}
	if s := d.state("memory"); s.State != "available" {
		t.Errorf("source %+v", s)
	}
	note(t, k.Uname, "zeroed BTF: sources that need it name it as the reason, the others work")
}

// refusedMidway: a container's filter may refuse any command of bpf(2), also after others have
// succeeded.
func refusedMidway(t *testing.T) {
	k := fetch(t, named(t, inputKernel))
	commands := map[string]int{"map create": 0, "program load": 5, "raw tracepoint open": 17, "btf load": 18, "link create": 28}
	g := &Guest{Kernel: k}
	for name, number := range commands {
		g.Steps = append(g.Steps, runDoctor(name, fmt.Sprintf("inside as 0 bpf,perfmon --refuse %d", number)))
	}
	r := boot(t, g)
	ended(t, g, r)
	for name := range commands {
		d := readDoctor(t, r.Steps[name])
		for _, s := range d.Sources {
			bad := s.State == "degraded" || s.State == "unavailable"
			if bad && (s.Reason == "" || s.Remedy == "") {
				t.Errorf("%s refused: source %+v", name, s)
			}
			if must := name == "map create" || name == "program load"; must && !bad && slices.Contains(counted, s.Name) {
				t.Errorf("%s refused: source %+v", name, s)
			}
		}
	}
	note(t, k.Uname, "bpf(2) commands refused one at a time: each source says what it lost")
}

// clockStep: counters do not depend on the wall clock, and nothing is lost when it jumps.
func clockStep(t *testing.T) {
	k := fetch(t, named(t, inputKernel))
	g := &Guest{Kernel: k, Steps: []Step{
		startAgent, known("clock-0"), scrape("start"),
		{Name: "back", Script: "date -s @$(($(date +%s)-86400))"}, known("clock-1"), scrape("a day back"),
		{Name: "forth", Script: "date -s @$(($(date +%s)+864000))"}, known("clock-2"), scrape("ten days forth"),
		stopAgent,
	}}
	r := boot(t, g)
	ended(t, g, r)
	last := map[string]float64{}
	for i, step := range []string{"start", "a day back", "ten days forth"} {
		for n := range i + 1 {
			exact(t, r, step, fmt.Sprintf("clock-%d", n), calls)
		}
		for _, pattern := range []string{`node_cpu_seconds_total\{[^}]*\}`, `tee_process_cpu_seconds_total\{[^}]*\}`, `teescope_overhead_cpu_seconds_total\{part="userspace"\}`} {
			now := value(t, r, step, pattern)
			// The guest runs for minutes; a clock jump would add days.
			if now < last[pattern] || now > last[pattern]+3600 {
				t.Errorf("%s: %s went from %v to %v", step, pattern, last[pattern], now)
			}
			last[pattern] = now
		}
		if c := value(t, r, step, `teescope_source_coverage_ratio\{source="syscalls"\}`); c != 1 {
			t.Errorf("%s: coverage %v", step, c)
		}
	}
	note(t, k.Uname, "clock set back one day and forward ten: counters continue, counts are exact")
}

// crowds: thousands of groups and processes neither grow the number of series nor disturb counts.
func crowds(t *testing.T) {
	const groups, children = 5000, 10000
	k := fetch(t, named(t, inputKernel))
	const odd = `a b\xff\n\"c` // printf(1) keeps the backslash before a quote
	g := &Guest{Kernel: k, Steps: []Step{
		startAgent, scrape("before"),
		{Name: "groups", Limit: 5 * time.Minute, Script: fmt.Sprintf("mkdir /sys/fs/cgroup/many && cd /sys/fs/cgroup/many && seq 1 %d | xargs mkdir", groups)},
		known("among-groups"), scrape("groups made"),
		{Name: "children", Limit: 5 * time.Minute, Script: fmt.Sprintf("inside forks %d", children)}, scrape("children gone"),
		{Name: "odd name", Script: fmt.Sprintf(`events --comm "$(printf '%s')" getppid %d`, odd, calls)}, scrape("odd"),
		{Name: "groups gone", Limit: 5 * time.Minute, Script: fmt.Sprintf("cd /sys/fs/cgroup/many && seq 1 %d | xargs rmdir", groups)}, scrape("after"),
		stopAgent,
	}}
	r := boot(t, g)
	ended(t, g, r)
	exact(t, r, "groups made", "among-groups", calls)
	exact(t, r, "children gone", "shortlived", children)
	exact(t, r, "odd", `a b\\xff\n\\\"c`, calls)
	// Only a bounded number of groups have series; the rest is counted in a parent.
	made := r.Steps["groups made"].Text
	if n := strings.Count(made, "\ncontainer_processes{"); n > 400 || !strings.Contains(made, `container_processes{id="/many"`) {
		t.Errorf("%d control groups of %d have series, want at most 400 and the parent's", n, groups)
	}
	// Ticks of the sampling clock are late while other guests have the CPU, and count as missed.
	missed := func(source string) float64 {
		return value(t, r, "after", `teescope_source_missed_events_total\{`+source+`\}`)
	}
	if n := missed(`[^}]*`) - missed(`source="samples"`); n > 0 {
		t.Errorf("%v events were missed", n)
	}
	note(t, k.Uname, "%d control groups, %d short-lived processes, a name with invalid bytes: counts are exact, nothing missed", groups, children)
}

// hotplug: the counters of a CPU that goes offline and comes back stay.
func hotplug(t *testing.T) {
	k := fetch(t, named(t, inputKernel))
	online := func(n int) string {
		return fmt.Sprintf("echo %d >/sys/devices/system/cpu/cpu1/online && cat /sys/devices/system/cpu/online", n)
	}
	g := &Guest{Kernel: k, CPUs: 2, Steps: []Step{
		startAgent, {Name: "on the second", Script: fmt.Sprintf("events --comm on-second --cpu 1 getppid %d", calls)}, scrape("two"),
		{Name: "off", Script: online(0)}, known("on-first"), scrape("one"),
		{Name: "on", Script: online(1)}, {Name: "on the second again", Script: fmt.Sprintf("events --comm on-again --cpu 1 getppid %d", calls)}, scrape("two again"),
		stopAgent,
	}}
	r := boot(t, g)
	ended(t, g, r)
	for step, processes := range map[string][]string{"two": {"on-second"}, "one": {"on-second", "on-first"}, "two again": {"on-second", "on-first", "on-again"}} {
		for _, p := range processes {
			exact(t, r, step, p, calls)
		}
	}
	note(t, k.Uname, "a CPU taken offline and back: counts are exact")
}
