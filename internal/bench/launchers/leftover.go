package launchers

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/teescope/teescope/internal/host"
)

// ownerFile lies in every folder that a launcher makes and says which process
// it belongs to, and where its data folder is, so that the next environment can
// remove what a killed harness has left.
const ownerFile = ".teescope-owner"

// own claims a new folder for this process. A machine without /proc (a fixture)
// has no processes that could leave anything.
func own(h *host.Host, folder, data string) error {
	me, err := identity(h, "self")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	if err := h.Install(path.Join(folder, ownerFile), []byte(me+"\n"+data+"\n"), 0o600); err != nil {
		return fmt.Errorf("claim the work folder: %w", err)
	}
	return nil
}

// identity tells a process from all others of this boot: its number and its
// start time (proc_pid_stat(5), fields 1 and 22).
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

// sweep removes the folders that killed harnesses have left next to one that was
// just made. first ends what still runs in such a folder.
func sweep(h *host.Host, made, prefix string, first []func(work string)) error {
	found, err := h.Glob(path.Join(path.Dir(made), prefix+"-*", ownerFile))
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
		// Others may write here too: only a folder of our own user is believed.
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != syscall.Getuid() || fi.Mode().Perm()&0o022 != 0 {
			continue
		}
		text, err := h.ReadString(name)
		if err != nil {
			continue
		}
		owner, data, _ := strings.Cut(text, "\n")
		pid, _, ok := strings.Cut(owner, " ")
		if now, err := identity(h, pid); !ok || err == nil && now == owner {
			continue
		}
		for _, f := range first {
			f(work)
		}
		if path.Base(data) == path.Base(work) {
			errs = append(errs, h.RemoveAll(data))
		}
		errs = append(errs, h.RemoveAll(work))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what a killed run left behind: %w", err)
	}
	return nil
}

// endNamed kills the processes whose command line names a work folder, which no
// other program knows of.
func endNamed(h *host.Host, work string) {
	if !h.IsLocal() {
		return
	}
	lines, _ := h.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		line, err := h.ReadFile(name)
		pid, perr := strconv.Atoi(path.Base(path.Dir(name)))
		if err == nil && perr == nil && pid != syscall.Getpid() && bytes.Contains(line, []byte(work+"/")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
