package cli

import (
	"cmp"
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
		// Arguments follow the first zero byte (proc(5)) or, of a process that writes its own
		// title, the first space.
		if line, err := h.ReadFile(dir + "/cmdline"); err == nil {
			p.Command, _, _ = strings.Cut(string(line), "\x00")
			p.Command, _, _ = strings.Cut(p.Command, " ")
		}
		if groups, err := h.ReadFile(dir + "/cgroup"); err == nil {
			p.Cgroup, p.Container = placed(string(groups))
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b web.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// placed is the control group of a process, by the content of its cgroup file, and the
// container that it stands for. Of several hierarchies the longest path says most.
func placed(groups string) (group, container string) {
	for _, m := range machine.ParseMemberships(groups) {
		if len(m.Path) > len(group) {
			group = m.Path
		}
	}
	for dir := group; len(dir) > 1 && container == ""; dir = path.Dir(dir) {
		container = machine.ContainerName(dir)
	}
	return group, container
}
