package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	vmInfo = gauge("tee_vm_info",
		"Always 1 for each virtual machine of KVM on this host: vm is its UUID, or else its name, or else its process id, and is a label of its other series; type is its protection (plain, tdx, sev, sev-es, sev-snp, s390-pv, pef, cca, pkvm or unknown), from the options of QEMU, Cloud Hypervisor, crosvm or Firecracker. Inside the machine, tee_guest_info has the same uuid.",
		"vm", "uuid", "name", "type", "pid", "monitor")
	vmCount = gauge("tee_vms", "Virtual machines of KVM that run on this host, by protection.", "type")
	vmStats = counter("tee_vm_kvm_events_total",
		"Events of a virtual machine counted by KVM since the machine started, over all its CPUs. The statistic exits includes all exits; others are parts of it. From debugfs kvm/THREAD-FD, or else the machine's binary statistics, or else QMP query-stats.",
		"vm", "type", "event")
	vmMapped      = gauge("tee_vm_mapped_bytes", "Memory that KVM has mapped into a virtual machine in bytes, by size of page. From KVM's statistics pages_4k, pages_2m and pages_1g.", "vm", "type", "page")
	vmPrivateSize = gauge("tee_vm_private_memory_size_bytes",
		"Size of the files of private memory (guest_memfd) of a virtual machine in bytes. No kernel reports how much of it is populated; tee_vm_private_memory_lookups_total shows the populating.",
		"vm", "type")
)

const (
	kvmDebug = debugfs + "/kvm"
	// maxVMs bounds the series; further machines are counted only in tee_vms.
	maxVMs = 64
	// scanEvery is the time between searches of all processes, if debugfs does not list
	// the machines.
	scanEvery   = 30 * time.Second
	qmpPatience = time.Second
)

var vm = probe.Source{
	Name:    "vm",
	Doc:     "Virtual machines of KVM on this host: their identity, their protection, and KVM's own statistics",
	Metrics: []*metric.Desc{vmInfo, vmCount, vmStats, vmMapped, vmPrivateSize},
	Files:   &probe.Files{What: "Sockets of QEMU's monitors (QMP)", Example: "/run/qemu/{name}.qmp"},
	Needs: []probe.Need{
		{Capability: "cap_dac_read_search", For: "to read debugfs, which lists machines and has their statistics", Optional: true},
		{Capability: "cap_sys_ptrace", For: "to see open files of the processes that run machines: machines where debugfs is not mounted, binary statistics where lockdown closes debugfs, size of private memory", Optional: true},
	},
	Kernels: "Any with KVM; binary statistics since 5.14, which QEMU 8.1 and later keep open; private memory since 6.8.",
	Cost:    "About 5 µs for each statistic read from debugfs, 40 µs for each virtual CPU with binary statistics; without debugfs, a scan of all open files every 30 s.",
	Blind:   "How much private memory a machine has populated, because no kernel reports it; the protection of machines whose monitor is not QEMU, Cloud Hypervisor, crosvm or Firecracker (unless the host cannot start protected machines at all).",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		loaded, err := kvmLoaded(h)
		if err != nil {
			return nil, err
		}
		if !loaded {
			return nil, probe.NotHere("no KVM in the kernel")
		}
		return &vmReader{host: h, machines: newVirtualMachines(h)}, nil
	},
}

type vmReader struct {
	host     *host.Host
	machines *virtualMachines
	// found are the processes and their files, from the last scan.
	found   []*vmFiles
	scanned time.Time
	unseen  error // what that scan could not see
	// sockets are user-configured paths of QMP sockets, with {name}, {uuid} and {pid}
	// as placeholders.
	sockets []string
}

// Follow implements probe.Follower: the QMP sockets of machines that do not name them
// on their command line.
func (r *vmReader) Follow(sockets []string) error {
	r.sockets = slices.Clone(sockets)
	return nil
}

// socketsOf are the QMP sockets of a machine, from its command line and from the user.
func (r *vmReader) socketsOf(m *virtualMachine) []string {
	out := slices.Clone(m.sockets)
	for _, s := range r.sockets {
		p := strings.NewReplacer("{name}", m.name, "{uuid}", m.uuid, "{pid}", strconv.Itoa(m.pid)).Replace(s)
		if ok, err := r.host.Exists(p); ok && err == nil && !strings.Contains(m.name+m.uuid, "/") {
			out = append(out, p)
		}
	}
	return out
}

// Close implements probe.Reader.
func (r *vmReader) Close() error { return nil }

// vmFiles are the open files of a machine's process.
type vmFiles struct {
	pid   int
	debug []string // its folders in debugfs
	stats []int    // descriptors of binary statistics
	// private is the size of its guest_memfd; known says whether its files could be
	// examined.
	private uint64
	known   bool
}

// Read implements probe.Reader.
func (r *vmReader) Read(ctx context.Context, emit func(metric.Sample)) error {
	out := emitter(emit)
	var problems []error
	if err := r.find(); err != nil {
		problems = append(problems, err)
	}
	count := map[string]int{}
	var doubts []string
	var shown []*virtualMachine
	files := map[*virtualMachine]*vmFiles{}
	for _, f := range r.found {
		m, err := r.machines.describe(f.pid)
		if err != nil && !processGone(err) {
			problems = append(problems, err)
		}
		if m == nil {
			continue
		}
		count[m.kind]++
		if m.doubt != "" && !slices.Contains(doubts, m.doubt) {
			doubts = append(doubts, m.doubt)
		}
		if len(shown) < maxVMs {
			shown = append(shown, m)
			files[m] = f
		}
	}
	if doubts != nil {
		problems = append(problems, fmt.Errorf("virtual machines of an unknown protection: %s", strings.Join(doubts, ", ")))
	}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		out.send(vmCount, float64(count[kind]), kind)
	}
	if len(count) == 0 && len(problems) == 0 {
		out.send(vmCount, 0, vmPlain)
	}
	sums := vmSums{}
	lost := map[string]error{}
	for _, m := range shown {
		out.send(vmInfo, 1, m.id, m.uuid, m.name, m.kind, strconv.Itoa(m.pid), m.monitor)
		f := files[m]
		if f.known && f.private > 0 {
			sums.add(vmPrivateSize, m, "", f.private)
		}
		stats, err := r.stats(ctx, m, f)
		if err != nil {
			lost[m.id] = err
		}
		for _, name := range kvmStats {
			if n, ok := stats[name]; ok {
				sums.add(vmStats, m, name, n)
			}
		}
		for name, size := range kvmPages {
			if n, ok := stats[name]; ok {
				sums[vmSeries{vmMapped, m.id, m.kind, strings.TrimPrefix(name, "pages_")}] += float64(n) * float64(size)
			}
		}
	}
	sums.send(out)
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		problems = append(problems, fmt.Errorf("no statistics of %d of %d machines, such as %s: %w", len(lost), len(shown), id, lost[id]))
		break
	}
	if n := len(r.found) - len(shown); n > 0 && len(shown) == maxVMs {
		problems = append(problems, fmt.Errorf("%d machines run; series of the first %d are shown", len(r.found), maxVMs))
	}
	return errors.Join(problems...)
}

// vmSums adds up machines with the same name.
type vmSums map[vmSeries]float64

func (s vmSums) add(d *metric.Desc, m *virtualMachine, what string, n uint64) {
	s[vmSeries{d, m.id, m.kind, what}] += float64(n)
}

// send emits the sums in a fixed order.
func (s vmSums) send(out emitter) {
	for _, k := range slices.SortedFunc(maps.Keys(s), func(a, b vmSeries) int {
		return slices.Compare([]string{a.desc.Name, a.vm, a.kind, a.what}, []string{b.desc.Name, b.vm, b.kind, b.what})
	}) {
		labels := []string{k.vm, k.kind, k.what}[:len(k.desc.Labels)]
		out.send(k.desc, s[k], labels...)
	}
}

// find lists the machines: folders THREAD-FD of debugfs, or otherwise the processes
// that have a machine's file open.
func (r *vmReader) find() error {
	debug, err := r.debugFolders()
	if debug != nil {
		r.found = r.found[:0]
		for _, pid := range slices.Sorted(maps.Keys(debug)) {
			f := &vmFiles{pid: pid, debug: debug[pid]}
			r.open(f)
			r.found = append(r.found, f)
		}
		return err
	}
	if now := r.host.Now(); r.scanned.IsZero() || now.Sub(r.scanned) >= scanEvery {
		r.scanned, r.unseen = now, r.scan()
	}
	return r.unseen
}

// debugFolders are the folders of machines by process. Their names start with the
// thread that created the machine. With the error, which says whose process is not known, it returns the rest.
func (r *vmReader) debugFolders() (map[int][]string, error) {
	list, err := r.host.ReadDir(kvmDebug)
	if err != nil {
		return nil, err
	}
	out := map[int][]string{}
	var bad machine.Faults
	for _, e := range list {
		thread, _, ok := strings.Cut(e.Name(), "-")
		n, err := strconv.Atoi(thread)
		if !ok || err != nil || !e.IsDir() {
			continue
		}
		pid, err := processOf(r.host, n)
		bad.Add(err)
		if pid > 0 {
			out[pid] = append(out[pid], path.Join(kvmDebug, e.Name()))
		}
	}
	return out, bad.Err()
}

// processOf is the process of a thread, or 0 if it has ended.
func processOf(h *host.Host, thread int) (int, error) {
	name := fmt.Sprintf("/proc/%d/status", thread)
	s, err := h.ReadString(name)
	if err != nil {
		if processGone(err) {
			return 0, nil
		}
		return 0, err
	}
	for line := range strings.Lines(s) {
		if id, ok := strings.CutPrefix(line, "Tgid:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(id), 10, 31)
			if err != nil {
				return 0, fmt.Errorf("parse %s: Tgid %.40q is not the number of a process", name, strings.TrimSpace(id))
			}
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("parse %s: no line Tgid", name)
}

// scan examines the open files of all processes.
func (r *vmReader) scan() error {
	list, err := r.host.ReadDir("/proc")
	if err != nil {
		return err
	}
	r.found = nil
	hidden := 0
	var bad machine.Faults
	for _, e := range list {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		f := &vmFiles{pid: pid}
		switch runs, err := r.open(f); {
		case runs:
			r.found = append(r.found, f)
		case errors.Is(err, fs.ErrPermission):
			hidden++
		case !processGone(err):
			bad.Add(err)
		}
	}
	if err := bad.Err(); err != nil {
		return fmt.Errorf("look for virtual machines: %w", err)
	}
	if hidden > 0 {
		return &probe.Problem{Err: fmt.Errorf("look for virtual machines: debugfs does not list them, and the open files of %d processes may not be read", hidden),
			Remedy: "run as root, or grant CAP_SYS_PTRACE"}
	}
	return nil
}

// open notes the KVM files that a process has open, and reports whether it runs a
// machine. The names are those of virt/kvm/kvm_main.c and guest_memfd.c.
func (r *vmReader) open(f *vmFiles) (machine bool, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", f.pid)
	list, err := r.host.ReadDir(dir)
	if err != nil {
		return false, err
	}
	f.known = true
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		target, err := r.host.Readlink(path.Join(dir, e.Name()))
		if err != nil {
			continue // closed since
		}
		switch name := strings.Trim(strings.TrimPrefix(target, "anon_inode:"), "[]"); {
		case name == "kvm-vm":
			machine = true
		case name == "kvm-vm-stats" || strings.HasPrefix(name, "kvm-vcpu-stats:"):
			f.stats = append(f.stats, fd)
		case name == "kvm-gmem":
			if fi, err := r.host.Stat(path.Join(dir, e.Name())); err == nil {
				f.private += uint64(fi.Size())
			}
		}
	}
	return machine, nil
}

// stats are a machine's statistics, from the first available interface.
func (r *vmReader) stats(ctx context.Context, m *virtualMachine, f *vmFiles) (map[string]uint64, error) {
	stats, err := r.debugStats(f)
	if len(stats) > 0 {
		return stats, err
	}
	if stats, berr := r.binaryStats(f); len(stats) > 0 {
		return stats, berr
	} else if berr != nil {
		err = errors.Join(err, berr)
	}
	for _, socket := range r.socketsOf(m) {
		stats, qerr := r.qmpStats(ctx, socket)
		if len(stats) > 0 || qerr == nil {
			return stats, qerr
		}
		err = errors.Join(err, qerr)
	}
	return nil, &probe.Problem{Err: oneLine(err),
		Remedy: "one of these helps: (1) boot without lockdown, run as root and mount debugfs; (2) start QEMU with -qmp unix:PATH,server=on,wait=off; (3) if QEMU has a socket elsewhere, name it in the configuration, as in sources.vm.files: [/run/qemu/{name}.qmp]"}
}

// oneLine joins the lines of an error.
func oneLine(err error) error {
	if err == nil {
		return errors.New("debugfs has none, its process has no statistics open and no QMP socket")
	}
	return fmt.Errorf("%s", strings.ReplaceAll(host.PublicText(err), "\n", "; "))
}

// debugStats reads the statistics in debugfs. Under lockdown those that can be reset by
// writing, which are all counters, are closed even to root.
func (r *vmReader) debugStats(f *vmFiles) (map[string]uint64, error) {
	stats := map[string]uint64{}
	var bad machine.Faults
	for _, name := range slices.Concat(kvmStats, slices.Sorted(maps.Keys(kvmPages))) {
		var sum uint64
		read, known := 0, true
		for _, dir := range f.debug {
			n, err := r.host.ReadUint(path.Join(dir, name))
			switch {
			case err == nil:
				sum += n
				read++
			case errors.Is(err, fs.ErrPermission):
				return nil, debugfsProblem(r.host, err)
			case !errors.Is(err, fs.ErrNotExist):
				bad.Add(err)
				known = false
			}
		}
		if known && read > 0 {
			stats[name] = sum
		}
	}
	return stats, bad.Err()
}

// binaryStats reads the statistics that the machine's process has open.
func (r *vmReader) binaryStats(f *vmFiles) (map[string]uint64, error) {
	var sum statSums
	for _, fd := range f.stats {
		file, err := r.host.Borrow(f.pid, fd)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.NewSectionReader(file, 0, statsLimit))
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, fmt.Errorf("read statistics of process %d: %w", f.pid, err)
		}
		_, stats, err := parseStats(b)
		if err != nil {
			return nil, err
		}
		for name, n := range stats {
			sum.add(name, n, true, strconv.FormatUint(n, 10))
		}
	}
	return sum.all()
}

// qmpStats asks QEMU. A socket serves one client at a time, and a busy one does not
// answer, so patience is short, and the connection is closed at once.
func (r *vmReader) qmpStats(ctx context.Context, socket string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, qmpPatience)
	defer cancel()
	c, err := r.host.Dial(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	return askQMP(c)
}
