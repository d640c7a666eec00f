package launchers

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/workloads/micro"
)

// qemu runs jobs in a virtual machine that contains only a kernel, the worker and what the job
// needs.
var qemu = bench.Launcher{
	Name: "qemu",
	Doc: "Runs the job in a virtual machine (guest) under QEMU. The guest boots once per environment, from a kernel image and our own initramfs. It is stopped while another environment runs. " +
		"This machine's programs that the job calls are copied into the guest with their libraries. The guest is plain, has forced bounce buffers, or is an SEV-SNP or TDX guest if the host supports that.",
	Params: []bench.Param{
		{Name: "kernel", Path: true, Doc: "Kernel image with a serial console and initramfs support. Empty: the newest /boot/vmlinuz-*."},
		{Name: "memory", Doc: "Memory of the guest.", Default: "1GiB"},
		{Name: "cpus", Doc: "Number of virtual CPUs of the guest.", Default: "1"},
		{Name: "prealloc", Doc: "on: QEMU allocates all of the guest's memory when it starts. off: the host allocates memory when the guest touches it. For an SEV-SNP guest, this applies only to shared memory.", Default: "off", Values: []string{"off", "on"}},
		{Name: "cpu", Doc: "CPU model of the guest. Empty: this machine's model (host); for snp EPYC-v4; under tcg max. Use the same model in all compared environments."},
		{Name: "accel", Doc: "Accelerator. kvm: hardware virtualization. tcg: software emulation, whose times do not show a VM's cost. auto: kvm if a guest boots with it, otherwise tcg.", Default: "auto", Values: []string{"auto", "kvm", "tcg"}},
		{Name: "bounce", Doc: "Whether device I/O is forced through bounce buffers, as in a confidential VM (swiotlb=force).", Default: "off", Values: []string{"off", "on"}},
		{Name: "bounce-pool", Doc: "Size of the guest's pool of bounce buffers: a power of two, at least 256KiB. Empty: the kernel's default, 64 MiB or a share of a confidential guest's memory."},
		{Name: "bounce-areas", Doc: "Number of areas of the bounce-buffer pool, each with its own lock: a power of two, at most one per CPU (Linux 6.0). Empty: one per CPU."},
		{Name: "cvm", Doc: "Type of confidential VM: none, snp (AMD SEV-SNP) or tdx (Intel TDX).", Default: "none", Values: []string{"none", "snp", "tdx"}},
		{Name: "firmware", Doc: "OVMF image for a confidential VM. Empty: the image at the usual path of distributions."},
		{Name: "disk", Doc: "Disk for test files (virtio-blk): a size like 4GiB for a new ext4 image, or the path of an image or block device with an ext4 file system. Empty: no disk; test files are in the guest's memory."},
		{Name: "data", Path: true, Doc: "Folder on this machine for the disk's new image. Empty: the temporary folder."},
		{Name: "cache", Doc: "QEMU's cache mode for the disk; none bypasses this machine's page cache.", Default: "none", Values: []string{"none", "writeback", "writethrough", "directsync", "unsafe"}},
		imageParam("a file system in memory, with this machine's programs that the job calls and their libraries"),
		{Name: "net", Doc: "Network of the guest (virtio-net). none: no network. user: QEMU's own network stack; only the server's ports can be reached, from this machine. " +
			"tap: a tap interface of this machine; QEMU moves the packets. vhost: a tap interface; this machine's kernel moves the packets. auto: user if a load comes from outside, otherwise none.",
			Default: "auto", Values: []string{"auto", netNone, netUser, netTap, netVhost}},
		{Name: "queues", Doc: "Number of queues of each disk and of a network with a tap, at most one per CPU. Empty: QEMU's default, one per CPU for a disk and one for the network."},
		{Name: "pages", Doc: "Size of this machine's pages that back the guest's memory. auto: transparent huge pages as this machine allows them. 4KiB: no huge pages. 2MiB and 1GiB: pages from this machine's reserve of huge pages.",
			Default: "auto", Values: []string{"auto", "4KiB", "2MiB", "1GiB"}},
		{Name: "idle", Doc: "What an idle CPU of the guest does. default: it halts, which causes an exit. haltpoll: it polls before it halts (cpuidle_haltpoll.force=1). poll: it never halts (idle=poll).",
			Default: "default", Values: []string{"default", "haltpoll", "poll"}},
		{Name: "append", Doc: "More words for the guest's kernel command line."},
		{Name: "fresh", Doc: "Whether a guest is booted for each run; times then count from QEMU's start.", Default: "false", Values: []string{"false", "true"}},
	},
	Aliases:   map[string]bench.Params{"vm": {}, "kvm": {"accel": "kvm"}, "tdx": {"cvm": "tdx"}, "snp": {"cvm": "snp"}, "sev-snp": {"cvm": "snp"}},
	Foresee:   foreseeAccel,
	Check:     checkQEMU,
	Elsewhere: func(p bench.Params) bool { return p["image"] != "" },
	Settle:    settleNet,
	Refuses: func(p bench.Params, job bench.Job) error {
		switch {
		case p["net"] == netNone:
			return noLoad(job, "the guest has no network (net=none)")
		case job.Datagrams && p["net"] == netUser:
			return errors.New("the load sends UDP, but QEMU's own network (net=user) forwards only TCP; use net=tap or net=vhost")
		case onTap(p) && p["fresh"] == "true":
			return errors.New("fresh=true: a guest's tap network ends with the guest; use net=user")
		}
		return nil
	},
	Boots:   func(p bench.Params) bool { return p["fresh"] == "true" },
	Monitor: true,
	OwnKernel: func(p bench.Params) bool {
		bytes, err := p.Bytes("memory")
		return err == nil && bytes >= insideMemory && p["fresh"] == "false"
	},
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		v := vm{params: p, work: "{vm}", sockets: "{vm}", kernel: p["kernel"], accel: p["accel"], cbit: 51, net: tapNet(0)}
		if v.image = p["disk"]; newImage(p) {
			v.image = "{vm}/disk"
		}
		if p["image"] != "" {
			v.root = "{vm}/root"
		}
		if v.kernel == "" {
			v.kernel = bootImages
		}
		if v.accel == "auto" {
			v.accel = "kvm"
		}
		if p["firmware"] == "" {
			v.params = maps.Clone(p)
			v.params["firmware"] = "OVMF.fd"
		}
		argv, err := v.argv()
		if err != nil {
			return nil, err
		}
		var cs []host.Cmd
		if newImage(p) {
			cs = append(cs, host.Cmd{Argv: []string{"mkfs.ext4", "-q", "-F", "{vm}/disk", p["disk"]}})
		}
		if p["image"] != "" {
			cs = append(cs, rootDisk("{image}", "{vm}/root", "{size}"))
		}
		cs = append(cs, host.Cmd{Argv: argv})
		if onTap(p) {
			cs = append(cs, v.net.commands()...)
		}
		return append(cs, job.Inside), nil
	},
	Open: func(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
		e := &qemuEnv{h: h, params: maps.Clone(p), taken: map[string]bool{}}
		if err := e.open(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
		return e, nil
	},
}

// insideMemory is the minimum memory of a guest in which the monitor's sources run next to the
// job. If a guest is booted for each run, opening them would take longer than the job.
const insideMemory = 768 << 20

const (
	bootImages = "/boot/vmlinuz-*"
	// Folders inside the guest.
	guestWork, guestData = "/work", "/data"
)

// newestKernel is the image in /boot with the highest release.
func newestKernel(h *host.Host) (string, error) {
	found, err := h.Glob(bootImages)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no %s; name an image with kernel=PATH (Debian's is in package linux-image-cloud-amd64)", bootImages)
	}
	if err != nil {
		return "", err
	}
	return slices.MaxFunc(found, byRelease), nil
}

// byRelease orders paths so that 6.12 comes after 6.9.
func byRelease(a, b string) int {
	digits := func(r rune) bool { return r < '0' || r > '9' }
	x, y := strings.FieldsFunc(a, digits), strings.FieldsFunc(b, digits)
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m - n
		}
	}
	return strings.Compare(a, b)
}

// newImage reports whether a disk must be made, as opposed to an existing one.
func newImage(p bench.Params) bool { return p["disk"] != "" && !path.IsAbs(p["disk"]) }

// qemuParams checks the parameters without looking at the machine.
func qemuParams(p bench.Params) error {
	_, err := p.Int("cpus", 1)
	_, err2 := p.Bytes("memory")
	var err3 error
	if newImage(p) {
		_, err3 = p.Bytes("disk")
	}
	if p["cvm"] != "none" && p["accel"] == "tcg" {
		err3 = errors.Join(err3, errors.New("parameter accel=tcg: a confidential VM needs kvm"))
	}
	if p["idle"] == "haltpoll" && p["accel"] == "tcg" {
		err3 = errors.Join(err3, errors.New("parameter idle=haltpoll: the guest's kernel supports it only under kvm"))
	}
	if slices.Contains(strings.Fields(p["append"]), "--") { // what follows is for the first program, which is the agent
		err3 = errors.Join(err3, errors.New("parameter append: the kernel's options end at --, so -- cannot be one of them"))
	}
	return errors.Join(err, err2, err3, knobParams(p))
}

func checkQEMU(h *host.Host, p bench.Params) error {
	if err := errors.Join(qemuParams(p), refuseImage(h, p["image"])); err != nil {
		return err
	}
	if err := micro.Missing(micro.Static); err != nil {
		return err
	}
	needs := []need{{Command: qemuCommand, Hint: "package qemu-system-x86"}}
	kernel := p["kernel"]
	if kernel == "" {
		kernel, _ = newestKernel(h)
	}
	if kernel == "" {
		kernel = bootImages // not the name of any file
	}
	needs = append(needs, need{Path: kernel, Hint: "name a kernel image with kernel=PATH; Debian's is in package linux-image-cloud-amd64"})
	if p["accel"] == "kvm" || p["cvm"] != "none" {
		needs = append(needs, need{Path: "/dev/kvm", Hint: "virtualization enabled in the firmware, and the module kvm_intel or kvm_amd"})
	}
	if modules := modulesFor(p); modules != nil {
		if folder, err := modulesOf(kernel); err != nil {
			return err
		} else if kernel != bootImages {
			needs = append(needs, need{Path: path.Join(folder, "modules.builtin"), Hint: "the modules of the guest's kernel, for " + strings.Join(modules, ", ") + ": unpack its whole package"})
		}
	}
	if p["image"] != "" {
		needs = append(needs, imageNeeds(h, p["image"])...)
	}
	if p["image"] != "" || newImage(p) {
		needs = append(needs, need{Command: "mkfs.ext4", Hint: "package e2fsprogs"})
	}
	if p["disk"] != "" {
		if !newImage(p) {
			needs = append(needs, need{Path: p["disk"], Hint: "the disk that disk names"})
		}
	}
	if p["data"] != "" {
		needs = append(needs, need{Path: p["data"], Hint: "make the folder, or mount the disk there"})
	}
	return missing(h, slices.Concat(needs, confidentialNeeds(h, p), knobNeeds(h, p, kernel))...)
}

// modulesFor are the kernel modules that a guest with these parameters needs.
func modulesFor(p bench.Params) []string {
	var out []string
	if p["disk"] != "" || p["image"] != "" {
		out = append(out, "virtio_blk", "ext4")
	}
	if p["net"] == netUser || onTap(p) {
		out = append(out, "virtio_net")
	}
	if out != nil {
		out = append([]string{"virtio_pci"}, out...)
	}
	return out
}

// qemuEnv describes a machine and its content; the machine itself comes and goes.
type qemuEnv struct {
	h        *host.Host
	params   bench.Params
	kernel   string
	data     string // folder of this machine for disks, ours
	image    string // the disk of test files; "" is none
	root     string // the disk of the image's root file system; "" is none
	digest   string // of the image
	net      tapNet
	forwards bench.Place
	loads    loads
	// using guards the tree and the machine while jobs run in parallel.
	using    sync.Mutex
	files    guest
	taken    map[string]bool // patterns of Job.Programs
	modules  []string
	vm       *vm    // nil: not running
	accel    string // of the machines so far; "": none has booted
	fallback string // why accel=auto did not take kvm
	describe readBack
}

func (e *qemuEnv) open(ctx context.Context) error {
	if err := qemuParams(e.params); err != nil {
		return err
	}
	if err := micro.Missing(micro.Static); err != nil {
		return err
	}
	var err error
	if e.kernel = e.params["kernel"]; e.kernel == "" {
		if e.kernel, err = newestKernel(e.h); err != nil {
			return err
		}
	}
	worker := guestFile{0o755, micro.Program}
	e.files = guest{"/init": worker, path.Join(guestWork, "micro"): worker}
	if e.params["image"] == "" {
		maps.Copy(e.files, accounts)
	}
	if err := e.addModules(modulesFor(e.params)...); err != nil {
		return err
	}
	if err := e.openImage(ctx); err != nil {
		return err
	}
	if err := e.openDisk(ctx); err != nil {
		return err
	}
	if e.params["firmware"] == "" && e.params["cvm"] != "none" {
		e.params["firmware"] = firmware(e.h, e.params["cvm"])
	}
	if onTap(e.params) {
		if e.net, err = freeNet(e.h); err != nil {
			return err
		}
	}
	return nil
}

// start boots a machine with the current content; the first one shows which accelerator works.
func (e *qemuEnv) start(ctx context.Context) error {
	if e.accel != "" {
		return e.boot(ctx, e.accel, bootLimit)
	}
	accel := e.params["accel"]
	if accel == "auto" {
		if e.params["cvm"] == "none" {
			e.fallback = noKVM(e.h)
		}
		if e.fallback == "" {
			var err error
			if e.fallback, err = e.tryKVM(ctx); err != nil || e.fallback == "" {
				return err
			}
		}
		if e.params["idle"] == "haltpoll" {
			return fmt.Errorf("parameter idle=haltpoll: the guest's kernel supports it only under kvm: %s", e.fallback)
		}
		accel = "tcg"
	}
	return e.boot(ctx, accel, bootLimit)
}

// noKVM returns why KVM cannot be used, or "" if it might work. KVM without one of the two
// modules is a paravirtual one, which runs only kernels made for it.
func noKVM(h *host.Host) string {
	if ok, _ := h.Exists("/dev/kvm"); !ok {
		return "no /dev/kvm"
	}
	intel, _ := h.Exists("/sys/module/kvm_intel")
	amd, _ := h.Exists("/sys/module/kvm_amd")
	if !intel && !amd {
		return "/dev/kvm belongs to neither kvm_intel nor kvm_amd"
	}
	return ""
}

// foreseeAccel chooses the accelerator as far as that is known before a guest boots.
func foreseeAccel(h *host.Host, p bench.Params) (bench.Params, string) {
	why := ""
	if p["accel"] == "auto" && p["cvm"] == "none" {
		if why = noKVM(h); why == "" {
			return p, ""
		}
		p = maps.Clone(p)
		p["accel"], why = "tcg", " ("+why+")"
	}
	if p["accel"] == "tcg" {
		return p, "will be emulated in software" + why
	}
	return p, ""
}

// tryKVM boots with KVM; if the guest does not come up within a generous time, it returns the
// reason to emulate instead. A confidential VM has no such alternative.
func (e *qemuEnv) tryKVM(ctx context.Context) (fallback string, err error) {
	if e.params["cvm"] != "none" {
		return "", e.boot(ctx, "kvm", bootLimit)
	}
	err = e.boot(ctx, "kvm", kvmTrial)
	if err == nil || ctx.Err() != nil || e.accel != "" { // a machine that came up and then failed is no reason
		return "", err
	}
	return err.Error(), nil
}

// addModules adds kernel modules, which a machine loads when it boots.
func (e *qemuEnv) addModules(names ...string) error {
	all := e.modules
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == len(e.modules) {
		return nil
	}
	folder, err := modulesOf(e.kernel)
	if err == nil {
		err = e.files.addModules(e.h, folder, all...)
	}
	if err == nil {
		err = e.halt()
	}
	if err == nil {
		e.modules = all
	}
	return err
}

// openData makes the folder for disks on this machine.
func (e *qemuEnv) openData() error {
	if e.data != "" {
		return nil
	}
	name, err := e.h.MkdirTemp("teescope-disk")
	if err != nil {
		return fmt.Errorf("make a folder for the disk: %w", err)
	}
	e.data = name
	if in := e.params["data"]; in != "" {
		name := path.Join(in, path.Base(e.data))
		if err := errors.Join(e.h.RemoveAll(e.data), e.h.Mkdir(name)); err != nil {
			return fmt.Errorf("make a folder for the disk: %w", err)
		}
		e.data = name
	}
	return nil
}

// openImage makes a disk of the image.
func (e *qemuEnv) openImage(ctx context.Context) error {
	if e.params["image"] == "" {
		return nil
	}
	if err := e.openData(); err != nil {
		return err
	}
	var err error
	e.root, e.digest, err = makeRoot(ctx, e.h, e.params["image"], path.Join(e.data, "root"))
	return err
}

// openDisk makes or finds the disk of test files.
func (e *qemuEnv) openDisk(ctx context.Context) error {
	if e.params["disk"] == "" {
		return nil
	}
	if e.image = e.params["disk"]; !newImage(e.params) {
		return nil
	}
	if err := e.openData(); err != nil {
		return err
	}
	e.image = path.Join(e.data, "disk")
	bytes, err := e.params.Bytes("disk")
	if err != nil {
		return err
	}
	out, err := e.h.Exec(ctx, host.Cmd{Argv: []string{"mkfs.ext4", "-q", "-F", e.image, strconv.FormatInt(bytes>>10, 10) + "k"}})
	if err != nil {
		return fmt.Errorf("make the disk: %w%s", err, lastWords(out))
	}
	return nil
}

// boot starts a machine with the current content.
func (e *qemuEnv) boot(ctx context.Context, accel string, limit time.Duration) error {
	v := &vm{h: e.h, params: e.params, kernel: e.kernel, accel: accel, root: e.root, image: e.image, data: e.data, net: e.net}
	if err := v.start(ctx, e.files, limit); err != nil {
		return err
	}
	e.vm, e.accel = v, accel
	if err := v.forward(e.forwards); err != nil {
		return errors.Join(err, e.halt())
	}
	if e.describe.digest != "" {
		return nil
	}
	image, err := e.h.ReadFile(e.kernel)
	if err == nil {
		e.describe, err = v.readBack()
		e.describe.digest = fmt.Sprintf("sha256:%x", sha256.Sum256(image))
	}
	if err != nil {
		return errors.Join(err, e.halt())
	}
	return nil
}

// halt ends the machine, if one runs.
func (e *qemuEnv) halt() error {
	if e.vm == nil {
		return nil
	}
	v := e.vm
	e.vm = nil
	return v.stop()
}

func (e *qemuEnv) Describe(_ context.Context, d *result.Environment) error {
	reportParams(d, e.params)
	r := e.describe
	d.Params["kernel"], d.Params["accel"], d.Params["memory"], d.Params["cpus"] = e.kernel, r.accel, r.memory, r.cpus
	d.Digests = withEntry(d.Digests, "kernel", r.digest)
	d.Software.Versions = withEntry(d.Software.Versions, "qemu", r.version)
	d.Software.CachePolicy = "guest: as found; this machine: cache=" + e.params["cache"]
	if e.digest != "" {
		d.Software.Versions = withEntry(d.Software.Versions, "image", e.digest)
	}
	if e.image == "" {
		d.Software.CachePolicy = "none: {data} is memory of the guest"
		d.TEE.Settings = withEntry(d.TEE.Settings, "data", "tmpfs in the guest, because no disk was requested")
	}
	if r.accel == "tcg" {
		text := "tcg: software emulation, whose times are not what a VM costs"
		if e.fallback != "" {
			text += "; no kvm: " + e.fallback
		}
		d.TEE.Settings = withEntry(d.TEE.Settings, "accelerator", text)
	}
	if kind := confidentialKind[e.params["cvm"]]; kind != "" && (d.TEE.Type != kind || !d.TEE.Active) {
		d.TEE.Type, d.TEE.Active, d.TEE.Declared = kind, true, true
	}
	// The guest has no identity of its own: it is this machine.
	if id, err := machine.HostID(e.h); err == nil {
		d.Hardware.Serial = id
		delete(d.Missing, "hardware.host_id")
	}
	return nil
}
