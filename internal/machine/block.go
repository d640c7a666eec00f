package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
)

// DiskColumns are the columns of a device in /proc/diskstats, in order (Documentation/admin-guide/iostats.rst). The first 11
// are always there, the discards since Linux 4.18, the flushes since 5.5.
var DiskColumns = [...]string{"reads", "reads merged", "sectors read", "milliseconds of reads", "writes", "writes merged", "sectors written", "milliseconds of writes",
	"in flight", "milliseconds with I/O", "weighted milliseconds", "discards", "discards merged", "sectors discarded", "milliseconds of discards", "flushes", "milliseconds of flushes"}

// The columns without which it is not known whether a disk was ever used.
const readsDone, writesDone = 0, 4

// BlockDevice is the line of a device in /proc/diskstats. A column that is not Known has a bad cell, or the kernel lacks it.
type BlockDevice struct {
	// Number is how the kernel names the device elsewhere, "8:0"; "" where it has a bad cell.
	Number string
	Name   string
	Cells  [len(DiskColumns)]uint64
	Known  [len(DiskColumns)]bool
}

// ParseDiskstats reads /proc/diskstats. With the error, which lists what is wrong, it returns the rest.
func ParseDiskstats(b []byte) ([]BlockDevice, error) {
	t := Text{File: "/proc/diskstats", MayBeEmpty: true}
	var out []BlockDevice
	seen := map[string]bool{}
	for line := range t.Lines(b) {
		f := strings.Fields(line)
		if n := len(f) - 3; n != 11 && n != 15 && n < 17 { // cut off: the last number may be
			t.Bad("%d numbers after the name, want 11, 15 or 17", n)
			continue
		}
		d := BlockDevice{Name: f[2]}
		if seen[d.Name] {
			t.Bad("%.40q a second time", d.Name)
			continue
		}
		_, major := t.Count(d.Name+" major", f[0])
		_, minor := t.Count(d.Name+" minor", f[1])
		if major && minor {
			d.Number = f[0] + ":" + f[1]
		}
		seen[d.Name] = true
		for i, cell := range f[3:min(len(f), 3+len(DiskColumns))] {
			d.Cells[i], d.Known[i] = t.Count(d.Name+" "+DiskColumns[i], cell)
		}
		out = append(out, d)
	}
	return out, t.Err()
}

// BlockRole is what a block device is, as far as it matters to whoever sums up or lists disks.
type BlockRole int

// The roles. A View shows memory, a file or a floppy as a disk; its I/O is none, or is that of another disk too.
const (
	Disk BlockRole = iota
	Partition
	View
)

// views are the drivers of views, by the names in /proc/devices, and the numbers that they have on every machine, 0 for
// none (Documentation/admin-guide/devices.txt).
var views = map[string]uint64{"ramdisk": 1, "fd": 2, "loop": 7, "zram": 0}

// volumes are the drivers of devices that stand on disks without a link to them in sysfs.
var volumes = []string{"zvol"}

// BlockRoles tells the roles of block devices. The system says them: a partition has a file "partition" in sysfs, a device that
// stands on others has links to them in the folder "slaves", and /proc/devices has the driver of each major number. Names say
// nothing: xvda1 of Xen may be a disk.
type BlockRoles struct {
	host    *host.Host
	views   []uint64 // major numbers
	volumes []uint64
	// idle says of each disk that has counters whether all of them are 0.
	idle map[string]bool
	// listed are the names of all devices where there is no sysfs to ask, else nil.
	listed []string
}

// ReadBlockRoles prepares to tell the roles of these devices. It does so too where it returns an error, as far as it can.
func ReadBlockRoles(h *host.Host, devices []BlockDevice) (*BlockRoles, error) {
	r := &BlockRoles{host: h, idle: map[string]bool{}}
	for i := range devices {
		d := &devices[i]
		used := slices.ContainsFunc(d.Cells[:], func(n uint64) bool { return n > 0 })
		if used || d.Known[readsDone] && d.Known[writesDone] {
			r.idle[d.Name] = !used
		}
	}
	for _, major := range views {
		if major > 0 {
			r.views = append(r.views, major)
		}
	}
	t := Text{File: "/proc/devices"}
	b, err := h.ReadFile(t.File)
	switch {
	case errors.Is(err, fs.ErrNotExist): // gVisor has none
	case err != nil:
		t.Add(err)
	default:
		block := false
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if block = block || strings.HasPrefix(line, "Block devices:"); !block || len(f) != 2 {
				continue
			}
			major, err := ParseCount(f[0])
			if err != nil {
				continue
			}
			if _, view := views[f[1]]; view {
				r.views = append(r.views, major)
			}
			if slices.Contains(volumes, f[1]) {
				r.volumes = append(r.volumes, major)
			}
		}
		if !block {
			t.Add(errors.New("parse /proc/devices: no line Block devices"))
		}
	}
	if there, err := h.Exists("/sys/class/block"); err != nil || !there {
		t.Add(err)
		for _, d := range devices {
			r.listed = append(r.listed, d.Name)
		}
	}
	return r, t.Err()
}

// View reports whether the device of that number, "7:0", is a view.
func (r *BlockRoles) View(number string) bool { return hasMajor(r.views, number) }

func hasMajor(list []uint64, number string) bool {
	major, _, _ := strings.Cut(number, ":")
	return major != "" && slices.ContainsFunc(list, func(n uint64) bool { return strconv.FormatUint(n, 10) == major })
}

// RoleOf is the role of a device.
func (r *BlockRoles) RoleOf(d *BlockDevice) (BlockRole, error) {
	if r.View(d.Number) {
		return View, nil
	}
	if r.listed != nil {
		return r.byName(d.Name), nil
	}
	part, err := r.host.Exists(blockFolder(d.Name) + "/partition")
	if part {
		return Partition, nil
	}
	return Disk, err
}

// blockFolder is a device's folder in sysfs, which has no slash in a name.
func blockFolder(name string) string {
	return "/sys/class/block/" + strings.ReplaceAll(name, "/", "!")
}

// Counted reports whether a sum over disks counts this one, so that each byte counts once. One that stands on other disks does
// not (device mapper, md, bcache, drbd, ZFS). Neither does a path of a multipath NVMe disk, unless that disk shows only zeros,
// as it does before Linux 6.2. Of a path whose disk is not known the error says so.
func (r *BlockRoles) Counted(d *BlockDevice) (bool, error) {
	if hasMajor(r.volumes, d.Number) {
		return false, nil
	}
	if on, err := r.hasSlaves(d.Name); on || err != nil {
		return false, err
	}
	path := nvmePath.FindStringSubmatch(d.Name)
	if path == nil {
		return true, nil
	}
	if r.listed == nil {
		if hidden, err := r.host.ReadString(blockFolder(d.Name) + "/hidden"); hidden != "1" {
			return err == nil, err
		}
	}
	disk := path[1] + path[2]
	idle, known := r.idle[disk]
	if !known {
		return false, fmt.Errorf("parse /proc/diskstats: %s is a path of the disk %s, which has no counters", d.Name, disk)
	}
	return idle, nil
}

// Charged reports whether a sum of what control groups did to disks counts this one. The kernel charges a group for its requests
// to each layer that hands them on, so the lowest counts; one that makes requests of its own (ZFS) is itself the lowest.
func (r *BlockRoles) Charged(d *BlockDevice) (bool, error) {
	on, err := r.hasSlaves(d.Name)
	return err == nil && !on, err
}

// nvmePath is how the kernel names a path (drivers/nvme/host/core.c): nvme0c1n2 is that of controller 1 to nvme0n2.
var nvmePath = regexp.MustCompile(`^(nvme[0-9]+)c[0-9]+(n[0-9]+)$`)

// stacked are names of devices that stand on others, for where there is no sysfs.
var stacked = regexp.MustCompile(`^(dm-|md|bcache|zd|drbd)[0-9]`)

func (r *BlockRoles) hasSlaves(name string) (bool, error) {
	if r.listed != nil {
		return stacked.MatchString(name), nil
	}
	below, err := r.host.ReadDir(blockFolder(name) + "/slaves")
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return len(below) > 0, err
}

// byName finds the disk of a partition among the devices, as the kernel names one (block/partitions/core.c,
// part_create): the disk's name, a "p" if that ends in a digit, and a number. If no such disk exists, it is a whole disk.
func (r *BlockRoles) byName(name string) BlockRole {
	disk := strings.TrimRight(name, "0123456789")
	if disk == name {
		return Disk
	}
	if short, ok := strings.CutSuffix(disk, "p"); ok && short != "" && '0' <= short[len(short)-1] && short[len(short)-1] <= '9' {
		disk = short
	}
	if slices.Contains(r.listed, disk) {
		return Partition
	}
	return Disk
}
