//go:build linux

package monitor

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/web"
)

// running lists the processes of a name, ordered by process id, with their open files if files. One that ends during the
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
		if files {
			p.Files = openFiles(h, dir+"/fd")
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b web.Process) int { return cmp.Compare(a.PID, b.PID) })
	return out, nil
}

// mostOpenFiles is how many files of a process are listed, mostDescriptors how many of its descriptors are looked at.
const (
	mostOpenFiles   = 64
	mostDescriptors = 1024
)

// openFiles lists the regular files to which the links in a folder of descriptors lead (proc_pid_fd(5)), each once. It is nil
// where the folder cannot be read.
func openFiles(h *host.Host, folder string) (out []web.OpenFile) {
	links, err := h.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, link := range links[:min(mostDescriptors, len(links))] {
		name := folder + "/" + link.Name()
		target, err := h.Readlink(name)
		if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "/dev/") || strings.HasPrefix(target, "/proc/") {
			continue
		}
		fi, err := h.Stat(name)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if !ok {
			continue
		}
		f := web.OpenFile{Device: fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), Inode: strconv.FormatUint(st.Ino, 10), Path: target}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
		if len(out) == mostOpenFiles {
			break
		}
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
	return fmt.Sprintf("%s runs as process %s, with all others of that name", program, strings.Join(out[:min(mostRunning, len(out))], ", "))
}
