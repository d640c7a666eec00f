package machine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// CgroupMount is one mounted hierarchy of control groups.
type CgroupMount struct {
	V2          bool
	Point       string   // folder
	Root        string   // the cgroup that Point shows, "/" except in containers
	Controllers []string // of v1, among other options
}

// CgroupMounts picks the hierarchies out of the mounts of a process. A mount that shows more of one is before those of its parts.
func CgroupMounts(mounts []Mount) []CgroupMount {
	var out []CgroupMount
	for _, m := range mounts {
		switch m.Type {
		case "cgroup2":
			out = append(out, CgroupMount{V2: true, Root: m.Root, Point: m.Point})
		case "cgroup":
			out = append(out, CgroupMount{Root: m.Root, Point: m.Point, Controllers: strings.Split(m.Super, ",")})
		}
	}
	depth := func(m CgroupMount) int { // "/.." is above our namespace
		if strings.HasPrefix(m.Root, "/..") {
			return 0
		}
		return len(m.Root)
	}
	slices.SortStableFunc(out, func(a, b CgroupMount) int { return cmp.Compare(depth(a), depth(b)) })
	return out
}

// Membership is one line of /proc/PID/cgroup: the group of a process in one
// hierarchy. That of v2 has no controllers.
type Membership struct {
	Controllers []string
	Path        string
}

// ParseMemberships reads lines "number:controllers:path" (cgroups(7)). A path may
// hold anything but a line feed.
func ParseMemberships(cgroup string) []Membership {
	var out []Membership
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			continue
		}
		m := Membership{Path: f[2]}
		if f[1] != "" {
			m.Controllers = strings.Split(f[1], ",")
		}
		out = append(out, m)
	}
	return out
}

// Cgroups are the control groups of this process: for each hierarchy that is
// mounted, its folder and those above it up to the mount point, which limit it
// too. Both versions may be mounted at once (cgroups(7)).
type Cgroups struct {
	*host.Host
	v2 []string
	v1 map[string][]string // by controller
}

// OwnCgroups finds the control groups of this process. It fails where /proc hides
// them or no hierarchy is mounted.
func OwnCgroups(h *host.Host) (*Cgroups, error) {
	own, err := h.ReadString("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	const file = "/proc/self/mountinfo"
	text, err := h.ReadFile(file)
	if err != nil {
		return nil, err
	}
	mounts, err := ParseMounts(file, text)
	g := &Cgroups{Host: h, v1: map[string][]string{}}
	for _, mount := range CgroupMounts(mounts) {
		for _, m := range ParseMemberships(own) {
			if mount.V2 && m.Controllers == nil && g.v2 == nil {
				g.v2 = upward(mount.Point, mount.Root, m.Path)
			}
			for _, c := range m.Controllers {
				if g.v1[c] == nil && slices.Contains(mount.Controllers, c) {
					g.v1[c] = upward(mount.Point, mount.Root, m.Path)
				}
			}
		}
	}
	if g.v2 == nil && len(g.v1) == 0 {
		return nil, cmp.Or(err, errors.New("no cgroup file system is mounted"))
	}
	return g, nil
}

// upward lists a cgroup's folder and those above it, below a mount that shows
// the cgroup root. Where a namespace hides our group, the mount's own is ours.
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

// least returns the smallest limit of the folders. limit reads one folder's and
// reports whether there is one; a missing file is no limit.
func (g *Cgroups) least(dirs []string, limit func(dir string) (float64, bool, error)) (least float64, limited bool, err error) {
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
func (g *Cgroups) number(file string) func(string) (float64, bool, error) {
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
func (g *Cgroups) quota(dir string) (float64, bool, error) {
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

// MemoryLimit returns the least limit on memory of the control groups in bytes, from both versions and from all groups
// above; false if there is none. One that throttles (memory.high) counts: beyond it the process hardly runs.
func (g *Cgroups) MemoryLimit() (bytes int64, limited bool) {
	for _, l := range []struct {
		dirs []string
		file string
	}{{g.v2, "memory.max"}, {g.v2, "memory.high"}, {g.v1["memory"], "memory.limit_in_bytes"}} {
		if v, ok, _ := g.least(l.dirs, g.number(l.file)); ok && (!limited || int64(v) < bytes) {
			bytes, limited = int64(v), true
		}
	}
	return bytes, limited
}

// LimitNames are the limits that Limits looks for.
var LimitNames = []string{"cpus", "memory_bytes", "swap_bytes", "pids", "cpuset"}

// Limits adds what the cgroups of this process allow it: "cpus" (a number of
// them, from the bandwidth quota), "memory_bytes", "swap_bytes", "pids" and
// "cpuset". What is not limited is not added. It returns what could not be read.
func (g *Cgroups) Limits(out map[string]string) map[string]error {
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

// Throttled counts how often the CPU quota of one of the cgroups ran out. ok is
// false where no cgroup counts it.
func (g *Cgroups) Throttled() (n float64, ok bool, err error) {
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

// ContainerName returns the name of the container whose cgroup a path is, "" for
// other cgroups. Runtimes put it into the last part of the path:
//
//	docker-ID.scope  cri-containerd-ID.scope  crio-ID.scope  nerdctl-ID.scope  libpod-ID.scope   systemd driver
//	docker/ID  kubepods/.../podUID/ID  default/ID  libpod_parent/libpod-ID                       cgroupfs driver
//	kubepods-burstable-podUID.slice:cri-containerd:ID                                            containerd, mixed up
//	lxc.payload.NAME  lxc/NAME                                                                   LXC
//
// at any depth, with an ID of 64 hexadecimal digits. The cgroups of conmon and of
// lxc.monitor belong to the runtime.
func ContainerName(id string) string {
	dir, last := path.Split(id)
	if name, ok := strings.CutPrefix(last, "lxc.payload."); ok {
		return name
	}
	if strings.HasSuffix(dir, "/lxc/") {
		return last
	}
	last = strings.TrimSuffix(last, ".scope")
	if i := strings.LastIndexAny(last, "-:"); i >= 0 {
		if strings.HasSuffix(last[:i], "conmon") {
			return ""
		}
		last = last[i+1:]
	}
	if IsContainerID(last) {
		return last
	}
	return ""
}

// IsContainerID reports whether s has the form of an OCI runtime's container ID.
func IsContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// InContainer returns the name of the container that a cgroup is or is below, the innermost one; "" outside containers.
func InContainer(id string) string {
	for g := path.Clean(id); g != "/" && g != "."; g = path.Dir(g) {
		if name := ContainerName(g); name != "" {
			return name
		}
	}
	return ""
}

// Pod returns the UID of the Kubernetes pod that a cgroup is or is below, and the pod's own cgroup; "" outside pods. The
// kubelet makes them below one named kubepods, wherever that is (pkg/kubelet/cm, cgroup_manager_linux.go):
//
//	kubepods/burstable/podUID                                    cgroupfs driver
//	ROOT-kubepods.slice/ROOT-kubepods-burstable.slice/ROOT-kubepods-burstable-podUID.slice
//	kubepods-burstable-podUID.slice:cri-containerd:ID            containerd, mixed up: without a cgroup of the pod
//
// where systemd's driver has "_" for "-". The UID of a static pod is the hash of its file.
func Pod(id string) (uid, dir string) {
	if !strings.Contains(id, "kubepods") {
		return "", ""
	}
	for g := path.Clean(id); g != "/" && g != "."; g = path.Dir(g) {
		unit, _, mixed := strings.Cut(path.Base(g), ":")
		m := podUnit.FindStringSubmatch(unit)
		if m == nil {
			m = podFolder.FindStringSubmatch(g)
		}
		switch {
		case m == nil:
		case mixed:
			return strings.ReplaceAll(m[1], "_", "-"), ""
		default:
			return strings.ReplaceAll(m[1], "_", "-"), g
		}
	}
	return "", ""
}

// A guaranteed pod is in no class.
var (
	podUnit   = regexp.MustCompile(`^(?:.+-)?kubepods(?:-burstable|-besteffort)?-pod(.+?)(?:\.slice)?$`)
	podFolder = regexp.MustCompile(`/kubepods(?:/burstable|/besteffort)?/pod([^/]+)$`)
)
