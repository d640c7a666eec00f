package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// groups are the cgroups of this process: for each hierarchy that is mounted,
// its folder and those above it up to the mount point, which limit it too. Both
// versions may be mounted at once (cgroups(7)).
type groups struct {
	*host.Host
	v2 []string
	v1 map[string][]string // by controller
}

func ownGroups(h *host.Host) (*groups, error) {
	own, err := h.ReadString("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := h.ReadString("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	g := &groups{Host: h, v1: map[string][]string{}}
	for line := range strings.Lines(mounts) {
		// ID PARENT DEVICE ROOT MOUNT OPTIONS TAGS... - TYPE SOURCE SUPEROPTIONS
		left, right, ok := strings.Cut(line, " - ")
		at, what := strings.Fields(left), strings.Fields(right)
		if !ok || len(at) < 5 || len(what) < 3 {
			continue
		}
		root, mount := unoctal(at[3]), unoctal(at[4])
		for line := range strings.Lines(own) {
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			switch {
			case len(f) != 3:
			case what[0] == "cgroup2" && f[1] == "" && g.v2 == nil:
				g.v2 = upward(mount, root, f[2])
			case what[0] == "cgroup":
				for _, c := range strings.Split(f[1], ",") {
					if g.v1[c] == nil && slices.Contains(strings.Split(what[2], ","), c) {
						g.v1[c] = upward(mount, root, f[2])
					}
				}
			}
		}
	}
	if g.v2 == nil && len(g.v1) == 0 {
		return nil, errors.New("no cgroup file system is mounted")
	}
	return g, nil
}

// upward lists a cgroup's folder and those above it, below a mount that shows
// the cgroup root. Where a namespace hides which one is ours, the mount shows it.
func upward(mount, root, group string) []string {
	rel, ok := strings.CutPrefix(group, strings.TrimSuffix(root, "/"))
	if !ok || rel != "" && rel[0] != '/' {
		rel = "/"
	}
	out := []string{}
	for p := path.Clean("/" + rel); ; p = path.Dir(p) {
		out = append(out, path.Join(mount, p))
		if p == "/" {
			return out
		}
	}
}

// unoctal undoes the escapes of mountinfo: \040 for a space and the like.
func unoctal(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); s[i] == '\\' && err == nil {
			s = s[:i] + string([]byte{byte(v)}) + s[i+4:]
		}
	}
	return s
}

// least returns the smallest of the limits in a file of the folders; not there
// and "no limit" are not limits. limit turns a file's text into a number; false is
// none.
func (g *groups) least(dirs []string, limit func(dir string) (float64, bool, error)) (least float64, limited bool, err error) {
	for _, dir := range dirs {
		v, ok, e := limit(dir)
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		if e == nil && ok && (!limited || v < least) {
			least, limited = v, true
		}
	}
	return least, limited, err
}

// number is a limit that is one number, "max" or -1 for none, or, with cgroup v1,
// a number near the largest one.
func (g *groups) number(file string) func(string) (float64, bool, error) {
	return func(dir string) (float64, bool, error) {
		s, err := g.ReadString(path.Join(dir, file))
		if err != nil || s == "max" || s == "-1" {
			return 0, false, err
		}
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, false, fmt.Errorf("parse %s: %w", path.Join(dir, file), err)
		}
		return float64(v), v < 1<<62, nil
	}
}

// quota is the number of CPUs that a CPU bandwidth limit allows.
func (g *groups) quota(dir string) (float64, bool, error) {
	name := path.Join(dir, "cpu.max")
	s, err := g.ReadString(name)
	if errors.Is(err, fs.ErrNotExist) {
		name = path.Join(dir, "cpu.cfs_quota_us")
		var period string
		if s, err = g.ReadString(name); err == nil {
			period, err = g.ReadString(path.Join(dir, "cpu.cfs_period_us"))
		}
		s += " " + period
	}
	if err != nil {
		return 0, false, err
	}
	var q, p float64
	f := strings.Fields(s)
	if len(f) == 2 && (f[0] == "max" || f[0] == "-1") {
		return 0, false, nil
	}
	if _, err := fmt.Sscan(s, &q, &p); err != nil || !(q > 0 && p > 0) {
		return 0, false, fmt.Errorf("parse %s: %q", name, s)
	}
	return q / p, true, nil
}

// limitNames are the limits that limits looks for.
var limitNames = []string{"cpus", "memory_bytes", "swap_bytes", "pids", "cpuset"}

// limits adds what the cgroups of this process allow it: "cpus" (a number of
// them, from the bandwidth quota), "memory_bytes", "swap_bytes", "pids" and
// "cpuset". What is not limited is not added. It returns what could not be read.
func (g *groups) limits(out map[string]string) map[string]error {
	errs := map[string]error{}
	for _, l := range []struct {
		name  string
		dirs  []string
		limit func(string) (float64, bool, error)
	}{
		{"cpus", slices.Concat(g.v2, g.v1["cpu"]), g.quota},
		{"memory_bytes", g.v2, g.number("memory.max")},
		{"memory_bytes", g.v1["memory"], g.number("memory.limit_in_bytes")},
		{"swap_bytes", g.v2, g.number("memory.swap.max")},
		{"pids", slices.Concat(g.v2, g.v1["pids"]), g.number("pids.max")},
	} {
		v, ok, err := g.least(l.dirs, l.limit)
		if ok {
			out[l.name] = strconv.FormatFloat(v, 'f', -1, 64)
		} else if err != nil {
			errs[l.name] = err
		}
	}
	for _, f := range []struct {
		dirs []string
		file string
	}{{g.v2, "cpuset.cpus.effective"}, {g.v1["cpuset"], "cpuset.effective_cpus"}, {g.v1["cpuset"], "cpuset.cpus"}} {
		if len(f.dirs) == 0 || out["cpuset"] != "" {
			continue
		}
		s, err := g.ReadString(path.Join(f.dirs[0], f.file))
		if err == nil && s != "" {
			out["cpuset"] = s
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs["cpuset"] = err
		}
	}
	return errs
}

// throttled counts how often the CPU quota of one of the cgroups ran out. ok is
// false where no cgroup counts it.
func (g *groups) throttled() (n float64, ok bool, err error) {
	for _, dir := range slices.Concat(g.v2, g.v1["cpu"]) {
		name := path.Join(dir, "cpu.stat")
		s, e := g.ReadString(name)
		if e != nil {
			if !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
			continue
		}
		for line := range strings.Lines(s) {
			if v, found := strings.CutPrefix(line, "nr_throttled "); found {
				c, e := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
				if e != nil {
					err = errors.Join(err, fmt.Errorf("parse %s: %w", name, e))
					continue
				}
				n, ok = n+float64(c), true
			}
		}
	}
	return n, ok, err
}
