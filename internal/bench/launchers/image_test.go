package launchers

import (
	"os"
	"os/exec"
	"path/filepath"
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
