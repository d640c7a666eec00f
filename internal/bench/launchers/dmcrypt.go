package launchers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/result"
)

// plainCipher is the value of parameter cipher for the same device without encryption.
const plainCipher = "none"

// dmcrypt is native with the data folder on a new file system: a file on the disk under test, a
// loop device on it, dm-crypt on that, ext4 on top. With cipher=none it omits dm-crypt, so two
// arms differ only in encryption (the kernel's
// Documentation/admin-guide/device-mapper/dm-crypt.rst). The key is random, only in memory, and
// lost at the end.
var dmcrypt = bench.Launcher{
	Name: "dmcrypt",
	Doc: "Runs the job as native does, with {data} on a new ext4 file system over dm-crypt and a loop device (needs root). " +
		"cipher=none leaves out only dm-crypt: the baseline for the cost of storage encryption.",
	Params: []bench.Param{
		{Name: "cipher", Doc: "Cipher of dm-crypt in the kernel's notation, or none.", Default: "aes-xts-plain64"},
		{Name: "key-bits", Doc: "Length of the key; 512 is AES-256 in XTS.", Default: "512", Values: []string{"128", "256", "512"}},
		{Name: "size", Doc: "Size of the device.", Default: "4GiB"},
		{Name: "data", Path: true, Doc: "Folder on the disk under test, for the file that backs the device. Empty: the temporary folder."},
		{Name: "cpus", Doc: "CPUs that the job may use, as a list like 0,2-3 (taskset(1)); dm-crypt's own threads are not restricted. Empty: no restriction."},
		{Name: "drop-caches", Doc: "Whether the page cache is written out and dropped before each run.", Default: "false", Values: []string{"false", "true"}},
	},
	Check: checkDMCrypt,
	Commands: func(p bench.Params, job bench.Job) ([]host.Cmd, error) {
		steps, err := cryptSteps(p, "{data}/device", "/dev/loopN", "teescope-dmcrypt", "{work}/mount")
		if err != nil {
			return nil, err
		}
		run, err := native.Commands(onDevice(p, "{work}/mount"), job)
		return append(steps, run...), err
	},
	Open: openDMCrypt,
}

// onDevice are the parameters of the native environment on the mounted device.
func onDevice(p bench.Params, mount string) bench.Params {
	return bench.Params{"data": mount, "cpus": p["cpus"], "drop-caches": p["drop-caches"]}
}

func checkDMCrypt(h *host.Host, p bench.Params) error {
	needs := []need{
		{Path: "/dev/loop-control", Hint: "the kernel option CONFIG_BLK_DEV_LOOP, or modprobe loop"},
		{Command: "losetup", Hint: "package mount"},
		{Command: "mkfs.ext4", Hint: "package e2fsprogs"},
	}
	if p["data"] != "" {
		needs = append(needs, dataFolder(p["data"]))
	}
	if p["cpus"] != "" {
		needs = append(needs, need{Command: "taskset", Hint: "package util-linux"})
	}
	if p["cipher"] == plainCipher {
		return missing(h, needs...)
	}
	needs = append(needs, need{Command: "cryptsetup", Hint: "package cryptsetup-bin"})
	err := missing(h, needs...)
	if !hasDMCrypt(h) {
		err = errors.Join(err, errors.New("this kernel has no dm-crypt (options CONFIG_BLK_DEV_DM and CONFIG_DM_CRYPT)"))
	}
	return err
}

// hasDMCrypt reports whether dm-crypt is loaded, built in or a loadable module. A kernel with
// device mapper and without a list of modules may have it: cryptsetup then decides.
func hasDMCrypt(h *host.Host) bool {
	if ok, _ := h.Exists("/sys/module/dm_crypt"); ok {
		return true
	}
	release, _ := h.ReadString("/proc/sys/kernel/osrelease")
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		if b, err := h.ReadFile("/lib/modules/" + release + "/" + list); err == nil && strings.Contains(string(b), "/dm-crypt.ko") {
			return true
		}
	}
	devices, _ := h.ReadString("/proc/devices")
	return strings.Contains(devices, " device-mapper")
}

// cryptSteps are the commands that make the file, the devices and the file system, in order.
// cryptsetup reads the key from standard input.
func cryptSteps(p bench.Params, file, loop, mapping, mount string) ([]host.Cmd, error) {
	size, err := p.Bytes("size")
	if err != nil {
		return nil, err
	}
	device := loop
	steps := []host.Cmd{
		{Argv: []string{"fallocate", "--length", fmt.Sprint(size), file}},
		// Direct: the page cache holds the file system's pages once, not twice.
		{Argv: []string{"losetup", "--find", "--show", "--direct-io=on", file}},
	}
	if p["cipher"] != plainCipher {
		device = "/dev/mapper/" + mapping
		steps = append(steps, host.Cmd{Argv: []string{"cryptsetup", "open", "--type", "plain", "--cipher", p["cipher"],
			"--key-size", p["key-bits"], "--key-file", "-", "--batch-mode", loop, mapping}})
	}
	return append(steps,
		// Lazy initialisation would write in the background of the first runs.
		host.Cmd{Argv: []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", device}},
		host.Cmd{Argv: []string{"mount", "-o", "noatime", device, mount}}), nil
}

// undoing is the command that undoes a step, and a path that exists until then: if the path is
// gone, nothing is left to undo.
type undoing struct {
	argv  []string
	until string
}

func undo(program, loop, mapping, mount string) (undoing, bool) {
	switch program {
	case "losetup":
		return undoing{[]string{"losetup", "--detach", loop}, path.Join("/sys/block", path.Base(loop), "loop/backing_file")}, true
	case "cryptsetup":
		return undoing{[]string{"cryptsetup", "close", mapping}, "/dev/mapper/" + mapping}, true
	case "mount":
		return undoing{[]string{"umount", mount}, path.Join(mount, "lost+found")}, true // every new ext4 has it
	}
	return undoing{}, false
}

type cryptEnv struct {
	bench.Environment // native, on the mounted device
	params            bench.Params
	cipher            string // as the kernel reports it
	device            *cryptDevice
}

// cryptDevice is the mounted file system and how to take it down.
type cryptDevice struct {
	*folders
	mapping, mount string
	down           []undoing
}

func openDMCrypt(ctx context.Context, h *host.Host, p bench.Params) (bench.Environment, error) {
	f, err := newFolders(h, "dmcrypt", p["data"], func(work, _ string) { endDevice(ctx, h, work) })
	if err != nil {
		return nil, err
	}
	d := &cryptDevice{folders: f, mapping: path.Base(f.work), mount: path.Join(f.work, "mount")}
	if err := d.create(ctx, p); err != nil {
		return nil, errors.Join(err, d.close())
	}
	inner, err := native.Open(ctx, h, onDevice(p, d.mount))
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	e := &cryptEnv{Environment: inner, params: p, cipher: plainCipher, device: d}
	if p["cipher"] != plainCipher {
		if e.cipher, err = d.cipher(ctx); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// endDevice takes down what a killed harness left of a device: its mount, its mapping and its
// loop device.
func endDevice(ctx context.Context, h *host.Host, work string) {
	name := path.Base(work)
	_, _ = h.Exec(ctx, host.Cmd{Argv: []string{"umount", path.Join(work, "mount")}})
	if there, _ := h.Exists("/dev/mapper/" + name); there {
		_, _ = h.Exec(ctx, host.Cmd{Argv: []string{"cryptsetup", "close", name}})
	}
	out, _ := h.Exec(ctx, host.Cmd{Argv: []string{"losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"}})
	for line := range strings.Lines(string(out.Stdout)) {
		if loop, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(file, "/"+name+"/") {
			_, _ = h.Exec(ctx, host.Cmd{Argv: []string{"losetup", "--detach", loop}})
		}
	}
}

// create makes the device, step by step.
func (d *cryptDevice) create(ctx context.Context, p bench.Params) error {
	if err := d.h.Mkdir(d.mount); err != nil {
		return fmt.Errorf("make the mount point: %w", err)
	}
	loop := ""
	for i := 0; ; i++ {
		steps, err := cryptSteps(p, path.Join(d.data, "device"), loop, d.mapping, d.mount)
		if err != nil || i == len(steps) {
			return err
		}
		c := steps[i]
		if c.Argv[0] == "cryptsetup" {
			c.Stdin = make([]byte, 64)
			_, _ = rand.Read(c.Stdin) // never fails
		}
		out, err := d.h.Exec(ctx, c)
		switch {
		case err != nil && c.Argv[0] == "losetup":
			return fmt.Errorf("%w%s (a tmpfs has no direct I/O: name a folder on a disk with data=)", err, lastWords(out))
		case err != nil:
			return fmt.Errorf("%w%s", err, lastWords(out))
		case c.Argv[0] == "losetup":
			loop = strings.TrimSpace(string(out.Stdout))
		}
		if u, ok := undo(c.Argv[0], loop, d.mapping, d.mount); ok {
			d.down = append(d.down, u)
		}
	}
}

// cipher reads back what the kernel encrypts with.
func (d *cryptDevice) cipher(ctx context.Context) (string, error) {
	out, err := d.h.Exec(ctx, host.Cmd{Argv: []string{"cryptsetup", "status", d.mapping}})
	if err != nil {
		return "", fmt.Errorf("%w%s", err, lastWords(out))
	}
	for line := range strings.Lines(string(out.Stdout)) {
		if name, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cipher" {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("cryptsetup status %s does not report the cipher", d.mapping)
}

// close takes everything down, also after the context of the run has ended.
func (d *cryptDevice) close() error {
	var errs []error
	for _, u := range slices.Backward(d.down) {
		out, err := d.h.Exec(context.Background(), host.Cmd{Argv: u.argv})
		if there, _ := d.h.Exists(u.until); err != nil && there {
			errs = append(errs, fmt.Errorf("%w%s", err, lastWords(out)))
		}
	}
	return errors.Join(append(errs, d.remove())...) // everything in there is our own, mounted or not
}

func (e *cryptEnv) Describe(ctx context.Context, d *result.Environment) error {
	if err := e.Environment.Describe(ctx, d); err != nil {
		return err
	}
	for _, name := range []string{"key-bits", "size"} {
		d.Params[name] = e.params[name]
	}
	d.Params["cipher"], d.Params["data"] = e.cipher, e.device.dataOn()
	d.Software.Encryption = withEntry(d.Software.Encryption, "storage", e.cipher)
	return nil
}

func (e *cryptEnv) Close() error {
	if err := e.Environment.Close(); err != nil {
		return errors.Join(err, e.device.close())
	}
	return e.device.close()
}
