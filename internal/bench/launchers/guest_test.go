package launchers

import (
	"bytes"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/host"
)

// TestArchive lets cpio read the archive for the kernel.
func TestArchive(t *testing.T) {
	cpio := []string{"cpio"}
	if _, err := exec.LookPath("cpio"); err != nil {
		if cpio = []string{"busybox", "cpio"}; exec.Command("busybox", "true").Run() != nil {
			t.Skip("neither cpio nor busybox is installed (packages cpio, busybox-static)")
		}
	}
	g := guest{"/init": {0o755, []byte("one")}, "/a/b/c file": {0o640, nil}, "/a/d": {0o644, []byte("12345")}}
	b := g.archive()
	if !bytes.Equal(b, g.archive()) {
		t.Error("two archives of a tree differ")
	}
	dir := t.TempDir()
	c := exec.Command(cpio[0], append(cpio[1:], "-i", "-d")...)
	c.Stdin, c.Dir = bytes.NewReader(b), dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := host.At(dir)
	for name, f := range g {
		got, err := h.ReadFile(name)
		if err != nil || !bytes.Equal(got, f.data) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if fi, err := h.Stat(name); err != nil || fi.Mode() != f.mode {
			t.Errorf("%s: %v, want mode %v", name, fi.Mode(), f.mode)
		}
	}
}

// TestAddProgram adds sh, runs it with nothing else below its root, and checks the errors for
// missing parts.
func TestAddProgram(t *testing.T) {
	real := host.Local()
	sh, err := real.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	g := guest{"/work/script": {0o755, []byte("#! " + sh + " -e\necho hello\n")}}
	if err := g.addProgram(real, "/work/script"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bare := host.At(dir)
	for name, f := range g {
		if err := bare.Install(name, f.data, f.mode); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("chroot", dir, "/work/script").CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("in the tree alone: %v: %s (needs root)", err, out)
	}

	for name := range g {
		if strings.Contains(name, "libc.so") {
			if err := bare.RemoveAll(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := (guest{}).addProgram(bare, sh); err == nil || !strings.Contains(err.Error(), "libc.so") {
		t.Errorf("without libc: %v", err)
	}
	if err := (guest{}).addProgram(bare, "/absent"); err == nil {
		t.Error("a program that is not there was taken")
	}
	for _, broken := range []string{"", "#!", "\x7fELF", "\x7fELF\x02\x01\x01" + strings.Repeat("\xff", 60)} {
		_ = (guest{"/x": {0o755, []byte(broken)}}).addProgram(bare, "/x") // no panic
	}
}

func TestModules(t *testing.T) {
	if _, err := modulesOf("/srv/bzImage"); err == nil {
		t.Error("a name that says no release")
	}
	folder, err := modulesOf("/srv/deb/boot/vmlinuz-6.1.0-1-cloud")
	if err != nil || folder != "/srv/deb/lib/modules/6.1.0-1-cloud" {
		t.Errorf("modules in %s, %v", folder, err)
	}
	h := host.At(t.TempDir())
	if err := (guest{}).addModules(h, folder, "virtio_blk"); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("no modules: %v", err)
	}
	if err := h.Install(folder+"/modules.builtin", []byte("kernel/fs/ext4/ext4.ko\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g := guest{}
	if err := g.addModules(h, folder, "ext4"); err != nil || len(g["/modules/list"].data) != 0 {
		t.Errorf("a module that is built in: %v, %v", err, g)
	}
	if err := g.addModules(h, folder, "virtio_blk"); err == nil || !strings.Contains(err.Error(), "virtio_blk.ko") {
		t.Errorf("a module that is not there: %v", err)
	}
	for _, where := range []string{"fs/one", "arch/x86/kernel/two", "drivers/net/ethernet/vendor/three/three"} {
		t.Run(where, func(t *testing.T) {
			if err := h.Install(folder+"/kernel/"+where+".ko", []byte(where), 0o644); err != nil {
				t.Fatal(err)
			}
			name := path.Base(where)
			if err := g.addModules(h, folder, name); err != nil || string(g["/modules/"+name+".ko"].data) != where {
				t.Errorf("%s: %v, %q", where, err, g["/modules/"+name+".ko"].data)
			}
		})
	}
	for end, command := range expanders {
		t.Run(command, func(t *testing.T) {
			if _, err := exec.LookPath(command); err != nil {
				t.Skipf("no %s here", command)
			}
			name, want := "m"+command, []byte("what the module is "+command)
			pack := exec.CommandContext(t.Context(), command, "-c")
			pack.Stdin = bytes.NewReader(want)
			packed, err := pack.Output()
			if err != nil {
				t.Fatal(err)
			}
			file := folder + "/kernel/drivers/block/" + name + ".ko" + end
			if err := h.Install(file, packed, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := g.addModules(h, folder, name); err != nil || !bytes.Equal(g["/modules/"+name+".ko"].data, want) {
				t.Errorf("%v, %q", err, g["/modules/"+name+".ko"].data)
			}
			if err := h.Install(file, packed[:len(packed)/2], 0o644); err != nil {
				t.Fatal(err)
			}
			if err := g.addModules(h, folder, name); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "expand") {
				t.Errorf("half of it: %v", err)
			}
		})
	}
}

func TestNewestKernel(t *testing.T) {
	names := []string{"/boot/vmlinuz-6.12.1-amd64", "/boot/vmlinuz-6.9.0", "/boot/vmlinuz-6.12.0-rc1", "/boot/vmlinuz-5.10.0-30"}
	if got := slices.MaxFunc(names, byRelease); got != names[0] {
		t.Errorf("newest %s", got)
	}
}

func TestLastLines(t *testing.T) {
	for console, want := range map[string]string{
		"":                          "",
		"a\r\nb\r\n":                "a | b",
		"1\n2\n3\n4\n5\n6\n7\n8\n9": "2 | 3 | 4 | 5 | 6 | 7 | 8 | 9",
		"x\n[1] Kernel panic - not syncing: y\n[1] CPU: 0\n": "x | [1] Kernel panic - not syncing: y",
	} {
		t.Run(console, func(t *testing.T) {
			if got := lastLines(console); got != want {
				t.Errorf("%q: %q, want %q", console, got, want)
			}
		})
	}
}

func TestBadQEMUParams(t *testing.T) {
	for _, given := range []bench.Params{
		{"cpus": "0"}, {"memory": "much"}, {"disk": "big"}, {"cvm": "snp", "accel": "tcg"}, {"append": "quiet -- -x"}, {"kernel": "/absent/bzImage", "disk": "1GiB"},
	} {
		p, err := bench.Complete("launcher qemu", qemu.Params, given)
		if err != nil {
			t.Fatal(err)
		}
		if err := qemu.Check(host.Local(), p); err == nil {
			t.Errorf("%v is taken", given)
		}
		if env, err := qemu.Open(t.Context(), host.Local(), p); err == nil || env != nil {
			t.Errorf("%v is opened", given)
		}
	}
}
