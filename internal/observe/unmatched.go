package observe

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
)

// unmatched says what a user who names processes may not expect: that the kernel cuts a name, and that no process that runs now
// matches, with the nearest name. what is where the names were given.
func unmatched(h *host.Host, what string, wanted *metric.NamePattern) []string {
	var out []string
	for _, long := range wanted.Long() {
		out = append(out, fmt.Sprintf("%s: the kernel keeps %d bytes of a process's name, so %q is matched as %q, with all others of that name", what, metric.NameBytes, long, metric.CutName(long)))
	}
	names, err := runningNames(h)
	if err != nil || len(names) == 0 { // without /proc nothing is known
		return out
	}
	kept := slices.Collect(maps.Keys(names))
	if slices.ContainsFunc(kept, wanted.MatchString) {
		return out
	}
	text := fmt.Sprintf("%s: no process that runs now matches %q", what, wanted)
	for _, name := range slices.Sorted(slices.Values(kept)) {
		for _, full := range names[name] {
			if wanted.MatchString(full) {
				return append(out, fmt.Sprintf("%s; %q runs under the name %q", text, full, name))
			}
		}
	}
	return append(out, fmt.Sprintf("%s; the nearest name is %q", text, metric.Nearest(strings.Trim(wanted.String(), "^$"), kept)[0]))
}

// runningNames returns the names of the processes that run, as label values, with the names of their programs' files.
func runningNames(h *host.Host) (map[string][]string, error) {
	comms, err := h.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, comm := range comms {
		name, err := h.ReadString(comm)
		if err != nil || name == "" { // it has ended
			continue
		}
		name = metric.Label(name)
		out[name] = append(out[name], programs(h, path.Dir(comm))...)
	}
	return out, nil
}

// programs returns the names of the files that the process in a folder of /proc executes and was called by.
func programs(h *host.Host, dir string) []string {
	var out []string
	if exe, err := h.Readlink(dir + "/exe"); err == nil {
		out = append(out, path.Base(strings.TrimSuffix(exe, " (deleted)")))
	}
	if line, err := h.ReadString(dir + "/cmdline"); err == nil && line != "" {
		called, _, _ := strings.Cut(line, "\x00")
		called, _, _ = strings.Cut(called, " ") // a process may write its own title, with secrets
		out = append(out, path.Base(called))
	}
	return out
}

// warnUnmatched logs what is unexpected about the names of processes in the flags and in a configuration.
func (o *Observer) warnUnmatched(c *Sections) {
	for _, line := range o.unmatchedNames(c) {
		o.Log.Warn(line)
	}
}

func (o *Observer) unmatchedNames(c *Sections) []string {
	var out []string
	if o.Filter != nil {
		out = append(out, unmatched(o.Host, "--process", o.Filter)...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		s := c.Sources[name].Process
		if s == nil || *s == "" {
			continue
		}
		if wanted, err := metric.CompileNames(*s); err == nil { // else the configuration is refused
			out = append(out, unmatched(o.Host, "sources."+name+".process", wanted)...)
		}
	}
	for i, r := range c.Requests {
		if wanted, err := metric.CompileNames("^" + regexp.QuoteMeta(r.Process) + "$"); err == nil {
			out = append(out, unmatched(o.Host, "requests["+strconv.Itoa(i)+"].process", wanted)...)
		}
	}
	return out
}
