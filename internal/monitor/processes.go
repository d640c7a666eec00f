//go:build linux

package monitor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/web"
)

// running lists the processes of a name, ordered by process id, the first of them with open files if files. One that ends during the
// search is left out.
func running(h *host.Host, name string, files bool) ([]web.Process, error) {
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
			p.Cgroup, p.Container = machine.PlaceIn(string(groups))
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b web.Process) int { return cmp.Compare(a.PID, b.PID) })
	if files {
		listOpenFiles(h, out)
	}
	return out, nil
}

// The bounds of the list of open files: of how many processes of a name they are listed, how many of all, how many
// descriptors of a process are looked at, and how many bytes of a path are shown.
const (
	mostFilesOf     = 16
	mostOpenFiles   = 64
	mostDescriptors = 1024
	mostOfPath      = 512
)

// listOpenFiles adds their open files to the first of the processes.
func listOpenFiles(h *host.Host, list []web.Process) {
	left := mostOpenFiles
	for i := range list[:min(mostFilesOf, len(list))] {
		list[i].Files = openFiles(h, fmt.Sprintf("/proc/%d", list[i].PID), left)
		left -= len(list[i].Files)
	}
}

// openFiles lists files that a process in a folder of /proc has open by a path (proc_pid_fd(5)), each once, at most so many.
// It is nil where they cannot be read. It asks the kernel, not the files, whose file system may not answer.
func openFiles(h *host.Host, process string, most int) (out []web.OpenFile) {
	links, err := h.ReadDir(process + "/fd")
	if err != nil || len(links) == 0 || most == 0 {
		return nil
	}
	devices := mountDevices(h, process)
	for _, link := range links[:min(mostDescriptors, len(links))] {
		target, err := h.Readlink(process + "/fd/" + link.Name())
		if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/dev/") || strings.HasPrefix(target, "/proc/") {
			continue
		}
		info, err := h.ReadFile(process + "/fdinfo/" + link.Name())
		if err != nil {
			continue
		}
		said := parseDescriptor(string(info))
		f := web.OpenFile{Device: devices[said["mnt_id"]], Inode: said["ino"], Path: strings.ToValidUTF8(target[:min(mostOfPath, len(target))], "\uFFFD")}
		flags, err := strconv.ParseUint(said["flags"], 8, 32)
		if err != nil || flags&unix.O_DIRECTORY != 0 || f.Device == "" || f.Inode == "" || slices.Contains(out, f) {
			continue
		}
		if out = append(out, f); len(out) == most {
			break
		}
	}
	return out
}

// mountDevices returns the devices of the file systems that a process sees, by the ids of their mounts.
func mountDevices(h *host.Host, process string) map[string]string {
	file := process + "/mountinfo"
	b, err := h.ReadFile(file)
	if err != nil {
		return nil
	}
	mounts, _ := machine.ParseMounts(file, b) // the lines that it can read
	out := make(map[string]string, len(mounts))
	for _, m := range mounts {
		out[m.ID] = m.Device
	}
	return out
}

// parseDescriptor reads the lines "name: value" of a file of /proc/PID/fdinfo.
func parseDescriptor(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		out[name] = strings.TrimSpace(value)
	}
	return out
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
	return fmt.Sprintf("%s runs under the process name %s, together with all other processes of that name", program, strings.Join(out[:min(mostRunning, len(out))], ", "))
}
