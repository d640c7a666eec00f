package sources

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/probe"
)

// tree is a mounted cgroup hierarchy.
type tree struct {
	mount string
	root  string // the cgroup that the mount point shows, "/" but in containers
}

// cgroups are the hierarchies of a machine: one for each v1 controller in use, and the
// v2 one. A machine may have both ("hybrid").
type cgroups struct {
	*host.Host
	v1 map[string]tree
	v2 *tree
	// unread says which mounts could not be read: some may be missing here.
	unread error
	// Kernel build options, as seen at the root of the v1 trees.
	v1Quota bool
	v1IO    string
	// v2Top says that the v2 mount shows the real root, which has no limits and fewer
	// files, and not a cgroup namespace's root.
	v2Top bool
}

// cgroupTrees finds the hierarchies among the host's mounts.
func cgroupTrees(h *host.Host) (*cgroups, error) {
	mounts, err := cgroupMounts(h)
	if err != nil && len(mounts) == 0 {
		return nil, err
	}
	c := &cgroups{Host: h, v1: map[string]tree{}, unread: err}
	for _, m := range mounts {
		t := tree{mount: m.Point, root: m.Root}
		if strings.HasPrefix(t.root, "/..") { // above our cgroup namespace
			t.root = "/"
		}
		switch {
		case m.V2 && c.v2 == nil:
			c.v2 = &t
		case !m.V2:
			for _, option := range m.Controllers {
				if _, ok := c.v1[option]; !ok && slices.Contains([]string{"cpuacct", "cpu", "memory", "pids", "blkio"}, option) {
					c.v1[option] = t
				}
			}
		}
	}
	if c.v2 == nil && len(c.v1) == 0 {
		return nil, &probe.Problem{Err: probe.NotHere("no cgroup file system is mounted"), Remedy: "mount -t cgroup2 cgroup2 /sys/fs/cgroup"}
	}
	return c, c.detectLayout()
}

// detectLayout finds out how the kernel was built and where we are.
func (c *cgroups) detectLayout() error {
	var err error
	if t, ok := c.v1["cpu"]; ok {
		if c.v1Quota, err = c.Exists(path.Join(t.mount, "cpu.cfs_quota_us")); err != nil {
			return err
		}
	}
	if t, ok := c.v1["blkio"]; ok {
		// The recursive file exists since Linux 5.2 with the throttling policy.
		for _, name := range []string{"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes"} {
			found, err := c.Exists(path.Join(t.mount, name))
			if err != nil {
				return err
			}
			if found {
				c.v1IO = name
				break
			}
		}
	}
	if c.v2 != nil {
		below, err := c.Exists(path.Join(c.v2.mount, "cgroup.type"))
		c.v2Top = !below
		return err
	}
	return nil
}

// group is one cgroup: its folder in each hierarchy that has it.
type group struct {
	id, name string // name: of the container, "" if it is none
	podName
	in  *pod // of a pod's container
	v1  map[string]string
	v2  string
	top bool // the root of the v2 tree
}

// anyDir is a folder with the cgroup's processes. Hybrid setups may not list them in
// the v2 tree.
func (g *group) anyDir() string {
	for _, controller := range slices.Sorted(maps.Keys(g.v1)) {
		return g.v1[controller]
	}
	return g.v2
}

// maxCgroups ends the walk through a runaway tree.
const maxCgroups = 10000

// list finds all cgroups, by id.
func (c *cgroups) list() (map[string]*group, error) {
	out := map[string]*group{}
	at := func(id string) *group {
		g := out[id]
		if g == nil {
			g = &group{id: id, name: machine.ContainerName(id), v1: map[string]string{}}
			out[id] = g
		}
		return g
	}
	var err error
	byMount := map[string][]string{}
	for controller, t := range c.v1 {
		byMount[t.mount] = append(byMount[t.mount], controller)
	}
	for _, controllers := range byMount { // cpu and cpuacct are often one tree
		t := c.v1[controllers[0]]
		err = cmp.Or(err, c.walk(t, func(id, dir string) {
			g := at(id)
			for _, controller := range controllers {
				g.v1[controller] = dir
			}
		}))
	}
	if c.v2 != nil {
		err = cmp.Or(err, c.walk(*c.v2, func(id, dir string) {
			g := at(id)
			g.v2 = dir
			g.top = c.v2Top && dir == c.v2.mount
		}))
	}
	return out, err
}

func (c *cgroups) walk(t tree, visit func(id, dir string)) error {
	dirs := []string{t.mount}
	for n := 0; len(dirs) > 0; n++ {
		if n == maxCgroups {
			return fmt.Errorf("list cgroups below %s: more than %d", t.mount, maxCgroups)
		}
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		info, err := c.Stat(dir)
		if err != nil {
			if dir == t.mount || !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue // removed since the listing
		}
		visit(path.Join(t.root, strings.TrimPrefix(dir, t.mount)), dir)
		// A folder of cgroupfs has one link for each subfolder and two of its own, so
		// leaves need not be listed.
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 2 {
			continue
		}
		entries, err := c.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, path.Join(dir, e.Name()))
			}
		}
	}
	return nil
}

// unlessGone drops an error that only means that a folder was removed during the
// reading, as often happens to cgroups and processes.
func (c *cgroups) unlessGone(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH) {
		if there, lookErr := c.Exists(dir); lookErr == nil && !there {
			return nil
		}
	}
	return err
}
