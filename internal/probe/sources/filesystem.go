package sources

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// Exclusions, node_exporter's defaults: mounts without files of their own, and those of
// containers.
var (
	mountsIgnored = regexp.MustCompile(`^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)`)
	typesIgnored  = regexp.MustCompile(`^(autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|fusectl|hugetlbfs|iso9660|mqueue|nsfs|overlay|proc|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|erofs|sysfs|tracefs)$`)
)

var (
	fsSize     = mountGauge("size_bytes", "Size of the file system in bytes, from statfs(2).")
	fsFree     = mountGauge("free_bytes", "Free space in bytes, from statfs(2).")
	fsAvail    = mountGauge("avail_bytes", "Free space in bytes for users other than root, from statfs(2).")
	fsFiles    = mountGauge("files", "File nodes that the file system can hold, from statfs(2).")
	fsFilesNow = mountGauge("files_free", "File nodes that are free, from statfs(2).")
	fsReadonly = mountGauge("readonly", "Whether the file system is read-only, 1 or 0.")
	fsError    = mountGauge("device_error", "Whether statistics of the file system are unavailable, 1 or 0, with the error as a label.")
)

func mountGauge(name, help string) *metric.Desc {
	return gauge("node_filesystem_"+name, help, "device", "mountpoint", "fstype", "device_error")
}

var filesystem = probe.Source{
	Name:    "filesystem",
	Doc:     "Space by mounted file system, under node_exporter's names",
	Metrics: []*metric.Desc{fsSize, fsFree, fsAvail, fsFiles, fsFilesNow, fsReadonly, fsError},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		r := &mounts{host: h, pending: map[string]chan statfsResult{}, patience: statfsPatience}
		return reading(r.read), nil
	},
}

// statfsPatience is how long one round waits for all file systems together.
const statfsPatience = 500 * time.Millisecond

// mounts remembers the statfs calls that have not returned, such as on a network file
// system whose server is gone. Such a mount is queried again only after the call
// returned, so at most one thread hangs on each.
type mounts struct {
	host     *host.Host
	pending  map[string]chan statfsResult
	patience time.Duration
}

type statfsResult struct {
	stat unix.Statfs_t
	err  error
}

func (m *mounts) read(ctx context.Context, out emitter) error {
	// The first process sees the machine's mounts, even if this one runs in a
	// container; with hidepid only root may look there.
	file := "/proc/1/mountinfo"
	b, err := m.host.ReadFile(file)
	if err != nil {
		file = "/proc/self/mountinfo"
		b, err = m.host.ReadFile(file)
	}
	if err != nil {
		return err
	}
	var bad machine.Faults
	all, err := machine.ParseMounts(file, b)
	bad.Add(err)
	// The last mount on a path is the visible one.
	last := map[string]int{}
	for i, mi := range all {
		last[mi.Point] = i
	}
	var asked []question
	for i, mi := range all {
		if last[mi.Point] == i && !mountsIgnored.MatchString(mi.Point) && !typesIgnored.MatchString(mi.Type) {
			asked = append(asked, m.ask(mi))
		}
	}
	ctx, cancel := probe.WithPatience(ctx, m.patience)
	defer cancel()
	for _, q := range asked {
		st, qerr := m.answer(ctx, q)
		bad.Add(qerr)
		send(out, q.mount, st, qerr)
	}
	return bad.Err()
}

// question is a statfs call that runs in its own goroutine.
type question struct {
	mount  machine.Mount
	result chan statfsResult
	old    bool // it hung in the round before
}

func (m *mounts) ask(mi machine.Mount) question {
	if c := m.pending[mi.Point]; c != nil {
		return question{mi, c, true}
	}
	c := make(chan statfsResult, 1)
	m.pending[mi.Point] = c
	go func() {
		st, err := m.host.Statfs(mi.Point)
		c <- statfsResult{st, err}
	}()
	return question{mi, c, false}
}

// answer waits until ctx ends, but not for a call that hung before.
func (m *mounts) answer(ctx context.Context, q question) (unix.Statfs_t, error) {
	if !q.old {
		select {
		case r := <-q.result:
			return m.told(q, r)
		case <-ctx.Done():
		}
	}
	select {
	case r := <-q.result: // an available answer counts, however late
		return m.told(q, r)
	default:
		return unix.Statfs_t{}, fmt.Errorf("statfs %s: no answer; is its server away?", q.mount.Point)
	}
}

// told handles the answer to a question.
func (m *mounts) told(q question, r statfsResult) (unix.Statfs_t, error) {
	delete(m.pending, q.mount.Point)
	return r.stat, probe.Denied(r.err, "run as root")
}

func send(out emitter, mi machine.Mount, st unix.Statfs_t, err error) {
	labels := []string{mi.Source, mi.Point, mi.Type, ""}
	if err != nil {
		out.send(fsError, 1, labels[0], labels[1], labels[2], err.Error())
		return
	}
	unit := float64(st.Bsize)
	readonly := 0.0
	if st.Flags&unix.ST_RDONLY != 0 {
		readonly = 1
	}
	out.send(fsSize, float64(st.Blocks)*unit, labels...)
	out.send(fsFree, float64(st.Bfree)*unit, labels...)
	out.send(fsAvail, float64(st.Bavail)*unit, labels...)
	out.send(fsFiles, float64(st.Files), labels...)
	if st.Ffree != math.MaxUint64 { // which CephFS says for not counted
		out.send(fsFilesNow, float64(st.Ffree), labels...)
	}
	out.send(fsReadonly, readonly, labels...)
	out.send(fsError, 0, labels...)
}
