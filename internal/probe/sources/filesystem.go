package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

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
	fsFiles    = mountGauge("files", "File nodes that the file system can hold, from statfs(2); absent if it does not count them, such as btrfs.")
	fsFilesNow = mountGauge("files_free", "File nodes that are free, from statfs(2); absent where the file system does not count them.")
	fsReadonly = mountGauge("readonly", "Whether the machine mounts the file system read-only, 1 or 0, from /proc/1/mountinfo.")
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
	fs  host.Filesystem
	on  string // ID of the mount that this process sees there; "" where the device says enough
	err error
}

// notVisible is the problem of a mount of the machine that this process does not see.
func notVisible(err error) error {
	return &probe.Problem{Err: err, Remedy: "unmount the file system that hides it, or let teescope's container see the machine's later mounts (rslave, HostToContainer)"}
}

func (m *mounts) read(ctx context.Context, out emitter) error {
	// The first process sees the machine's mounts, even if this one runs in a
	// container; with hidepid only root may look there.
	file := "/proc/1/mountinfo"
	b, err := m.host.ReadFile(file)
	hidden := err
	if hidden != nil {
		file = "/proc/self/mountinfo"
		b, err = m.host.ReadFile(file)
	}
	if err != nil {
		return err
	}
	var bad machine.Faults
	all, err := machine.ParseMounts(file, b)
	bad.Add(err)
	asked := m.startQuestions(all)
	ctx, cancel := probe.WithPatience(ctx, m.patience)
	defer cancel()
	var own map[string]*machine.Mount
	for _, q := range asked {
		r, err := m.answer(ctx, q)
		if errors.Is(err, fs.ErrNotExist) {
			err = notVisible(fmt.Errorf("%s is not visible from here: %w", q.mounts[0].Point, err))
		}
		if !q.private(err) {
			bad.Add(err)
		}
		if r.on != "" && own == nil {
			var unread error
			own, unread = m.own()
			bad.Add(unread)
		}
		for _, mi := range q.mounts {
			err := err
			if err == nil && !r.shows(&mi, own[r.on]) {
				err = notVisible(fmt.Errorf("%s is not visible from here: device %s is there, not %s", mi.Point, r.fs.Device, mi.Device))
				bad.Add(err)
			}
			if err != nil {
				out.send(fsError, 1, mi.Source, mi.Point, mi.Type, err.Error())
				continue
			}
			sendSpace(out, &mi, &r.fs)
			bad.Add(sendReadonly(out, &mi, hidden))
		}
	}
	return bad.Err()
}

// question is a statfs call that runs in its own goroutine.
type question struct {
	mounts []machine.Mount // on the same path
	result chan statfsResult
	old    bool // it hung in the round before
}

// startQuestions starts a call for each path with mounts that are shown. A mount that another one
// covers is left out: nobody sees it. Where one file system is mounted twice on a path, the later mount is on top.
func (m *mounts) startQuestions(all []machine.Mount) []*question {
	type place struct{ mount, point string }
	over := map[place]bool{}
	for _, mi := range all {
		if mi.Parent != mi.ID { // which that of the first root is
			over[place{mi.Parent, mi.Point}] = true
		}
	}
	all = slices.DeleteFunc(all, func(mi machine.Mount) bool { return over[place{mi.ID, mi.Point}] })
	last := map[[2]string]int{}
	for i, mi := range all {
		last[[2]string{mi.Point, contents(&mi)}] = i
	}
	var asked []*question
	at := map[string]*question{}
	for i, mi := range all {
		if last[[2]string{mi.Point, contents(&mi)}] != i || mountsIgnored.MatchString(mi.Point) || typesIgnored.MatchString(mi.Type) {
			continue
		}
		q := at[mi.Point]
		if q == nil {
			q = &question{}
			at[mi.Point] = q
			asked = append(asked, q)
		}
		q.mounts = append(q.mounts, mi)
	}
	for _, q := range asked {
		point := q.mounts[0].Point
		if q.result, q.old = m.pending[point]; q.old {
			continue
		}
		q.result = make(chan statfsResult, 1)
		m.pending[point] = q.result
		go func() { q.result <- q.call(m.host) }()
	}
	return asked
}

func (q *question) call(h *host.Host) (r statfsResult) {
	point := q.mounts[0].Point
	r.fs, r.err = h.Statfs(point)
	if r.err != nil || slices.ContainsFunc(q.mounts, func(mi machine.Mount) bool { return mi.Device == r.fs.Device }) {
		return r
	}
	r.on, _ = h.Mounted(point) // without it the device counts
	return r
}

// own returns the mounts of this process, by ID. With the error, it returns those it could read.
func (m *mounts) own() (map[string]*machine.Mount, error) {
	const file = "/proc/self/mountinfo"
	byID := map[string]*machine.Mount{}
	b, err := m.host.ReadFile(file)
	if err != nil {
		return byID, err
	}
	all, err := machine.ParseMounts(file, b)
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	return byID, err
}

// shows reports whether the file system on the path is that of the machine's mount: it has its device, or its contents where
// one of them was mounted anew since. on is what this process sees there, nil if that is unknown.
func (r *statfsResult) shows(mi, on *machine.Mount) bool {
	return r.fs.Device == mi.Device || on != nil && (on.Device == mi.Device || contents(on) == contents(mi))
}

// contents names what is mounted: its source, with a device only where that is any word.
func contents(mi *machine.Mount) string {
	if mi.Source == "" || mi.Type == "tmpfs" || mi.Type == "ramfs" {
		return mi.Device
	}
	return mi.Type + " " + mi.Source
}

// answer waits until ctx ends, but not for a call that hung before.
func (m *mounts) answer(ctx context.Context, q *question) (statfsResult, error) {
	if !q.old {
		select {
		case r := <-q.result:
			return m.handleAnswer(q, r)
		case <-ctx.Done():
		}
	}
	select {
	case r := <-q.result: // an available answer counts, however late
		return m.handleAnswer(q, r)
	default:
		return statfsResult{}, fmt.Errorf("statfs %s: no answer; is its server down?", q.mounts[0].Point)
	}
}

// handleAnswer handles the answer to a question.
func (m *mounts) handleAnswer(q *question, r statfsResult) (statfsResult, error) {
	delete(m.pending, q.mounts[0].Point)
	return r, probe.Denied(r.err, "run as root")
}

// private reports whether err refuses a user's FUSE file system. Without allow_other it refuses root, too (fuse(8)), so that
// is no fault.
func (q *question) private(err error) bool {
	return errors.Is(err, fs.ErrPermission) && strings.HasPrefix(q.mounts[len(q.mounts)-1].Type, "fuse")
}

// sendSpace leaves out what the file system does not count: its total is 0 then (statfs(2)).
func sendSpace(out emitter, mi *machine.Mount, fs *host.Filesystem) {
	labels := []string{mi.Source, mi.Point, mi.Type, ""}
	if fs.Blocks != 0 {
		out.send(fsSize, fs.Bytes(fs.Blocks), labels...)
		out.send(fsFree, fs.Bytes(fs.Bfree), labels...)
		out.send(fsAvail, fs.Bytes(fs.Bavail), labels...)
	}
	if fs.Files != 0 {
		out.send(fsFiles, float64(fs.Files), labels...)
		if fs.Ffree != math.MaxUint64 { // which CephFS says for not counted
			out.send(fsFilesNow, float64(fs.Ffree), labels...)
		}
	}
	out.send(fsError, 0, labels...)
}

// sendReadonly takes the machine's word. The flags of statfs(2) are those of this process's own mount, and so are the
// mount's options where process 1 is hidden.
func sendReadonly(out emitter, mi *machine.Mount, hidden error) error {
	readonly := 0.0
	switch {
	case hidden != nil && mi.ReadOnly() && !mi.SuperReadOnly():
		return &probe.Problem{Err: fmt.Errorf("find out whether %s is read-only for all processes: %w", mi.Point, hidden), Remedy: "run as root"}
	case mi.ReadOnly():
		readonly = 1
	}
	out.send(fsReadonly, readonly, mi.Source, mi.Point, mi.Type, "")
	return nil
}
