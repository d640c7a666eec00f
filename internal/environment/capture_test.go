package environment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/mutate"
)

const small = `Linux version 6.12 (a kernel's console)
capture 1
cpuid 0 0 10 68747541 444d4163 69746e65
msr 0 c0010131 7
fact affinity 0-1
fact libc
file /proc/cpuinfo processor\t: 0\nname: a \\ b\x00\xff\n
file /proc/cpuinfo the second match of the same path
part /proc/a\x20b long
link /sys/class/net/eth0/device/driver ../../../../bus/pci/drivers/mlx5_core
dir /sys/module/isgx/
node /dev/sgx_enclave
file /proc/empty 
error /sys/kernel/debug/swiotlb 13 Permission denied
error /sys/kernel/debug/swiotlb/io_tlb_nslabs 13 Permission denied
end 13
Reboot
`

func TestParse(t *testing.T) {
	for _, text := range []string{small, strings.ReplaceAll(small, "\n", "\r\n")} { // a serial console's line ends
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if c.CPUID[[2]uint32{}] != [4]uint32{0x10, 0x68747541, 0x444d4163, 0x69746e65} || c.MSR[0xc0010131] != 7 {
			t.Errorf("CPUID %v, MSR %v", c.CPUID, c.MSR)
		}
		if !reflect.DeepEqual(c.Facts, map[string]string{"affinity": "0-1", "libc": ""}) {
			t.Errorf("facts %v", c.Facts)
		}
		want := []Entry{
			{Kind: "file", Path: "/proc/cpuinfo", Data: []byte("processor\t: 0\nname: a \\ b\x00\xff\n")},
			{Kind: "part", Path: "/proc/a b", Data: []byte("long")},
			{Kind: "link", Path: "/sys/class/net/eth0/device/driver", Data: []byte("../../../../bus/pci/drivers/mlx5_core")},
			{Kind: "dir", Path: "/sys/module/isgx", Data: []byte{}},
			{Kind: "node", Path: "/dev/sgx_enclave", Data: []byte{}},
			{Kind: "file", Path: "/proc/empty", Data: []byte{}},
			{Kind: "error", Path: "/sys/kernel/debug/swiotlb", Err: syscall.EACCES},
			{Kind: "error", Path: "/sys/kernel/debug/swiotlb/io_tlb_nslabs", Err: syscall.EACCES},
		}
		if !reflect.DeepEqual(c.Entries, want) {
			t.Errorf("entries %q\nwant    %q", c.Entries, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	// Every place where a capture can be cut off.
	end := strings.Index(small, "end 13\n") + len("end 13\n")
	for i := range end {
		if _, err := Parse([]byte(small[:i])); err == nil {
			t.Fatalf("a capture cut off after %q is taken", small[max(0, i-20):i])
		}
	}
	for name, lines := range map[string]string{
		"version":          "capture 2\nend 0",
		"count":            "capture 1\ndir /a\nend 2",
		"count's form":     "capture 1\nend x",
		"kind":             "capture 1\nwhat /a\nend 1",
		"relative":         "capture 1\nfile a/b x\nend 1",
		"root":             "capture 1\ndir /\nend 1",
		"our own":          "capture 1\nfile /.teescope-facts x\nend 1",
		"climbing":         "capture 1\nfile ../etc/passwd x\nend 1",
		"NUL":              `capture 1` + "\n" + `file /a\x00 x` + "\nend 1",
		"escape":           `capture 1` + "\n" + `file /a \q` + "\nend 1",
		"cut escape":       `capture 1` + "\n" + `file /a \x4` + "\nend 1",
		"lone backslash":   `capture 1` + "\n" + `file /a \` + "\nend 1",
		"empty link":       "capture 1\nlink /a\nend 1",
		"errno":            "capture 1\nerror /a EACCES\nend 1",
		"errno 0":          "capture 1\nerror /a 0 Success\nend 1",
		"cpuid":            "capture 1\ncpuid 0 0 1 2 3\nend 1",
		"cpuid's form":     "capture 1\ncpuid 0 0 1 2 3 z\nend 1",
		"msr":              "capture 1\nmsr 0 1\nend 1",
		"nomsr":            "capture 1\nnomsr 0\nend 1",
		"fact":             `capture 1` + "\n" + `fact a \xff` + "\nend 1",
		"below a link":     "capture 1\nlink /a ../../etc\nfile /a/passwd x\nend 2",
		"far below a link": "capture 1\nfile /a/b/c/d x\nlink /a /\nend 2",
		"below a file":     "capture 1\nfile /a x\ndir /a/b\nend 2",
	} {
		t.Run(name, func(t *testing.T) {
			if c, err := Parse([]byte(lines + "\n")); err == nil {
				t.Errorf("%s: taken as %+v", name, c)
			}
		})
	}
}

// TestDamagedCapture: a damaged capture is refused with a reason, or nothing of it is outside of its folder.
func TestDamagedCapture(t *testing.T) {
	mutate.Try(t, "capture", []byte(small), " /\\\\", func(m mutate.Mutation) error {
		c, err := Parse(m.Data)
		if err != nil {
			return nil
		}
		for _, e := range c.Entries {
			if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path {
				return fmt.Errorf("entry %q", e.Path)
			}
		}
		return nil
	})
}

func unpack(t *testing.T, capture []byte) *host.Host {
	t.Helper()
	u, remove, err := Unpack(host.Local(), capture)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(u.Root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind: %v", u.Root, err)
		}
	})
	return u
}

func TestUnpack(t *testing.T) {
	u := unpack(t, []byte(small))
	if s, err := u.ReadFile("/proc/cpuinfo"); err != nil || string(s) != "processor\t: 0\nname: a \\ b\x00\xff\n" {
		t.Errorf("cpuinfo %q, %v", s, err)
	}
	if s, err := u.Readlink("/sys/class/net/eth0/device/driver"); err != nil || path.Base(s) != "mlx5_core" {
		t.Errorf("driver %q, %v", s, err)
	}
	for name, want := range map[string]bool{"/dev/sgx_enclave": true, "/sys/module/isgx": true, "/dev/isgx": false} {
		t.Run(name, func(t *testing.T) {
			if ok, err := u.Exists(name); ok != want || err != nil {
				t.Errorf("%s exists: %t, %v", name, ok, err)
			}
		})
	}
	// An unreadable file keeps its reason: neither present nor absent.
	if _, err := u.ReadFile("/sys/kernel/debug/swiotlb/io_tlb_nslabs"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a forbidden file: %v", err)
	}
	if _, err := u.ReadDir("/sys/kernel/debug/swiotlb"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a forbidden folder: %v", err)
	}
	if _, err := u.Exists("/sys/kernel/debug/swiotlb"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a forbidden folder exists: %v", err)
	}
	if v, err := u.MSR(0, 0xc0010131); v != 7 || err != nil {
		t.Errorf("MSR %v, %v", v, err)
	}
	if _, err := u.MSR(0, 0x10); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("MSR that was not captured: %v", err)
	}
	if u.IsLocal() {
		t.Error("a capture takes itself for the real machine")
	}
	if _, err := u.Exec(t.Context(), host.Cmd{Argv: []string{"true"}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a command runs on a capture: %v", err)
	}
}

// TestUnpackStaysInside lets links lead out of the folder in every way, and looks for a file next to it.
func TestUnpackStaysInside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 40)
	u := unpack(t, []byte("capture 1\n"+
		"link /a/absolute "+outside+"\n"+
		"link /a/climbing "+up+outside[1:]+"\n"+
		"link /a/inner /deep/er/folder\n"+
		"dir /deep/er/folder\n"+
		"link /a/chained inner/../../../../../../../../../.."+outside+"\n"+
		"link /a/up ..\n"+
		"link /b up/up/../../.."+outside+"\n"+
		"link /a/hostname /etc/hostname\n"+
		"file /etc/hostname mine\n"+
		"end 9\n"))
	for _, name := range []string{"/a/absolute", "/a/climbing", "/a/chained", "/b"} {
		if s, err := u.ReadFile(name); err == nil {
			t.Errorf("%s reads %q", name, s)
		}
	}
	if s, err := u.ReadString("/a/hostname"); s != "mine" || err != nil {
		t.Errorf("a link within the capture reads %q, %v", s, err)
	}
}

// FuzzParse feeds damaged captures. Accepted ones must be safe to unpack: absolute clean paths, none below another's
// link, links that stay within the folder.
func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("capture 1\nlink /a ../../etc\nfile /b x\nnomsr 0 10 2 No\nend 3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse(b)
		if err != nil {
			return
		}
		links := map[string]bool{}
		for _, e := range c.Entries {
			if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || strings.ContainsRune(e.Path, 0) {
				t.Fatalf("path %q", e.Path)
			}
			links[e.Path] = e.Kind == kindLink
			if e.Kind != kindLink {
				continue
			}
			depth := strings.Count(path.Dir(e.Path)+"/", "/") - 1
			if path.Dir(e.Path) == "/" {
				depth = 0
			}
			target := rewriteLink(e.Path, string(e.Data))
			if ups := strings.Count("/"+target+"/", "/../"); path.IsAbs(target) || ups > depth {
				t.Fatalf("link %q -> %q becomes %q", e.Path, e.Data, target)
			}
		}
		for _, e := range c.Entries {
			for dir := path.Dir(e.Path); dir != "/" && e.Kind != kindError; dir = path.Dir(dir) {
				if links[dir] {
					t.Fatalf("%q is below the link %q", e.Path, dir)
				}
			}
		}
	})
}
