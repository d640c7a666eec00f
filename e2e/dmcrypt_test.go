package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cryptModules are the modules of Debian's kernel for dm-crypt on a virtio disk, in load order.
var cryptModules = []string{"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "loop", "dm-mod", "dm-crypt", "ecb", "xts"}

// cryptInit runs the launcher's own test in the guest, with its temporary folder on a disk.
const cryptInit = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for m in MODULES; do $b insmod /modules/$m.ko; done
export PATH=/usr/sbin TMPDIR=/tmp
mount -t ext4 /dev/vda /tmp
/launchers.test -test.v -test.run '^TestDMCryptReal$'
echo "==== end $?"
$b poweroff -f
`

// TestDMCrypt runs the dmcrypt launcher on Debian 12's kernel, which has dm-crypt, under
// software emulation.
func TestDMCrypt(t *testing.T) {
	qemu := tool(t, "qemu-system-x86_64", "qemu-system-x86")
	busybox := tool(t, "busybox", "busybox-static")
	mkfs := tool(t, "mkfs.ext4", "e2fsprogs")
	cryptsetup := tool(t, "cryptsetup", "cryptsetup-bin")
	dir := t.TempDir()
	vmlinuz := debianKernel(t, dir)

	root := filepath.Join(dir, "root")
	for _, d := range []string{"bin", "proc", "sys", "dev", "tmp", "run", "modules", "usr/sbin"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place(t, busybox, filepath.Join(root, "bin/busybox"))
	for _, program := range []string{cryptsetup, mkfs, tool(t, "losetup", "mount"), tool(t, "mount", "mount"), tool(t, "umount", "mount"),
		tool(t, "findmnt", "util-linux"), tool(t, "fallocate", "util-linux")} {
		placeWithLibraries(t, program, root)
	}
	for _, m := range cryptModules {
		found := ""
		_ = filepath.WalkDir(filepath.Join(dir, "deb/lib/modules"), func(path string, _ fs.DirEntry, _ error) error {
			if filepath.Base(path) == m+".ko" {
				found = path
			}
			return nil
		})
		if found == "" {
			t.Fatalf("Debian's kernel has no module %s", m)
		}
		place(t, found, filepath.Join(root, "modules", m+".ko"))
	}
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(root, "launchers.test"), "./internal/bench/launchers")
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the launchers' tests: %v\n%s", err, out)
	}
	init := strings.Replace(cryptInit, "MODULES", strings.Join(cryptModules, " "), 1)
	if err := os.WriteFile(filepath.Join(root, "init"), []byte(init), 0o755); err != nil {
		t.Fatal(err)
	}
	initrd, disk := filepath.Join(dir, "initrd"), filepath.Join(dir, "disk")
	pack := exec.Command("sh", "-c", "cd "+root+" && find . | busybox cpio -o -H newc > "+initrd+" && truncate -s 256M "+disk+" && "+mkfs+" -q -F "+disk)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack initrd and disk: %v\n%s", err, out)
	}
	vm := start(t, qemu, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-reboot", "-nographic",
		"-serial", "stdio", "-net", "none", "-kernel", vmlinuz, "-initrd", initrd,
		"-drive", "file="+disk+",format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk",
		// The timer check sometimes fails when the emulator has to wait for a CPU.
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable no_timer_check")
	vm.ExitStatus(t)
	text := strings.ReplaceAll(vm.Out.String(), "\r", "")
	for _, want := range []string{"--- PASS: TestDMCryptReal/none", "--- PASS: TestDMCryptReal/aes-xts-plain64", "==== end 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the guest did not print %q; it printed:\n%s", want, text)
		}
	}
}

// placeWithLibraries copies a program into /usr/sbin of a guest's tree, and the libraries that
// ldd names to the same paths as here.
func placeWithLibraries(t *testing.T, program, root string) {
	t.Helper()
	place(t, program, filepath.Join(root, "usr/sbin", filepath.Base(program)))
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", program, err)
	}
	for _, m := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		to := filepath.Join(root, m[1])
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		place(t, m[1], to)
	}
}
