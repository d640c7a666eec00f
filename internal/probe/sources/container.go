package sources

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// cgroupLimit bounds the cgroups shown, and so series and work. Containers come first,
// then cgroups high in the tree. Nothing omitted is lost: a cgroup's use is part of its
// parent's. The networks of the containers shown come on top, under the IDs of their pods.
const cgroupLimit = 400

// containerLabels are cAdvisor's. The id is the path of the cgroup. The name is the
// container's id, or the name that LXC gave it. Namespace, pod and container come from
// the names of the kubelet's logs and are empty elsewhere. As with the kubelet's cAdvisor,
// a pod's own cgroup and its sandbox have no container, so sums over containers leave
// them out with container!="". There is no image label: it would require asking the runtime.
var containerLabels = []string{"id", "name", "namespace", "pod", "container"}

var (
	ctrCPU         = containerCounter("cpu_usage_seconds", "CPU time in seconds", "cpu")
	ctrCPUUser     = containerCounter("cpu_user_seconds", "CPU time in user mode in seconds")
	ctrCPUSystem   = containerCounter("cpu_system_seconds", "CPU time in the kernel in seconds")
	ctrPeriods     = containerCounter("cpu_cfs_periods", "Scheduling periods in which the CPU quota was enforced")
	ctrThrottled   = containerCounter("cpu_cfs_throttled_periods", "Scheduling periods in which the CPU quota ran out")
	ctrThrottledS  = containerCounter("cpu_cfs_throttled_seconds", "Time in seconds for which the CPU quota stopped tasks")
	ctrPeriod      = containerGauge("spec_cpu_period", "Length of a scheduling period in microseconds")
	ctrQuota       = containerGauge("spec_cpu_quota", "CPU time allowed per period in microseconds; absent without a limit")
	ctrMemUsage    = containerGauge("memory_usage_bytes", "Memory charged in bytes, including page cache")
	ctrMemWorking  = containerGauge("memory_working_set_bytes", "Memory charged in bytes, excluding page cache not used recently")
	ctrMemRSS      = containerGauge("memory_rss", "Anonymous memory in bytes")
	ctrMemCache    = containerGauge("memory_cache", "Page cache in bytes")
	ctrMemFailures = containerCounter("memory_failures", "Page faults by type, and whether those of child cgroups are included (scope)", "failure_type", "scope")
	ctrMemLimit    = containerGauge("spec_memory_limit_bytes", "Memory limit in bytes; absent without one")
	ctrProcesses   = containerGauge("processes", "Processes in the cgroup itself, not in its children")
	ctrThreads     = containerGauge("threads", "Threads, including those of child cgroups")
	ctrReads       = containerCounter("fs_reads_bytes", "Bytes read from block devices", "device")
	ctrWrites      = containerCounter("fs_writes_bytes", "Bytes written to block devices", "device")
	ctrDisk        = gauge(string(metric.CountedContainerDisks), "1 for a disk that sums of container_fs_* over devices include. 0 for a disk on top of other disks, which also charge its bytes to the group (device mapper, md, bcache, drbd). From /sys/class/block, or else by name.", "device")
)

// ctrNet are columns of the /proc/PID/net/dev of one of the container's processes, by their place in machine.NetColumns.
var ctrNet = []struct {
	desc   *metric.Desc
	column int
}{
	{networkCounter("receive_bytes", "Bytes received"), 0},
	{networkCounter("receive_packets", "Packets received"), 1},
	{networkCounter("receive_packets_dropped", "Packets dropped on receive"), 3},
	{networkCounter("receive_errors", "Receive errors"), 2},
	{networkCounter("transmit_bytes", "Bytes sent"), 8},
	{networkCounter("transmit_packets", "Packets sent"), 9},
	{networkCounter("transmit_packets_dropped", "Packets dropped on send"), 11},
	{networkCounter("transmit_errors", "Send errors"), 10},
}

func containerCounter(name, what string, labels ...string) *metric.Desc {
	return counter("container_"+name+"_total", what+", by cgroup.", slices.Concat(containerLabels, labels)...)
}

func networkCounter(name, what string) *metric.Desc {
	return counter("container_network_"+name+"_total", what+", by cgroup; a pod's network is under the pod's cgroup.", slices.Concat(containerLabels, []string{"interface"})...)
}

func containerGauge(name, what string) *metric.Desc {
	return gauge("container_"+name, what+", by cgroup.", containerLabels...)
}

var container = probe.Source{
	Name:    "container",
	Doc:     "CPU, memory, I/O and network by container and systemd unit, from cgroup v1 and v2, under cAdvisor's names",
	Needs:   []probe.Need{{Capability: "cap_sys_ptrace", For: "to find the network namespace of another user's process, for the network counters of containers", Optional: true}},
	Kernels: "5.4 for cgroup v1, 5.15 for all that is read of v2.",
	Blind:   "Activity inside a confidential VM started by a container: its processes are not in the host's cgroups.",
	Metrics: func() []*metric.Desc {
		out := []*metric.Desc{ctrCPU, ctrCPUUser, ctrCPUSystem, ctrPeriods, ctrThrottled, ctrThrottledS, ctrPeriod, ctrQuota,
			ctrMemUsage, ctrMemWorking, ctrMemRSS, ctrMemCache, ctrMemFailures, ctrMemLimit, ctrProcesses, ctrThreads, ctrReads, ctrWrites, ctrDisk}
		for _, n := range ctrNet {
			out = append(out, n.desc)
		}
		return out
	}(),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		t, err := cgroupTrees(h)
		if err != nil {
			return nil, err
		}
		return reading((&containers{cgroups: t, limit: cgroupLimit}).read), nil
	},
}

type containers struct {
	*cgroups
	limit int
}

// round is what one reading needs beyond the cgroups themselves.
type round struct {
	emitter
	disks    map[string]string
	hostNet  string
	networks map[string]*netns // by namespace
	bad      *machine.Faults
}

func (c *containers) read(ctx context.Context, out emitter) error {
	var bad machine.Faults
	bad.Add(c.unread)
	all, err := c.list()
	bad.Add(err)
	shown := c.pick(all)
	if len(shown) < len(all) {
		bad.Add(fmt.Errorf("%d of %d cgroups have no own series; their parents' series include their use", len(all)-len(shown), len(all)))
	}
	r := round{emitter: out, networks: map[string]*netns{}, bad: &bad}
	bad.Add(namePods(c.Host, all))
	r.disks, err = readDiskNames(c.Host, out)
	bad.Add(err)
	if r.hostNet, _ = c.Readlink("/proc/1/ns/net"); r.hostNet == "" {
		// Only root may ask process 1; our own is the best guess.
		r.hostNet, _ = c.Readlink("/proc/self/ns/net")
	}
	for _, g := range shown {
		if ctx.Err() != nil {
			bad.Add(ctx.Err())
			break
		}
		c.readGroup(&r, g)
	}
	c.readNetworks(&r)
	return bad.Err()
}

// pick returns at most c.limit of the cgroups, ordered by id.
func (c *containers) pick(all map[string]*group) []*group {
	out := slices.Collect(maps.Values(all))
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(
			-cmp.Compare(min(len(a.name), 1), min(len(b.name), 1)),
			cmp.Compare(strings.Count(a.id, "/"), strings.Count(b.id, "/")),
			cmp.Compare(a.id, b.id))
	})
	out = out[:min(len(out), c.limit)]
	slices.SortFunc(out, func(a, b *group) int { return cmp.Compare(a.id, b.id) })
	return out
}

// readGroup reads each resource from the v1 tree if there is one, otherwise from the v2
// tree: in a hybrid setup the v2 tree has only the rest.
func (c *containers) readGroup(r *round, g *group) {
	labels := []string{g.id, g.name, g.namespace, g.pod, g.container}
	send := func(d *metric.Desc, v float64, more ...string) {
		if len(more) == 0 {
			r.send(d, v, labels...)
			return
		}
		r.send(d, v, slices.Concat(labels, more)...)
	}

	var controllers []string
	if g.v2 != "" {
		s, err := c.ReadString(path.Join(g.v2, "cgroup.controllers"))
		if err != nil {
			r.bad.Add(c.unlessGone(g.v2, err))
			return
		}
		controllers = strings.Fields(s)
	}
	for _, p := range resources {
		dir := g.v1[p.v1]
		switch {
		case dir != "":
			r.bad.Add(c.unlessGone(dir, p.readV1(c.cgroups, g, r, send)))
		case g.v2 != "" && (p.v2 == "" || slices.Contains(controllers, p.v2)):
			r.bad.Add(c.unlessGone(g.v2, p.readV2(c.cgroups, g, r, send)))
		}
	}
	r.bad.Add(c.readProcesses(r, g, send))
}

func (c *containers) readProcesses(r *round, g *group, send sender) error {
	dir := g.anyDir()
	b, err := c.ReadFile(path.Join(dir, "cgroup.procs"))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // a threaded cgroup has no processes itself
	}
	if err != nil {
		return c.unlessGone(dir, err)
	}
	send(ctrProcesses, float64(bytes.Count(b, []byte("\n"))))
	if g.name == "" {
		return nil
	}
	if pid := somePID(c.Host, dir, b); pid != "" {
		return c.unlessGone("/proc/"+pid, c.findNetwork(r, g, pid))
	}
	return nil
}

// somePID is a process of a container, whose folder has these, "" if none is visible. crun
// and systemd put a container's processes one level down.
func somePID(h *host.Host, dir string, procs []byte) string {
	for _, sub := range []string{"", "container", "init.scope", "init"} {
		if sub != "" {
			procs, _ = h.ReadFile(path.Join(dir, sub, "cgroup.procs"))
		}
		line, _, _ := bytes.Cut(procs, []byte("\n"))
		// 0 is a process outside our PID namespace.
		if _, err := strconv.ParseUint(string(line), 10, 32); err == nil && string(line) != "0" {
			return string(line)
		}
	}
	return ""
}

// netns is a network namespace of containers, with a process of each.
type netns struct {
	groups []*group
	pids   []string
}

// findNetwork notes a container's network namespace. The host's is not shown.
func (c *containers) findNetwork(r *round, g *group, pid string) error {
	ns, err := c.Readlink("/proc/" + pid + "/ns/net")
	if errors.Is(err, fs.ErrPermission) {
		return &probe.Problem{Err: err, Remedy: "run as root"}
	}
	if err != nil || ns == r.hostNet {
		return err
	}
	n := r.networks[ns]
	if n == nil {
		n = &netns{}
		r.networks[ns] = n
	}
	n.groups, n.pids = append(n.groups, g), append(n.pids, pid)
	return nil
}

// readNetworks shows each network namespace once, through one of its processes. Devices whose bytes another one of the
// container carries too, as those of containers inside it, are left out: readers of these series add them up.
func (c *containers) readNetworks(r *round) {
	for _, ns := range slices.Sorted(maps.Keys(r.networks)) {
		n := r.networks[ns]
		labels := c.networkLabels(n)
		for _, pid := range n.pids {
			file := "/proc/" + pid + "/net/dev"
			b, err := c.ReadFile(file)
			if err != nil {
				r.bad.Add(c.unlessGone("/proc/"+pid, err))
				continue // another process may still be there
			}
			var devices []machine.NetDevice
			r.bad.Add(machine.ParseNetDev(file, b, func(d machine.NetDevice) { devices = append(devices, d) }))
			var names []string
			for i := range devices {
				names = append(names, devices[i].Name)
			}
			// By name, since the sysfs in the container is a file system of the container's choice.
			counted := machine.CountedNames(names)
			for i := range devices {
				d := &devices[i]
				for _, f := range ctrNet {
					if d.Known[f.column] && counted[d.Name] {
						r.send(f.desc, float64(d.Cells[f.column]), slices.Concat(labels, []string{d.Name})...)
					}
				}
			}
			break
		}
	}
}

// networkLabels are those of the pod, whose containers share a network. Containers share one outside of pods, too, and in
// pods without a cgroup: the first that started made it, and the others joined.
func (c *containers) networkLabels(n *netns) []string {
	first, began := n.groups[0], uint64(math.MaxUint64)
	var of podName
	for i, g := range n.groups {
		if p := g.in; p != nil && p.dir != "" {
			return []string{p.dir, "", p.namespace, p.pod, ""}
		}
		if g.pod != "" && (of.pod == "" || strings.HasPrefix(of.pod, unnamed)) {
			of = podName{namespace: g.namespace, pod: g.pod}
		}
		if len(n.groups) > 1 {
			pid, _ := strconv.Atoi(n.pids[i])
			if at, err := startTime(c.Host, pid); err == nil && at < began {
				first, began = g, at
			}
		}
	}
	return []string{first.id, first.name, of.namespace, of.pod, ""}
}

// readDiskNames maps "major:minor" to cAdvisor's device label, and emits which of the disks sums count.
func readDiskNames(h *host.Host, out emitter) (map[string]string, error) {
	b, err := h.ReadFile("/proc/diskstats")
	if err != nil {
		return nil, err
	}
	var bad machine.Faults
	devices, err := machine.ParseDiskstats(b)
	bad.Add(err)
	roles, err := machine.ReadBlockRoles(h, devices)
	bad.Add(err)
	names := map[string]string{}
	for i := range devices {
		d := &devices[i]
		names[d.Number] = "/dev/" + d.Name
		role, err := roles.RoleOf(d)
		bad.Add(err)
		if err != nil || role != machine.Disk {
			continue
		}
		charged, err := roles.Charged(d)
		bad.Add(err)
		if err == nil {
			out.send(ctrDisk, oneIf(charged), "/dev/"+d.Name)
		}
	}
	return names, bad.Err()
}
