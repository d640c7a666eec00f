package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
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
	fs, err := procfs.NewFS(m.host.Path("/proc"))
	if err != nil {
		return err
	}
	// The first process sees the machine's mounts, even if this one runs in a
	// container; with hidepid only root may look there.
	all, err := fs.GetProcMounts(1)
	if err != nil {
		all, err = fs.GetMounts()
	}
	if err != nil {
		return err
	}
	// The last mount on a path is the visible one.
	last := map[string]*procfs.MountInfo{}
	for _, mi := range all {
		mi.MountPoint = unescape(mi.MountPoint)
		last[mi.MountPoint] = mi
	}
	var asked []question
	for _, mi := range all {
		if last[mi.MountPoint] == mi && !mountsIgnored.MatchString(mi.MountPoint) && !typesIgnored.MatchString(mi.FSType) {
			asked = append(asked, m.ask(mi))
		}
	}
	ctx, cancel := probe.WithPatience(ctx, m.patience)
	defer cancel()
	for _, q := range asked {
		st, qerr := m.answer(ctx, q)
		err = cmp.Or(err, qerr)
		send(out, q.mount, st, qerr)
	}
	return err
}

// question is a statfs call that runs in its own goroutine.
type question struct {
	mount  *procfs.MountInfo
	result chan statfsResult
	old    bool // it hung in the round before
}

func (m *mounts) ask(mi *procfs.MountInfo) question {
	if c := m.pending[mi.MountPoint]; c != nil {
		return question{mi, c, true}
	}
	c := make(chan statfsResult, 1)
	m.pending[mi.MountPoint] = c
	go func() {
		st, err := m.host.Statfs(mi.MountPoint)
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
		return unix.Statfs_t{}, fmt.Errorf("statfs %s: no answer; is its server away?", q.mount.MountPoint)
	}
}

// told handles the answer to a question.
func (m *mounts) told(q question, r statfsResult) (unix.Statfs_t, error) {
	delete(m.pending, q.mount.MountPoint)
	if errors.Is(r.err, fs.ErrPermission) {
		r.err = &probe.Problem{Err: r.err, Remedy: "run as root"}
	}
	return r.stat, r.err
}

func send(out emitter, mi *procfs.MountInfo, st unix.Statfs_t, err error) {
	labels := []string{unescape(mi.Source), mi.MountPoint, mi.FSType, ""}
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
	out.send(fsFilesNow, float64(st.Ffree), labels...)
	out.send(fsReadonly, readonly, labels...)
	out.send(fsError, 0, labels...)
}

// unescape reverts the escapes in /proc/PID/mountinfo: space, tab, line feed and
// backslash in names.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
