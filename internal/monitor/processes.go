//go:build linux

package monitor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/web"
)

// running lists the processes of a name, ordered by process id. One that ends during the search is left out.
func running(h *host.Host, name string) ([]web.Process, error) {
	comms, err := h.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	out := []web.Process{}
	for _, comm := range comms {
		if n, err := h.ReadString(comm); err != nil || n != name {
			continue
		}
		dir := path.Dir(comm)
		pid, err := strconv.Atoi(path.Base(dir))
		if err != nil {
			continue
		}
		p := web.Process{PID: pid}
		p.Command = command(h, dir)
		if groups, err := h.ReadFile(dir + "/cgroup"); err == nil {
			p.Cgroup, p.Container = placed(string(groups))
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b web.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// command says what the process in a folder of /proc runs; "" if it cannot be read.
func command(h *host.Host, dir string) string {
	line, err := h.ReadFile(dir + "/cmdline")
	if err != nil {
		return ""
	}
	exe, _ := h.Readlink(dir + "/exe") // it may not be followed; the command line often says enough
	return machine.Program(exe, line)
}

// mostRunning limits the names that a hint lists.
const mostRunning = 3

// runsAs says under which names of processes a program runs that a runtime runs, as the kernel names a process after the
// runtime; "" if none does.
func runsAs(h *host.Host, program string) string {
	comms, err := h.Glob("/proc/[0-9]*/comm")
	if err != nil || program == "" {
		return ""
	}
	var out []string
	for _, comm := range comms {
		does := command(h, path.Dir(comm))
		words := strings.Fields(does)
		if len(words) < 2 || !slices.ContainsFunc(words, func(w string) bool { return w == program || strings.HasSuffix(w, "."+program) }) {
			continue
		}
		name, err := h.ReadString(comm)
		if err != nil || name == program {
			continue
		}
		if as := fmt.Sprintf("%q (%s)", name, does); !slices.Contains(out, as) {
			out = append(out, as)
		}
	}
	slices.Sort(out)
	if out == nil {
		return ""
	}
	return fmt.Sprintf("%s runs as process %s, with all others of that name", program, strings.Join(out[:min(mostRunning, len(out))], ", "))
}

// placed is the control group of a process, by the content of its cgroup file, and the
// container that it stands for. Of several hierarchies one that knows the container counts,
// and then the longest path, which says most.
func placed(groups string) (group, container string) {
	for _, m := range machine.ParseMemberships(groups) {
		name := machine.InContainer(m.Path)
		if name != "" && container == "" || (name != "") == (container != "") && len(m.Path) > len(group) {
			group, container = m.Path, name
		}
	}
	return group, container
}
