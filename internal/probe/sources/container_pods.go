package sources

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/probe"
)

// podName identifies a container in Kubernetes. A pod itself, and its sandbox, have no container. unnamed stands for a
// container whose name is unknown, and a pod whose name is unknown is one and its UID.
type podName struct{ namespace, pod, container string }

const unnamed = "unknown"

// podLogs are the names that the kubelet gives to logs.
type podLogs struct {
	containers map[string]podName // by container ID
	cut        []cutLog
	pods       map[string]podName // by UID
}

// complete reports whether each container of a pod that has started is among the logs.
func (l *podLogs) complete(uid string) bool {
	return l.pods[uid].pod != "" && len(l.containers) > 0 && !slices.ContainsFunc(l.cut, func(c cutLog) bool { return c.uid == uid && c.id == "" })
}

// cutLog is a log whose link has a name too long for a file system: its end, with the container's ID, is missing.
type cutLog struct {
	podName
	uid, id string // id: what is left
}

const podLogsDir, containerLogsDir = "/var/log/pods", "/var/log/containers"

// readPodLogs reads the names of the kubelet's logs: links POD_NAMESPACE_CONTAINER-ID.log to
// NAMESPACE_POD_UID/CONTAINER/N.log. A machine without kubelet has none.
func readPodLogs(h *host.Host) (*podLogs, error) {
	out := &podLogs{containers: map[string]podName{}, pods: map[string]podName{}}
	var bad machine.Faults
	list := func(dir string) []fs.DirEntry {
		entries, err := h.ReadDir(dir)
		if !errors.Is(err, fs.ErrNotExist) {
			bad.Add(err)
		}
		return entries
	}
	for _, e := range list(podLogsDir) {
		if uid, p, ok := parsePodFolder(e.Name()); ok {
			out.pods[uid] = p
		}
	}
	for _, l := range list(containerLogsDir) {
		if id, p, ok := parseLogName(l.Name()); ok {
			out.containers[id] = p
			continue
		}
		target, err := h.Readlink(path.Join(containerLogsDir, l.Name()))
		if err != nil {
			continue // a file of another program
		}
		if c, ok := parseCutLog(l.Name(), target); ok {
			out.cut = append(out.cut, c)
		}
	}
	return out, bad.Err()
}

// parseLogName splits POD_NAMESPACE_CONTAINER-ID.log (kubelet,
// pkg/kubelet/kuberuntime/legacy.go). Names in Kubernetes have no underscore.
func parseLogName(s string) (id string, p podName, ok bool) {
	s, ok = strings.CutSuffix(s, ".log")
	parts := strings.Split(s, "_")
	if !ok || len(parts) != 3 {
		return "", p, false
	}
	i := strings.LastIndexByte(parts[2], '-')
	if i < 0 || !machine.IsContainerID(parts[2][i+1:]) {
		return "", p, false
	}
	return parts[2][i+1:], podName{namespace: parts[1], pod: parts[0], container: parts[2][:i]}, true
}

// parsePodFolder splits NAMESPACE_POD_UID (kubelet, BuildPodLogsDirectory).
func parsePodFolder(s string) (uid string, p podName, ok bool) {
	parts := strings.SplitN(s, "_", 3)
	if len(parts) != 3 || slices.Contains(parts, "") {
		return "", p, false
	}
	return parts[2], podName{namespace: parts[0], pod: parts[1]}, true
}

// parseCutLog reads a link of which the kubelet cut the name to what a file system takes. Its target has all names.
func parseCutLog(name, target string) (c cutLog, ok bool) {
	container := path.Dir(target)
	c.uid, c.podName, ok = parsePodFolder(path.Base(path.Dir(container)))
	c.container = path.Base(container)
	s, log := strings.CutSuffix(name, ".log")
	whole := c.pod + "_" + c.namespace + "_" + c.container + "-"
	if !ok || !log || len(s) < len(whole) && !strings.HasPrefix(whole, s) {
		return cutLog{}, false
	}
	if len(s) > len(whole) {
		c.id, ok = strings.CutPrefix(s, whole)
	}
	return c, ok
}

// pod is a Kubernetes pod with its cgroups.
type pod struct {
	uid, dir string // dir: its own cgroup, "" if it has none
	podName
	group      *group   // its own
	containers []*group // its sandbox is one
}

// namePods gives the cgroups of pods and containers their names, by the IDs of containers and the UIDs of pods, and counts
// those that it has none for.
func namePods(h *host.Host, all map[string]*group) error {
	logs, err := readPodLogs(h)
	var bad machine.Faults
	bad.Add(err)
	pods := map[string]*pod{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		g := all[id]
		g.podName = logs.containers[g.name]
		uid, dir := machine.Pod(id)
		if uid == "" || id != dir && (g.name == "" || dir != "" && machine.InContainer(strings.TrimPrefix(path.Dir(id), dir)) != "") {
			continue // a container inside a pod's container is not the pod's
		}
		key := dir + "\n" + uid
		p := pods[key]
		if p == nil {
			p = &pod{uid: uid, dir: dir, podName: logs.pods[uid]}
			pods[key] = p
		}
		if id == dir {
			p.group = g
			continue
		}
		g.in = p
		p.containers = append(p.containers, g)
	}
	noPod, noContainer := 0, 0
	for _, p := range pods {
		p.name(h, logs)
		if strings.HasPrefix(p.pod, unnamed) {
			noPod++
		}
		for _, g := range p.containers {
			if g.container == unnamed {
				noContainer++
			}
		}
	}
	if noPod+noContainer > 0 {
		bad.Add(&probe.Problem{Err: fmt.Errorf("%s and %s have unknown names: their logs are not in %s and %s", count(noPod, "pod"), count(noContainer, "container"), podLogsDir, containerLogsDir),
			Remedy: "let teescope read these folders of the machine that the pods' kubelet runs on"})
	}
	return bad.Err()
}

// name finds the names of a pod and its containers.
func (p *pod) name(h *host.Host, logs *podLogs) {
	for _, g := range p.containers {
		if g.pod != "" {
			p.podName = podName{namespace: g.namespace, pod: g.pod}
		}
	}
	rest := func() []*group {
		return slices.DeleteFunc(slices.Clone(p.containers), func(g *group) bool { return g.pod != "" })
	}
	for _, c := range logs.cut {
		if c.uid != p.uid {
			continue
		}
		p.podName = podName{namespace: c.namespace, pod: c.pod}
		if of := slices.DeleteFunc(rest(), func(g *group) bool { return !strings.HasPrefix(g.name, c.id) }); c.id != "" && len(of) == 1 {
			of[0].podName = c.podName
		}
	}
	if p.pod == "" {
		p.pod = unnamed + ": " + p.uid
	}
	left := rest()
	sandbox := p.sandbox(h, logs, left)
	for _, g := range left {
		g.podName = p.podName
		if g != sandbox {
			g.container = unnamed
		}
	}
	if p.group != nil {
		p.group.podName = p.podName
	}
}

// sandbox is the container without a log that only holds the pod's namespaces; nil if it is unknown which, or none. Its
// program is called pause, except where the pod runs in a VM or its processes are hidden: then it is the one without a log.
// It is alone while an image is missing and between restarts.
func (p *pod) sandbox(h *host.Host, logs *podLogs, without []*group) *group {
	var paused []*group
	for _, g := range without {
		procs, _ := h.ReadFile(path.Join(g.anyDir(), "cgroup.procs"))
		if pid := somePID(h, g.anyDir(), procs); pid != "" {
			if comm, _ := h.ReadString("/proc/" + pid + "/comm"); comm == "pause" {
				paused = append(paused, g)
			}
		}
	}
	switch {
	case len(paused) == 1:
		return paused[0]
	case len(without) == 1 && (len(p.containers) > 1 || logs.complete(p.uid)):
		return without[0]
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
