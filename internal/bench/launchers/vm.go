package launchers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

const qemuCommand = "qemu-system-x86_64"

// QEMU's sockets.
const (
	agentSocket = "agent"
	qmpSocket   = "qmp"
)

// vm is one QEMU process with its folder.
type vm struct {
	h             *host.Host
	params        bench.Params
	kernel, accel string
	root          string // disk of an image's root file system; "" is none
	image         string // disk of test files; "" is none
	data          string // folder to remove if this program is killed
	cbit          uint32 // SEV's C-bit position
	net           tapNet

	work    string // our folder: initramfs, console
	sockets string // folder of the sockets: work, if its path is short enough for them
	has     guest
	process *host.Process
	began   time.Time // just before QEMU's start
	// When QEMU answered, and when the agent greeted.
	answered, greeted time.Time
	conn              net.Conn
	agent             *agent
	qmp               *qmp
	frozen            bool
	shown             int64 // bytes of the console already given to earlier runs
}

// argv returns QEMU's command line (qemu-system-x86_64(1)). The first serial port is the
// console, the second leads to the agent; a machine starts when someone listens there.
func (v *vm) argv() ([]string, error) {
	memory, err := v.params.Bytes("memory")
	if err != nil {
		return nil, err
	}
	machine, model := "q35", v.params["cpu"]
	if model == "" {
		model = map[string]string{"tcg": "max", "kvm": "host"}[v.accel]
	}
	var cvm []string
	if v.params["cvm"] != "none" {
		var options string
		options, cvm = confidential(v.params, memory, v.cbit)
		machine += options
		if v.params["cvm"] == "snp" && v.params["cpu"] == "" {
			model = "EPYC-v4"
		}
	}
	if backend := backend(v.params, memory>>20<<20); backend != "" {
		machine += ",memory-backend=ram"
		cvm = append(cvm, "-object", backend)
	}
	a := []string{
		qemuCommand, "-no-user-config", "-nodefaults", "-no-reboot", "-display", "none", "-nic", "none",
		"-machine", machine, "-accel", v.accel, "-cpu", model, "-smp", v.params["cpus"], "-m", strconv.FormatInt(memory>>20, 10) + "M",
		"-chardev", "file,id=console,path=" + optionValue(path.Join(v.work, "console")), "-serial", "chardev:console",
		"-chardev", "socket,id=agent,server=on,wait=on,path=" + optionValue(path.Join(v.sockets, agentSocket)), "-serial", "chardev:agent",
		"-qmp", "unix:" + optionValue(path.Join(v.sockets, qmpSocket)) + ",server=on,wait=off", "-pidfile", path.Join(v.work, "pid"),
		"-kernel", v.kernel, "-initrd", path.Join(v.work, "initrd"), "-append", v.cmdline(),
	}
	a = append(a, cvm...)
	// An error is passed on to the guest. By default QEMU stops the guest when this machine's disk is full, until the run's time is up.
	const report = ",werror=report,rerror=report"
	// Without iommu_platform, virtio bypasses the kernel's DMA layer and so bounce buffers. It
	// is on in every arm, so arms differ only in the bounce buffers.
	const virtio = ",disable-legacy=on,iommu_platform=on"
	disk, netdev, nic := queues(v.params)
	if v.params["net"] == netUser {
		a = append(a, "-netdev", "user,id="+netName+",restrict=on,ipv6=off", "-device", "virtio-net-pci,romfile=,netdev="+netName+virtio)
	}
	if onTap(v.params) {
		// Without vhostforce, QEMU moves the packets itself where vhost cannot be opened, and only warns (net/tap.c).
		vhost := map[string]string{netTap: "off", netVhost: "on,vhostforce=on"}[v.params["net"]]
		a = append(a, "-netdev", "tap,id="+netName+",ifname="+v.net.name()+",script=no,downscript=no,vhost="+vhost+netdev,
			"-device", "virtio-net-pci,romfile=,netdev="+netName+nic+virtio)
	}
	if v.root != "" { // what the guest writes there is lost with the machine
		a = append(a, "-drive", "if=none,id=root,format=raw,snapshot=on"+report+",file="+optionValue(v.root), "-device", "virtio-blk-pci,drive=root"+disk+virtio)
	}
	if v.image != "" {
		a = append(a, "-drive", "if=none,id=data,format=raw,cache="+v.params["cache"]+report+",file="+optionValue(v.image),
			"-device", "virtio-blk-pci,drive=data"+disk+virtio)
	}
	return a, nil
}

// optionValue is a value within one of QEMU's lists of options, where a comma is written twice (qemu-system-x86_64(1)).
func optionValue(text string) string { return strings.ReplaceAll(text, ",", ",,") }

// cmdline returns the guest's kernel command line. A guest that panics ends (panic=-1 reboots,
// which QEMU treats as an exit).
func (v *vm) cmdline() string {
	words := []string{"console=ttyS0", "quiet", "panic=-1"}
	if v.accel == "tcg" {
		// The timer check sometimes fails when the emulator has to wait for a CPU.
		words = append(words, "tsc=unstable", "no_timer_check")
	}
	words = append(words, knobWords(v.params)...)
	disks := []string{"/dev/vda", "/dev/vdb"} // in the order of their devices
	if v.root != "" {
		words, disks = append(words, "TEESCOPE_ROOT="+disks[0]), disks[1:]
	}
	if v.image != "" {
		words = append(words, "TEESCOPE_DISK="+disks[0])
	}
	if v.params["net"] == netUser {
		words = append(words, "TEESCOPE_NET="+guestAddress+"/"+guestGateway)
	}
	if onTap(v.params) {
		words = append(words, "TEESCOPE_NET="+v.net.guest()+"/"+v.net.host())
	}
	words = append(words, strings.Fields(v.params["append"])...)
	return strings.Join(append(words, "--", "agent"), " ")
}

// keeper runs a command that must not outlive this program, even if this program is killed:
// standard input, to which nobody writes, then ends. $1 to $3 are folders to remove. They go
// first, because the watcher ends with the command.
const keeper = `work=$1 sockets=$2 data=$3
shift 3
exec 3<&0
"$@" 3<&- </dev/null >&2 &
vm=$!
{ read -r gone; rm -rf "$work" "$sockets" ${data:+"$data"}; kill -KILL $vm; } <&3 &
watch=$!
exec 3<&-
wait $vm
status=$?
kill $watch
exit $status`

// start boots a machine and meets its agent. After an error nothing is left behind.
func (v *vm) start(ctx context.Context, files guest, limit time.Duration) error {
	err := v.tryStart(ctx, files, limit)
	if err == nil {
		return nil
	}
	words := v.lastWords()
	return errors.Join(fmt.Errorf("boot the guest: %w%s", err, words), v.stop())
}

func (v *vm) tryStart(ctx context.Context, files guest, limit time.Duration) error {
	var err error
	if v.work, err = v.h.MkdirTemp("teescope-vm"); err != nil {
		return err
	}
	if v.sockets, err = v.h.ShortFolder(v.work, agentSocket, host.MostSocketPath); err != nil {
		return fmt.Errorf("make a folder for QEMU's sockets: %w", err)
	}
	if err := v.h.Install(path.Join(v.work, "initrd"), files.archive(), 0o600); err != nil {
		return err
	}
	if v.params["cvm"] == "snp" {
		_, b, _, _ := v.h.CPUID(0x8000001f, 0) // AMD APM volume 3, appendix E: EBX bits 5:0
		v.cbit = b & 0x3f
	}
	argv, err := v.argv()
	if err != nil {
		return err
	}
	v.has, v.began = maps.Clone(files), v.h.Now()
	v.process, err = v.h.Start(context.WithoutCancel(ctx), host.Cmd{
		Argv: append([]string{"sh", "-c", keeper, "qemu", v.h.Path(v.work), v.h.Path(v.sockets), v.data}, argv...), Pipe: true})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(limited, v.process.Stop)()
	if v.conn, err = v.dial(limited, agentSocket); err == nil {
		var control net.Conn
		if control, err = v.dial(limited, qmpSocket); err == nil {
			v.qmp, err = newQMP(control, v.h.Now)
		}
	}
	if err == nil && onTap(v.params) {
		err = v.net.create(limited, v.h)
	}
	if err == nil {
		v.answered = v.h.Now()
		v.agent, err = meetAgent(v.conn)
		v.greeted = v.h.Now()
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("the guest's worker did not answer within %v", limit)
	}
	return err
}

// boot returns when the phases of the boot ended: on this machine's clock those that it sees, and those inside the
// guest by what the guest's clock shows when the agent greets.
func (v *vm) boot() *bench.Boot {
	init := v.greeted.Sub(v.began)
	return &bench.Boot{VMM: v.answered.Sub(v.began), Firmware: init - v.agent.greeted, Kernel: init - v.agent.greeted + v.agent.began, Init: init}
}

// dial connects to one of QEMU's sockets as soon as it exists.
func (v *vm) dial(ctx context.Context, name string) (net.Conn, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", v.h.Path(path.Join(v.sockets, name)))
		if err == nil {
			return conn, nil
		}
		select {
		case <-v.process.Done():
			return nil, errors.New("QEMU ended")
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// lastWords returns the end of the console and QEMU's own error messages.
func (v *vm) lastWords() string {
	var words string
	if v.process != nil {
		v.process.Stop()
		out, _ := v.process.Wait()
		words = lastWords(out)
	}
	all, _ := v.consoleFrom(0)
	if end := lastLines(string(all)); end != "" {
		words += "; the console ended with: " + end
	}
	return words
}

// lastLines returns the end of a console, or the first message of a kernel panic, after which
// only a stack follows.
func lastLines(console string) string {
	const most = 8
	lines := strings.FieldsFunc(console, func(r rune) bool { return r == '\n' || r == '\r' })
	if i := slices.IndexFunc(lines, func(s string) bool { return strings.Contains(s, "Kernel panic") }); i >= 0 {
		lines = lines[:i+1]
	}
	return strings.Join(lines[max(0, len(lines)-most):], " | ")
}

// console returns the output of the guest's kernel since the last call.
func (v *vm) console() []byte {
	b, end := v.consoleFrom(v.shown)
	v.shown = end
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// consoleFrom returns what is kept of the console from an offset on, and where it ends. Without a file, QEMU did not get
// that far.
func (v *vm) consoleFrom(at int64) ([]byte, int64) {
	const part = 1 << 18
	var k host.Kept
	for {
		b, err := v.h.ReadFrom(path.Join(v.work, "console"), at, part)
		if err != nil || len(b) == 0 {
			return k.Bytes(), at
		}
		_, _ = k.Write(b)
		at += int64(len(b))
	}
}

// lacks returns the names of the files that the running guest lacks or has with other content,
// and their total size.
func (v *vm) lacks(files guest) (names []string, size int) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		if was, ok := v.has[name]; ok && was.mode == f.mode && bytes.Equal(was.data, f.data) {
			continue
		}
		names = append(names, name)
		size += len(f.data)
	}
	return names, size
}

// guard ends the machine when a context ends. The returned function takes the error of the work
// and explains a lost machine in it.
func (v *vm) guard(ctx context.Context) func(error) error {
	stop := context.AfterFunc(ctx, v.process.Stop)
	return func(err error) error {
		switch {
		case !stop():
			return fmt.Errorf("%w: %w", errLost, ctx.Err())
		case errors.Is(err, errLost):
			return fmt.Errorf("%w%s", err, v.lastWords())
		}
		return err
	}
}

// sendFiles sends files over the serial line.
func (v *vm) sendFiles(ctx context.Context, names []string, files guest) error {
	finish := v.guard(ctx)
	for _, name := range names {
		if err := v.agent.sendFile(name, files[name].mode, files[name].data); err != nil {
			return finish(err)
		}
		v.has[name] = files[name]
	}
	return finish(nil)
}

func (v *vm) run(ctx context.Context, c host.Cmd, began time.Time) (host.Output, error) {
	finish := v.guard(ctx)
	out, err := v.agent.run(c, began, v.h.Now)
	return out, finish(err)
}

func (v *vm) freeze(on bool) error {
	if v.frozen == on {
		return nil
	}
	v.frozen = on
	if on {
		return v.qmp.execute("stop", nil)
	}
	return v.qmp.execute("cont", nil)
}

// errDisk says that QEMU had an error with the files of the guest's disks, which the guest sees as a broken disk.
var errDisk = errors.New("a disk of the guest failed on this machine (choose a folder with more space with data=)")

// diskFault returns the disk error since the last call; "" is none. Events come with the next answer.
func (v *vm) diskFault() string {
	_ = v.qmp.execute("query-status", nil) // a QEMU that has ended has no events
	why := v.qmp.fault
	v.qmp.fault = ""
	return why
}

// readBack holds the machine's actual properties.
type readBack struct{ version, accel, memory, cpus, digest string }

func (v *vm) readBack() (readBack, error) {
	var kvm struct{ Enabled bool }
	var cpus []struct{}
	var memory struct {
		Base int64 `json:"base-memory"`
	}
	err := errors.Join(v.qmp.execute("query-kvm", &kvm), v.qmp.execute("query-cpus-fast", &cpus), v.qmp.execute("query-memory-size-summary", &memory))
	r := readBack{version: v.qmp.version, accel: "tcg", cpus: strconv.Itoa(len(cpus)), memory: strconv.FormatInt(memory.Base, 10)}
	if kvm.Enabled {
		r.accel = "kvm"
	}
	return r, err
}

// stop ends the machine and removes its folder. A user's disk is written out first, by the guest
// if it still runs.
func (v *vm) stop() error {
	if v.agent != nil && v.image != "" && !newImage(v.params) && v.freeze(false) == nil && v.agent.quit() == nil {
		select {
		case <-v.process.Done():
		case <-time.After(powerOff):
		}
	}
	if v.process != nil {
		v.process.Stop()
	}
	if v.conn != nil {
		_ = v.conn.Close()
	}
	if v.qmp != nil {
		_ = v.qmp.conn.Close()
	}
	if v.work == "" {
		return nil
	}
	var err error
	if v.sockets != "" {
		err = v.h.RemoveAll(v.sockets)
	}
	return errors.Join(err, v.h.RemoveAll(v.work))
}
