package launchers

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/teescope/teescope/internal/host"
)

// ownerFile is in every folder that a launcher makes. It names the process that owns the folder, the folder's data folder
// and its short one, a line each, so the next environment can remove what a killed harness left behind.
const ownerFile = ".teescope-owner"

// claimFolder claims a new folder for this process. A machine without /proc (a fixture)
// has no processes that could leave anything.
func claimFolder(h *host.Host, folder, data, short string) error {
	me, err := identity(h, "self")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if err := h.Install(path.Join(folder, ownerFile), []byte(strings.Join([]string{me + " " + namespace(h), data, short, ""}, "\n")), 0o600); err != nil {
		return fmt.Errorf("claim the work folder: %w", err)
	}
	return nil
}

// namespace is the PID namespace in which this process's numbers count (pid_namespaces(7)), like pid:[4026531836].
func namespace(h *host.Host) string {
	ns, _ := h.Readlink("/proc/self/ns/pid") // without namespaces there is one
	return ns
}

// identity distinguishes a process from all others of this boot: its number and its start time
// (proc_pid_stat(5), fields 1 and 22).
func identity(h *host.Host, pid string) (string, error) {
	stat, err := h.ReadString("/proc/" + pid + "/stat")
	if err != nil {
		return "", err
	}
	number, _, _ := strings.Cut(stat, " ")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("parse /proc/%s/stat: %d fields", pid, len(fields))
	}
	return number + " " + fields[19], nil
}

// sweep removes the folders of killed harnesses next to one just made, and kills the processes
// that still name them. Before that, first ends what a signal does not. A folder from another PID namespace, such as a
// container's with the same temporary folder, is left alone: whether its owner lives cannot be seen.
func sweep(h *host.Host, made, prefix string, first []func(work, short string)) error {
	found, err := h.Glob(path.Join(host.Literal(path.Dir(made)), prefix+"-*", ownerFile))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range found {
		work := path.Dir(name)
		fi, err := h.Stat(work)
		if err != nil || work == made {
			continue
		}
		// Others may write here too: trust only folders of our own user.
		if !isOurs(fi) || fi.Mode().Perm()&0o022 != 0 {
			continue
		}
		text, err := h.ReadString(name)
		if err != nil {
			continue
		}
		owner, places, _ := strings.Cut(text, "\n")
		owner, here := strings.CutSuffix(owner, " "+namespace(h))
		pid, _, ok := strings.Cut(owner, " ")
		if now, err := identity(h, pid); !ok || !here || err == nil && now == owner {
			continue
		}
		data, short, _ := strings.Cut(places, "\n")
		if short = strings.TrimSuffix(short, "\n"); path.Base(short) != path.Base(work) {
			short = work
		}
		for _, f := range first {
			f(work, short)
		}
		endNamed(h, work)
		if path.Base(data) == path.Base(work) {
			errs = append(errs, h.RemoveAll(data))
		}
		errs = append(errs, h.RemoveAll(short), h.RemoveAll(work))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what a killed run left behind: %w", err)
	}
	return nil
}

// endNamed kills the processes whose command line or environment names a work folder, which no
// other program knows, and waits until they are gone. It looks again, because a dying process
// may have started another.
func endNamed(h *host.Host, work string) {
	if !h.IsLocal() {
		return
	}
	for end := h.Now().Add(probeTime); h.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		pids := named(h, work)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			kill(pid)
		}
	}
}

// named lists the processes, other than this one, that name a work folder. A process that has
// ended has neither arguments nor an environment (proc_pid_environ(5)).
func named(h *host.Host, work string) []int {
	name := regexp.MustCompile(regexp.QuoteMeta(work) + `(\W|$)`)
	var pids []int
	lines, _ := h.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		folder := path.Dir(line)
		pid, err := strconv.Atoi(path.Base(folder))
		if err != nil || pid == syscall.Getpid() {
			continue
		}
		said, _ := h.ReadFile(line)
		env, _ := h.ReadFile(path.Join(folder, "environ"))
		if name.Match(said) || name.Match(env) {
			pids = append(pids, pid)
		}
	}
	return pids
}
