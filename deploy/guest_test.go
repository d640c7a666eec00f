package deploy

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/teescope/teescope/e2e/kernels"
)

// guestSteps are what is done in the guest, one after the other, by the shell of Debian.
var guestSteps = []kernels.Step{
	{Name: "install", Script: "dpkg -i /debs/teescope-amd64.deb"},
	{Name: "at rest", Script: "systemctl is-enabled teescope; systemctl is-active teescope; true"},
	{Name: "unit", Script: "systemd-analyze verify --man=no teescope.service && systemd-analyze security --no-pager teescope.service | tail -n 1"},
	{Name: "start", Script: "systemctl enable --now teescope && systemctl is-active teescope"},
	{Name: "page", Script: "until /debs/ask / 2>/dev/null; do sleep 1; done"},
	{Name: "metrics", Script: `until /debs/ask /metrics >/tmp/metrics 2>/dev/null && grep '^tee_syscalls_total{.*process="systemd"' /tmp/metrics; do sleep 1; done; grep '^teescope_source_up' /tmp/metrics`},
	{Name: "process", Script: "cat /proc/$(systemctl show -P MainPID teescope)/status; ls -ld /var/lib/private/teescope /run/teescope/9780.sock"},
	{Name: "explain", Script: "teescope explain --server http://127.0.0.1:9780"},
	{Name: "reload", Script: "systemctl reload teescope && systemctl is-active teescope"},
	{Name: "killed", Script: `was=$(systemctl show -P MainPID teescope); kill -KILL $was
until now=$(systemctl show -P MainPID teescope) && [ "$now" != 0 ] && [ "$now" != "$was" ] && /debs/ask / >/dev/null 2>&1; do sleep 1; done; systemctl show -P NRestarts teescope`},
	{Name: "stop", Script: "systemctl stop teescope; systemctl show -P Result -P ExecMainStatus teescope"},
	{Name: "start again", Script: "systemctl start teescope && systemctl is-active teescope"},
	{Name: "remove", Script: "dpkg -r teescope; systemctl is-active teescope; ls /usr/bin/teescope; ls /var/lib/private/teescope"},
	{Name: "purge", Script: "dpkg -P teescope; ls -d /var/lib/private/teescope /var/lib/teescope /etc/teescope /etc/default/teescope; dpkg --audit"},
	{Name: "journal", Script: "journalctl --no-pager -u teescope | tail -n 50"},
}

// ask prints the monitor's answer to a path. Debian has no other program for that without more packages.
const ask = `#!/usr/bin/perl -w
use IO::Socket::INET;
my $s = IO::Socket::INET->new("127.0.0.1:9780") or exit 1;
print $s "GET $ARGV[0] HTTP/1.0\r\nHost: localhost\r\n\r\n";
my $all = join "", <$s>;
print $all;
exit($all =~ m{^HTTP/1\.\d 200 } ? 0 : 1);
`

// serviceInGuest installs a package in a Debian with systemd, in an emulated machine, and has systemd start, reload, restart and stop its
// service.
func serviceInGuest(t *testing.T, release string) {
	found := map[string]string{}
	for _, tool := range [][2]string{{"qemu-system-x86_64", "qemu-system-x86"}, {"busybox", "busybox-static"}, {"mkfs.ext4", "e2fsprogs"}, {"xz", "xz-utils"}, {"zstd", "zstd"}, {"lz4", "lz4"}} {
		path, err := exec.LookPath(tool[0])
		if err != nil {
			t.Skipf("%s is not installed (package %s)", tool[0], tool[1])
		}
		found[tool[0]] = path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	base := filepath.Join(cache, "teescope", "debian", "systemd")
	if _, err := os.Stat(filepath.Join(base, "usr/lib/systemd/systemd")); err != nil {
		t.Skipf("there is no Debian root with systemd in %s; as root, `tools/setup.sh release` makes it with debootstrap", base)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	g := kernels.Guest{Kernel: debianKernel(ctx, t, filepath.Join(cache, "teescope", "kernels")), Modules: []string{"virtio_pci", "virtio_blk", "crc32c_generic", "ext4"}, Steps: guestSteps}
	g.Root = guestDisk(t, base, release, g.RootFiles())
	r, err := g.Run(ctx, found["qemu-system-x86_64"], found["busybox"])
	if r != nil && (err != nil || t.Failed()) {
		for _, s := range guestSteps {
			t.Logf("%s: %+v", s.Name, r.Steps[s.Name])
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the guest took %v; %s", r.Took.Round(time.Second), strings.TrimSpace(r.Steps["unit"].Text))
	checkGuest(t, r)
}

// checkGuest compares what the steps printed with what they are to print.
func checkGuest(t *testing.T, r *kernels.Report) {
	t.Helper()
	for step, want := range map[string]string{ // with the exit status 0
		"install": "systemctl enable --now teescope\n",
		"at rest": "^\\s*disabled\ninactive\n",
		"unit":    "Overall exposure level for teescope.service: ",
		"start":   "\nactive\n|^active\n",
		"page":    "<title>",
		"metrics": `tee_syscalls_total\{.*process="systemd"`,
		"process": "(?s)Uid:\t6[1-5]\\d{3}\t.*CapBnd:\t000000.*NoNewPrivs:\t1\n.*Seccomp:\t2\n",
		"explain": "(?i)nothing wrong|problem|warning|critical|not enough data",
		"reload":  "active\n",
		"killed":  "^\\s*1\n",
		"stop":    "success\n0\n|0\nsuccess\n",
	} {
		out := r.Steps[step]
		if out.Status != 0 || !regexp.MustCompile(want).MatchString(strings.ReplaceAll(out.Text, "\r", "")) {
			t.Errorf("%s: exit status %d, want 0 and %q in\n%s", step, out.Status, want, out.Text)
		}
	}
	if out := r.Steps["remove"].Text; strings.Contains(out, "\nactive\n") || !strings.Contains(out, "cannot access '/usr/bin/teescope'") || !strings.Contains(out, "lock") {
		t.Errorf("after the removal the service runs, the program is there, or the data is not:\n%s", out)
	}
	if out := r.Steps["purge"]; out.Status != 0 || strings.Count(out.Text, "cannot access") != 4 {
		t.Errorf("after the purge, exit status %d:\n%s", out.Status, out.Text)
	}
	if t.Failed() {
		t.Logf("the journal:\n%s\nthe console ends:\n%s", r.Steps["journal"].Text, r.Kernel[max(0, len(r.Kernel)-3000):])
	}
}

// debianKernel is Debian 12's kernel for virtual machines.
func debianKernel(ctx context.Context, t *testing.T, dir string) *kernels.Kernel {
	t.Helper()
	archive := kernels.Archive{Dir: dir}
	images, err := archive.Images(ctx)
	for _, im := range images {
		if err == nil && im.Series == (kernels.Version{6, 1}) && im.Flavour == "cloud" {
			k, err := archive.Fetch(ctx, im)
			if errors.Is(err, kernels.ErrNoKernels) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
	}
	t.Skipf("the archive offers no kernel 6.1 for virtual machines: %v", err)
	return nil
}

// guestDisk makes a disk with a copy of a root, the package and more files, whose service systemd starts.
func guestDisk(t *testing.T, base, release string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	tree, disk := filepath.Join(dir, "tree"), filepath.Join(dir, "disk")
	command(t, "", nil, "cp", "-a", base, tree)
	copyFile(t, filepath.Join(tree, "debs", "teescope-amd64.deb"), filepath.Join(release, "teescope-amd64.deb"))
	files["/debs/ask"] = ask
	for name, text := range files {
		to, mode := filepath.Join(tree, name), os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "", nil, "systemctl", "--root="+tree, "enable", "steps.service")
	command(t, "", nil, "mkfs.ext4", "-q", "-d", tree, disk, "2G")
	return disk
}
