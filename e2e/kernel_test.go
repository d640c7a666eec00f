package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// guestInit is the first program in the guest: it runs doctor, then an agent
// with a known workload beside it, prints both and powers off.
const guestInit = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mount -t debugfs debugfs /sys/kernel/debug
$b mount -t cgroup2 cgroup /sys/fs/cgroup
$b ip link set lo up
echo
echo "==== doctor"
/teescope doctor --json
echo
echo "==== agent"
/teescope agent --listen 127.0.0.1:9781 &
n=0
until $b wget -q -O /dev/null http://127.0.0.1:9781/-/ready || [ $n -gt 100 ]; do $b sleep 0.2; n=$((n+1)); done
/events --comm guest-known getppid 5000
$b wget -q -O - http://127.0.0.1:9781/metrics | $b grep -E '^(tee_syscalls_total.*guest-known|tee_swiotlb|teescope_source|tee_page_cache|tee_context_switches_total.*guest-known)'
echo "==== end"
$b poweroff -f
`

// TestDebianKernel boots Debian 12's stock kernel (6.1, kprobes, no modules
// loaded) under software emulation and looks that the same binary finds its
// hooks there and counts exactly. The kernel is told to make the bounce buffer
// pool that a confidential guest has.
func TestDebianKernel(t *testing.T) {
	t.Parallel()
	qemu := tool(t, "qemu-system-x86_64", "qemu-system-x86")
	busybox := tool(t, "busybox", "busybox-static")
	dir := t.TempDir()
	vmlinuz := debianKernel(t, dir)

	root := filepath.Join(dir, "root")
	for _, d := range []string{"bin", "proc", "sys", "dev", "tmp", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	place(t, busybox, filepath.Join(root, "bin/busybox"))
	place(t, binary, filepath.Join(root, "teescope"))
	place(t, cc(t, "../workloads/events/events.c"), filepath.Join(root, "events"))
	if err := os.WriteFile(filepath.Join(root, "init"), []byte(guestInit), 0o755); err != nil {
		t.Fatal(err)
	}
	initrd := filepath.Join(dir, "initrd")
	pack := exec.Command("sh", "-c", "cd "+root+" && find . | busybox cpio -o -H newc > "+initrd)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack initrd: %v\n%s", err, out)
	}
	// One CPU: with two, software emulation on a busy machine loses an interrupt
	// between them now and then, and the guest hangs.
	vm := start(t, qemu, "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-reboot", "-nographic",
		"-serial", "stdio", "-net", "none", "-kernel", vmlinuz, "-initrd", initrd, "-append", "console=ttyS0 quiet panic=-1 mitigations=off tsc=unstable swiotlb=force")
	select {
	case <-vm.done:
	case <-time.After(3 * time.Minute):
		t.Fatalf("the guest did not end; it printed:\n%s", vm.stdout)
	}
	text := strings.ReplaceAll(vm.stdout.String(), "\r", "")
	_, rest, _ := strings.Cut(text, "==== doctor\n")
	doctor, rest, ok := strings.Cut(rest, "==== agent\n")
	if !ok {
		t.Fatalf("the guest printed:\n%s", text)
	}
	var d struct {
		Platform struct{ Kernel string }
		Sources  []struct{ Name, State, Reason string }
	}
	if err := json.NewDecoder(strings.NewReader(doctor)).Decode(&d); err != nil {
		t.Fatalf("doctor: %v\n%s", err, doctor)
	}
	t.Logf("guest kernel %s", d.Platform.Kernel)
	for _, s := range d.Sources {
		t.Logf("%-12s %-12s %s", s.Name, s.State, s.Reason)
		switch s.Name {
		case "syscalls", "switches", "faults", "pagecache", "swiotlb", "cpu", "memory":
			if s.State != "available" && s.State != "degraded" {
				t.Errorf("source %s is %s: %s", s.Name, s.State, s.Reason)
			}
		}
	}
	want := regexp.MustCompile(`tee_syscalls_total\{process="guest-known",syscall="getppid"\} (\d+)`)
	if got := want.FindStringSubmatch(rest); got == nil || got[1] != "5000" {
		t.Errorf("getppid calls of the known workload: %v, want 5000; the guest printed\n%s", got, rest)
	}
	if !regexp.MustCompile(`(?m)^tee_swiotlb_size_bytes [1-9]`).MatchString(rest) {
		t.Errorf("no bounce buffer pool is shown although the kernel was told to make one:\n%s", rest)
	}
	if !strings.Contains(rest, `teescope_source_missed_events_total{source="syscalls"} 0`) {
		t.Errorf("events were missed:\n%s", rest)
	}
}

// debianKernel downloads Debian's cloud kernel and returns its image.
func debianKernel(t *testing.T, dir string) string {
	t.Helper()
	apt := tool(t, "apt-get", "apt")
	deps, err := exec.Command("apt-cache", "depends", "--no-recommends", "--no-suggests", "linux-image-cloud-amd64").Output()
	name := regexp.MustCompile(`Depends: (linux-image-\S+-cloud-amd64)`).FindStringSubmatch(string(deps))
	if err != nil || name == nil {
		t.Skipf("apt knows no linux-image-cloud-amd64 (%v); needs Debian's package lists", err)
	}
	get := exec.Command(apt, "download", name[1])
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Skipf("download %s: %v: %s", name[1], err, out)
	}
	debs, _ := filepath.Glob(filepath.Join(dir, name[1]+"_*.deb"))
	if len(debs) != 1 {
		t.Fatalf("found %v after the download of %s", debs, name[1])
	}
	if out, err := exec.Command("dpkg-deb", "-x", debs[0], filepath.Join(dir, "deb")).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", debs[0], err, out)
	}
	images, _ := filepath.Glob(filepath.Join(dir, "deb/boot/vmlinuz-*"))
	if len(images) != 1 {
		t.Fatalf("kernel images %v", images)
	}
	return images[0]
}

func place(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("place %s: %w", from, err))
	}
}
