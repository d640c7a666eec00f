package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/teescope/teescope/internal/host"
)

func TestFaults(t *testing.T) {
	var f Faults
	f.Add(nil)
	if f.Err() != nil {
		t.Error(f.Err())
	}
	f.Add(fs.ErrNotExist)
	if f.Err() != fs.ErrNotExist {
		t.Errorf("one fault is %v", f.Err())
	}
	for i := range 4 {
		f.Add(fmt.Errorf("fault %d", i))
	}
	var all Faults
	all.Add(errors.New("before"))
	all.Add(f.Err())
	if want := "before; file does not exist; fault 0 (and 3 more)"; all.Err().Error() != want || !errors.Is(all.Err(), fs.ErrNotExist) {
		t.Errorf("%q, want %q", all.Err(), want)
	}
}

func TestParseCount(t *testing.T) {
	for cell, want := range map[string]uint64{"0": 0, "9223372036854775807": 1<<63 - 1} {
		t.Run(cell, func(t *testing.T) {
			if got, err := ParseCount(cell); got != want || err != nil {
				t.Errorf("%q: %d, %v", cell, got, err)
			}
		})
	}
	for cell, want := range map[string]string{"-5": "is not a count", "": "is not a count", "0,512": "is not a count", "NaN": "is not a count", "7\xe9": "is not a count",
		"18446744073709551615": "has wrapped", "9223372036854775808": "has wrapped", strings.Repeat("9", 10_000): "has wrapped"} {
		if got, err := ParseCount(cell); got != 0 || err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.40q: %d, %v", cell, got, err)
		}
	}
}

func TestParseMounts(t *testing.T) {
	mounts, err := ParseMounts("mountinfo", []byte("25 22 0:7 / /sys/fs/cgroup rw,nosuid - cgroup2  rw,nsdelegate\n"+
		"30 22 0:30 / /mnt/with\\040space rw shared:1 master:2 - tmpfs a\\134b rw\n31 22 0:31 / /torn rw - tm\n\n32 22 0:32 / - rw - ext4 x rw\n"))
	want := []Mount{{"25", "22", "0:7", "/", "/sys/fs/cgroup", "rw,nosuid", "cgroup2", "", "rw,nsdelegate"}, {"30", "22", "0:30", "/", "/mnt/with space", "rw", "tmpfs", `a\b`, "rw"}}
	if !slices.Equal(mounts, want) {
		t.Errorf("%+v, want %+v", mounts, want)
	}
	if err == nil || !strings.Contains(err.Error(), `line 3 of mountinfo: "31 22 0:31 / /torn rw - tm" is not a mount; parse line 4 of mountinfo: it is empty`) {
		t.Error(err)
	}
}

func TestParseProcess(t *testing.T) {
	const whole = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21"
	if n, err := ParseProcess("stat", whole, 14, 15, 22); !slices.Equal(n, []uint64{11, 12, 19}) || err != nil {
		t.Errorf("%v, %v", n, err)
	}
	for _, bad := range []string{"", "7", "7 (a", "7 (a) 5 1 2", "7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19", strings.Replace(whole, " 19 ", "  ", 1), strings.Replace(whole, " 19 ", " -19 ", 1)} {
		if n, err := ParseProcess("stat", bad, 22); n[0] != 0 || err == nil {
			t.Errorf("%q: %v", bad, n)
		}
	}
}

// TestBlockRoles: what a device is is said by the system; its name counts only where there is no sysfs.
func TestBlockRoles(t *testing.T) {
	devices := []BlockDevice{{Number: "8:0", Name: "sda"}, {Number: "8:1", Name: "sda1"}, {Number: "202:1", Name: "xvda1"}, {Number: "65:160", Name: "sdaa"}, {Number: "65:161", Name: "sdaa1"},
		{Number: "259:0", Name: "nvme0n1"}, {Number: "259:1", Name: "nvme0n1p1"}, {Number: "259:2", Name: "nvme1n1"}, {Number: "7:0", Name: "loop0"}, {Number: "252:0", Name: "odd"}, {Name: "unknown"}}
	roles := func(h *host.Host) (out []string) {
		r, err := ReadBlockRoles(h, devices)
		if err != nil {
			t.Error(err)
		}
		for i := range devices {
			role, err := r.RoleOf(&devices[i])
			if err != nil {
				t.Error(err)
			}
			if role != Disk {
				out = append(out, fmt.Sprintf("%s %d", devices[i].Name, role))
			}
		}
		return out
	}
	h := &host.Host{Root: t.TempDir()}
	if got, want := roles(h), []string{"sda1 1", "sdaa1 1", "nvme0n1p1 1", "loop0 2"}; !slices.Equal(got, want) {
		t.Errorf("without sysfs %q, want %q", got, want)
	}
	for file, text := range map[string]string{"sys/class/block/xvda1/partition": "1\n", "proc/devices": "Character devices:\n  8 zram\n\nBlock devices:\n  8 sd\n252 zram\n"} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(h.Root, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		})
	}
	if got, want := roles(h), []string{"xvda1 1", "loop0 2", "odd 2"}; !slices.Equal(got, want) {
		t.Errorf("with sysfs %q, want %q", got, want)
	}
}

// TestNoDisks: a machine without disks is none that damaged its list of them; of what every machine has, a list without lines is.
func TestNoDisks(t *testing.T) {
	if disks, err := ParseDiskstats(nil); err != nil || len(disks) != 0 {
		t.Errorf("%v, %v", disks, err)
	}
	if _, err := ParseMounts("mountinfo", nil); err == nil || !strings.Contains(err.Error(), "it is empty") {
		t.Errorf("no mounts: %v", err)
	}
}
