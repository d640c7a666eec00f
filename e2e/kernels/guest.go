// Package kernels boots kernels of Debian's archive under software emulation
// and runs steps in them: the built binary, the tests of package bpf, programs
// with a known number of events. It is used by tests only.
//
// A guest's init is a script in an initramfs. It runs one step after the other and writes their
// output to the second serial line; the kernel's messages go to the first.
package kernels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Step is a shell script that a guest runs as a child of init.
type Step struct {
	Name, Script string
	// Limit bounds its time; 0 means ten minutes.
	Limit time.Duration
}

// Output is what a step printed on both streams, and its exit status. 137 and 143 mean that it
// took too long.
type Output struct {
	Text   string
	Status int
}

// Guest is a virtual machine that runs steps and then ends.
// stand-in: emulated-guest
type Guest struct {
	Kernel *Kernel
	// WithoutBTF boots the kernel with its type information blanked, and hides the file.
	WithoutBTF bool
	// Append is added to the kernel's command line.
	Append string
	// QEMU holds more arguments for QEMU.
	QEMU []string
	// CPUs is the number of CPUs; 0 means one. With two, software emulation on a busy machine
	// sometimes loses an interrupt between them, and the guest hangs.
	CPUs int
	// Files maps paths in the guest to files here. All are executable there.
	Files map[string]string
	// Modules of the kernel by name, and files of others, are loaded in this
	// order before the first step.
	Modules, Extra []string
	Steps          []Step
	// Root is the file of a disk with an ext4 file system. If it is named, its /sbin/init becomes the guest's init, and starts what
	// RootFiles has to start: the steps run there. Modules must have virtio_pci, virtio_blk and ext4.
	Root string
}

// Report holds the results of a guest.
type Report struct {
	Steps map[string]Output
	// Kernel is what the kernel wrote to the console.
	Kernel string
	Took   time.Duration
}

// preamble mounts what the steps read. An emulated processor on a busy machine is slow, so limits are stretched. Some mounts fail on some kernels: 5.10, say, has no separate
// tracefs folder.
const preamble = `#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
export TEESCOPE_PATIENCE=10
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t securityfs security /sys/kernel/security
mount -t debugfs debug /sys/kernel/debug
mount -t tracefs trace /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t tmpfs tmp /tmp
chmod 1777 /tmp
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
ip link set lo up
stty -F /dev/ttyS1 raw
exec </dev/null >/dev/ttyS1 2>&1
`

func (g *Guest) init(modules []string) string {
	var b strings.Builder
	b.WriteString(preamble)
	if g.WithoutBTF {
		b.WriteString("mount -t tmpfs none /sys/kernel/btf\n")
	}
	for _, m := range modules {
		fmt.Fprintf(&b, "insmod /modules/%s\n", filepath.Base(m))
	}
	if g.Root != "" {
		b.WriteString("mkdir -p /system && mount -t ext4 /dev/vda /system && exec switch_root /system /sbin/init\n")
		return b.String()
	}
	b.WriteString(g.loop())
	return b.String()
}

// loop runs one step after the other, writes their outputs, and ends the guest.
func (g *Guest) loop() string {
	var b strings.Builder
	for i, s := range g.Steps {
		limit := s.Limit
		if limit == 0 {
			limit = 10 * time.Minute
		}
		fmt.Fprintf(&b, "printf '\\n\\001step begin %d\\n'\ntimeout -s KILL %d sh /steps/%d\nprintf '\\n\\001step end %d %%d\\n' $?\n", i, int(limit.Seconds()), i, i)
	}
	b.WriteString("printf '\\n\\001step over\\n'\nsync\npoweroff -f\n")
	return b.String()
}

// RootFiles are the files, by their paths, that Root must have for the steps to run: a service of systemd, which starts when the system is up.
func (g *Guest) RootFiles() map[string]string {
	files := map[string]string{
		"/steps/run": "export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive\nstty -F /dev/ttyS1 raw\nexec </dev/null >/dev/ttyS1 2>&1\n" +
			strings.ReplaceAll(g.loop(), "poweroff -f", "systemctl poweroff --force --force"),
		"/etc/systemd/system/steps.service": "[Unit]\nAfter=multi-user.target\n[Service]\nType=exec\nExecStart=/bin/sh /steps/run\nTimeoutStartSec=infinity\n[Install]\nWantedBy=default.target\n",
	}
	for i, s := range g.Steps {
		files[fmt.Sprintf("/steps/%d", i)] = s.Script
	}
	return files
}

// Run boots the guest and waits until it has run its steps. If it ends early or hangs, the error
// has the end of the kernel's log, and the report has the finished steps.
func (g *Guest) Run(ctx context.Context, qemu, busybox string) (*Report, error) {
	dir, err := os.MkdirTemp("", "teescope-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	image, err := g.Kernel.ELF(!g.WithoutBTF)
	if err != nil {
		return nil, err
	}
	modules, err := g.Kernel.Modules(g.Modules...)
	if err != nil {
		return nil, err
	}
	modules = append(modules, g.Extra...)
	initrd := filepath.Join(dir, "initrd")
	if err := g.pack(initrd, busybox, modules); err != nil {
		return nil, fmt.Errorf("pack initramfs: %w", err)
	}
	console, steps := filepath.Join(dir, "console"), filepath.Join(dir, "steps")
	cmd := exec.CommandContext(ctx, qemu, append([]string{
		"-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", strconv.Itoa(max(1, g.CPUs)), "-m", "1024",
		"-nodefaults", "-no-reboot", "-display", "none", "-net", "none", "-serial", "file:" + console, "-serial", "file:" + steps,
		"-kernel", image, "-initrd", initrd,
		// The timer check sometimes fails when the emulator has to wait for a CPU.
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable no_timer_check " + g.Append,
	}, append(g.rootDisk(), g.QEMU...)...)...)
	began := time.Now()
	said, err := cmd.CombinedOutput()
	r := &Report{Took: time.Since(began)}
	log, lerr := os.ReadFile(console)
	text, terr := os.ReadFile(steps)
	r.Kernel = strings.ReplaceAll(string(log), "\r", "")
	var over bool
	r.Steps, over = g.split(string(text))
	switch {
	case errors.Join(lerr, terr) != nil:
		return r, fmt.Errorf("run %s: %w: %s", qemu, errors.Join(err, lerr, terr), said)
	case ctx.Err() != nil:
		return r, fmt.Errorf("the guest did not end; %d of %d steps finished: %w; its console ends: %s", len(r.Steps), len(g.Steps), ctx.Err(), tail(r.Kernel))
	case err != nil:
		return r, fmt.Errorf("run %s: %w: %s", qemu, err, said)
	case !over:
		return r, fmt.Errorf("the guest ended before its steps finished; its console ends: %s", tail(r.Kernel))
	}
	return r, nil
}

// rootDisk is the first disk.
func (g *Guest) rootDisk() []string {
	if g.Root == "" {
		return nil
	}
	return []string{"-drive", "if=none,id=root,format=raw,file=" + g.Root, "-device", "virtio-blk-pci,drive=root"}
}

func tail(s string) string { return s[max(0, len(s)-3000):] }

var stepMark = regexp.MustCompile(`\n\x01step (begin|end|over) ?(\d*) ?(\d*)\n`)

// split parses the second serial line. over reports whether all steps finished.
func (g *Guest) split(text string) (steps map[string]Output, over bool) {
	steps = map[string]Output{}
	from := 0
	for _, at := range stepMark.FindAllStringSubmatchIndex(text, -1) {
		word := func(i int) string { return text[at[2*i]:at[2*i+1]] }
		switch word(1) {
		case "over":
			over = true
		case "end":
			i, err := strconv.Atoi(word(2))
			status, serr := strconv.Atoi(word(3))
			if err == nil && serr == nil && i < len(g.Steps) {
				steps[g.Steps[i].Name] = Output{text[from:at[0]], status}
			}
		}
		from = at[1]
	}
	return steps, over
}

// pack writes the initramfs.
func (g *Guest) pack(file, busybox string, modules []string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newArchiveWriter(f)
	w.text("init", g.init(modules))
	w.file("bin/busybox", busybox)
	for i, s := range g.Steps {
		w.text(fmt.Sprintf("steps/%d", i), s.Script)
	}
	for _, m := range modules {
		w.file("modules/"+filepath.Base(m), m)
	}
	for to, from := range g.Files {
		w.file(strings.TrimPrefix(to, "/"), from)
	}
	return w.close()
}
