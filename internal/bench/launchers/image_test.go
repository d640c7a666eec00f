package launchers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestImageFolder: a folder is used as it is, an ext4 file is unpacked, and a disk made from a
// folder holds the same.
func TestImageFolder(t *testing.T) {
	for _, tool := range []string{"mkfs.ext4", "debugfs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s (package e2fsprogs)", tool)
		}
	}
	h, dir := host.Local(), t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := h.Install(filepath.Join(folder, "bin/sh"), []byte("a shell"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := imageFolder(t.Context(), h, folder, filepath.Join(dir, "unused")); err != nil || got != folder {
		t.Errorf("a folder: %s, %v", got, err)
	}
	disk, digest, err := makeRoot(t.Context(), h, folder, filepath.Join(dir, "root"))
	if err != nil || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("%s, %s, %v", disk, digest, err)
	}
	same, ownDigest, err := makeRoot(t.Context(), h, disk, filepath.Join(dir, "other"))
	if err != nil || same != disk || ownDigest == digest {
		t.Errorf("an ext4 file: %s, %s, %v", same, ownDigest, err)
	}
	into, err := imageFolder(t.Context(), h, disk, filepath.Join(dir, "into"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(into, "bin/sh")); err != nil || string(b) != "a shell" {
		t.Errorf("unpacked: %q, %v", b, err)
	}
	if fi, err := os.Stat(filepath.Join(into, "bin/sh")); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("unpacked: %v, %v", fi, err)
	}
}

// TestBadImages: each is reported in one line before anything runs.
func TestBadImages(t *testing.T) {
	h, text := host.Local(), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no file system\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := map[string]string{text: "neither a folder nor a file with an ext4 file system", "/absent": "no such file"}
	if _, err := exec.LookPath("podman"); err == nil {
		bad["localhost/teescope-absent:none"] = "not in podman's store"
	}
	for image, want := range bad {
		if err := checkImage(t.Context(), h, image); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", image, err, want)
		}
	}
}

// TestRefusedFolders: a folder with a file system of the kernel's own in it is not packed, whatever the way to it.
func TestRefusedFolders(t *testing.T) {
	h := host.At(t.TempDir())
	for _, dir := range []string{"/root/proc", "/root/run", "/root space/sys", "/rootless", "/sys/fs", "/plain"} {
		if err := h.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"/link": "root", "/up": "plain/.."} {
		t.Run(name, func(t *testing.T) {
			if err := h.Symlink(target, name); err != nil {
				t.Fatal(err)
			}
		})
	}
	mounts := "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n" +
		"2 1 0:2 / /root rw - overlay overlay rw\n3 2 0:3 / /root/proc rw - proc proc rw\n4 2 0:4 / /root/run rw - tmpfs tmpfs rw\n" +
		"5 1 0:5 / /root\\040space/sys rw - sysfs sysfs rw\n6 1 0:5 / /sys rw - sysfs sysfs rw\n"
	if _, err := h.ReadFile("/proc/self/mountinfo"); err == nil {
		t.Fatal("the fixture has mounts already")
	}
	if err := refuseImage(h, "/root"); err != nil {
		t.Errorf("without a list of mounts: %v", err)
	}
	if err := h.Install("/proc/self/mountinfo", []byte(mounts), 0o644); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"/": "this is the machine's root folder", "/.": "this is the machine's root folder", "/up": "this is the machine's root folder",
		"/root": "proc is mounted at /root/proc", "/link": "proc is mounted at /root/proc", "/root space": "sysfs is mounted at /root space/sys",
		"/root/proc": "proc is mounted at /root/proc", "/sys/fs": "sysfs is mounted at /sys",
		"/root/run": "", "/rootless": "", "/plain": "", "/absent": "", "proc": "", "": "",
	} {
		err := refuseImage(h, image)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("image %q: %v, want %q", image, err, want)
		}
	}
}

// TestImageOfTheMachine: every launcher that packs an image refuses this machine's root before anything else.
func TestImageOfTheMachine(t *testing.T) {
	n := 0
	for _, l := range All {
		if !slices.ContainsFunc(l.Params, func(p bench.Param) bool { return p.Name == "image" && p.Path }) {
			continue
		}
		n++
		for _, image := range []string{"/", "/proc/self/root", "/proc"} {
			p, err := bench.Complete("launcher "+l.Name, l.Params, bench.Params{"image": image})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Check(host.Local(), p); err == nil || !strings.Contains(err.Error(), "pack image "+image+": ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: image %s: %v", l.Name, image, err)
			}
		}
	}
	if n < 3 {
		t.Errorf("%d launchers pack an image, want container, runsc and qemu", n)
	}
}

// TestRelativeImage: a path that begins with a dot starts in the current folder; a name is kept.
func TestRelativeImage(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{"./root": filepath.Join(here, "root"), ".": here, "/srv/root": "/srv/root", "docker.io/redis:8": "docker.io/redis:8", "": ""} {
		if p, err := bench.Complete("launcher runsc", gvisor.Params, bench.Params{"image": given}); err != nil || p["image"] != want {
			t.Errorf("image %q becomes %q, %v; want %q", given, p["image"], err, want)
		}
	}
}

// TestNetSettles: a guest has a network if a load comes from outside, and refuses such a load
// without one.
func TestNetSettles(t *testing.T) {
	alone, loaded := bench.Job{}, bench.Job{Outside: &host.Cmd{Argv: []string{"load"}}}
	for _, c := range []struct {
		net  string
		job  bench.Job
		want string
	}{{"auto", alone, netNone}, {"auto", loaded, netUser}, {netUser, alone, netUser}, {netNone, loaded, netNone}} {
		given := bench.Params{"net": c.net}
		p := qemu.Settle(given, []bench.Job{alone, c.job})
		if p["net"] != c.want || given["net"] != c.net {
			t.Errorf("net=%s becomes %s, want %s", c.net, p["net"], c.want)
		}
		if err := qemu.Refuses(p, c.job); (err != nil) != (c.net == netNone && c.job.Outside != nil) {
			t.Errorf("net=%s: %v", c.net, err)
		}
	}
}

// TestExhausted: an error says that the guest ran out of memory if its console does.
func TestExhausted(t *testing.T) {
	console := []byte("[  9.1] Out of memory: Killed process 87 (redis-server) total-vm:12kB\n")
	if err := exhausted(bench.ErrEarly, console); !strings.Contains(err.Error(), "ran out of memory and its kernel killed redis-server") {
		t.Error(err)
	}
	if err := exhausted(bench.ErrEarly, []byte("quiet")); err != bench.ErrEarly {
		t.Error(err)
	}
	if err := exhausted(nil, console); err != nil {
		t.Errorf("a run that succeeded: %v", err)
	}
}
