//go:build linux

package monitor

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/locked"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/query"
	"github.com/teescope/teescope/internal/rivals"
)

// places knows on which CPUs the processes of this machine may run. It asks the kernel at most once in a while, and
// only when something waits for a CPU.
type places struct {
	host *host.Host
	last locked.Value[placedAt]
}

// placedAt is an answer of places, by process name, with its time.
type placedAt struct {
	at   time.Time
	took time.Duration
	list map[string]rivals.Place
}

// An answer is used again for placesAge, and for placesRest times as long as it took, so that it costs at most 0.2 % of a
// core. mostPlaced bounds how many processes are read for one.
const (
	placesAge  = 15 * time.Second
	placesRest = 500
	mostPlaced = 10_000
)

// now returns the places of all processes by name; nil where /proc cannot be read.
func (p *places) now() map[string]rivals.Place {
	v := p.last.Lock()
	defer p.last.Unlock()
	at := p.host.Now()
	if age := at.Sub(v.at); v.at.IsZero() || age < 0 || age >= max(placesAge, placesRest*v.took) {
		v.at, v.list = at, readPlaces(p.host)
		v.took = max(0, p.host.Now().Sub(at))
	}
	return v.list
}

// placesOn returns the places of the processes of a machine; nil for another one, which cannot be asked.
func (m *monitor) placesOn(on query.Machine) map[string]rivals.Place {
	if own := m.own(); m.places == nil || on.Instance != own.Instance || on.Job != "" && on.Job != own.Job {
		return nil
	}
	return m.places.now()
}

// readPlaces reads where each process runs, and the CPUs that it may use (Cpus_allowed_list, proc_pid_status(5)): its affinity, within the
// cpuset of its control group. Processes of one name are one; those that may use every CPU have no list. It is that of
// a process's first thread.
func readPlaces(h *host.Host) map[string]rivals.Place {
	online, err := machine.OnlineCPUs(h)
	if err != nil {
		return nil
	}
	files, err := h.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil
	}
	out := map[string]rivals.Place{}
	for _, file := range files[:min(mostPlaced, len(files))] {
		text, err := h.ReadString(file)
		if err != nil {
			continue // it has ended, or is hidden
		}
		name, cpus, err := parseStatus(text)
		if err != nil || name == "" {
			continue
		}
		before, seen := out[name]
		place := rivals.Place{Homes: before.Homes}
		if cpus = slices.DeleteFunc(cpus, func(c int) bool { return !slices.Contains(online, c) }); !seen || before.CPUs != nil {
			cpus = append(cpus, before.CPUs...)
			slices.Sort(cpus)
			if cpus = slices.Compact(cpus); len(cpus) < len(online) {
				place.CPUs = cpus
			}
		}
		if groups, err := h.ReadString(path.Dir(file) + "/cgroup"); err == nil {
			home := machine.HomeOf(groups)
			if machine.HoldsPrograms(name) {
				line, _ := h.ReadFile(path.Dir(file) + "/cmdline") // it may have ended, or be hidden
				exe, _ := h.Readlink(path.Dir(file) + "/exe")
				home = machine.HomeIn(home, exe, line)
			}
			if home != "" && !slices.Contains(place.Homes, home) && len(place.Homes) < mostHomes {
				place.Homes = append(place.Homes, home)
				slices.Sort(place.Homes)
			}
		}
		out[name] = place
	}
	return out
}

// mostHomes is how many units, containers and programs in a runtime of one process name are told apart.
const mostHomes = 8

// parseStatus returns the name of a process, as the series have it, and the CPUs that it may use.
func parseStatus(text string) (name string, cpus []int, err error) {
	user := false
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			name = unescapeName.Replace(value)
		case "VmSize":
			user = true
		case "Cpus_allowed_list":
			cpus, err = machine.ParseCPUList(value)
		}
	}
	if !user {
		name, _, _ = strings.Cut(name, "/") // series name kernel threads so
	}
	return metric.Label(name), cpus, err
}

// unescapeName undoes what the kernel does to a name in status (string_escape_str with ESCAPE_SPACE and a backslash).
var unescapeName = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\v`, "\v", `\f`, "\f")
