package environment

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/result"
	"github.com/teescope/teescope/internal/tee"
)

// disks lists block devices with a size, except those that are only views of memory or of files. /sys/block has no
// partitions.
func (s *scene) disks() {
	roles, err := machine.ReadBlockRoles(s.Host, nil)
	if err != nil {
		s.miss("hardware.disks", "%s", err)
	}
	sizes, _ := s.Glob("/sys/block/*/size")
	for _, f := range sizes {
		dir := path.Dir(f)
		d := result.Disk{Name: metric.Label(path.Base(dir))}
		sectors, err := s.ReadUint(f)
		if err != nil || sectors == 0 || sectors >= 1<<53 || roles.View(s.optional(dir+"/dev")) {
			continue
		}
		at := "hardware.disks." + d.Name + "."
		d.Bytes = int64(sectors) * 512 // whatever the device's own sector is
		d.Model = s.text(at+"model", dir+"/device/model")
		d.Rotational = s.text(at+"rotational", dir+"/queue/rotational") == "1"
		d.Scheduler = chosen(s.text(at+"scheduler", dir+"/queue/scheduler"))
		d.WriteCache = s.text(at+"write_cache", dir+"/queue/write_cache")
		s.Hardware.Disks = append(s.Hardware.Disks, d)
		// "CRYPT-LUKS2-...": the device mapper names what stacked the device.
		if rest, ok := strings.CutPrefix(s.optional(dir+"/dm/uuid"), "CRYPT-"); ok {
			kind, _, _ := strings.Cut(rest, "-")
			s.encrypted("storage", "dm-crypt "+kind+" "+d.Name)
		}
	}
	if len(s.Hardware.Disks) == 0 {
		s.miss("hardware.disks", "/sys/block lists no disk")
	}
}

func hasPrefix(v string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(v, p) })
}

func (s *scene) encrypted(layer, how string) {
	if s.Software.Encryption == nil {
		s.Software.Encryption = map[string]string{}
	}
	if was := s.Software.Encryption[layer]; was != "" {
		how = was + ", " + how
	}
	s.Software.Encryption[layer] = how
}

// nics lists network interfaces with a device. Bridges and the host's ends of containers' links come and go; they are
// listed only if there is nothing else, as inside a container.
func (s *scene) nics() {
	files, _ := s.Glob("/sys/class/net/*/mtu")
	var virtual []result.NIC
	dirs := map[string]string{} // by name
	for _, f := range files {
		dir := path.Dir(f)
		n := result.NIC{Name: metric.Label(path.Base(dir))}
		if n.Name == "lo" {
			continue
		}
		dirs[n.Name] = dir
		if strings.Contains("\n"+s.optional(dir+"/uevent"), "\nDEVTYPE=wireguard") {
			s.encrypted("network", "wireguard "+n.Name)
		}
		if mtu, err := s.ReadUint(f); err == nil && mtu < 1<<31 {
			n.MTU = int(mtu)
		}
		link, err := s.Readlink(dir + "/device/driver")
		if err != nil {
			n.Driver = "virtual"
			virtual = append(virtual, n)
			continue
		}
		n.Driver = path.Base(link)
		s.Hardware.NICs = append(s.Hardware.NICs, n)
	}
	if len(s.Hardware.NICs) == 0 {
		s.Hardware.NICs = virtual
	}
	for i := range s.Hardware.NICs {
		n := &s.Hardware.NICs[i]
		at := "hardware.nics." + n.Name + "."
		if n.MTU == 0 {
			s.miss(at+"mtu", "the kernel does not say")
		}
		v, err := s.ReadString(dirs[n.Name] + "/speed")
		mbit, perr := strconv.ParseInt(v, 10, 32)
		switch {
		case err == nil && perr == nil && mbit > 0:
			bits := float64(mbit) * 1e6
			n.BitsPerSecond = &bits
		case errors.Is(err, fs.ErrNotExist):
			s.miss(at+"bits_per_second", "%s", reason(err))
		default: // -1, or EINVAL
			s.miss(at+"bits_per_second", "the driver does not say, or the link is down")
		}
	}
	if len(s.Hardware.NICs) == 0 {
		s.miss("hardware.nics", "/sys/class/net lists no interface but the loopback")
	}
}

var nvrm = regexp.MustCompile(`\b\d+\.\d+(\.\d+)*\b`)

// gpus lists compute and graphics cards: NVIDIA's from its driver's files, others from
// their PCI class. Emulated and management displays are not GPUs.
func (s *scene) gpus() {
	// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build ..."
	driver := nvrm.FindString(s.optional("/proc/driver/nvidia/version"))
	files, _ := s.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, f := range files {
		g := result.GPU{Model: field(s.Host, f, "Model"), Driver: driver}
		s.miss("hardware.gpus."+strconv.Itoa(len(s.Hardware.GPUs))+".confidential_compute", "only nvidia-smi says")
		s.Hardware.GPUs = append(s.Hardware.GPUs, g)
	}
	nvidia := len(files) > 0
	classes, _ := s.Glob("/sys/bus/pci/devices/*/class")
	for _, f := range classes {
		dir := path.Dir(f)
		class, vendor := s.optional(f), s.optional(dir+"/vendor")
		// Base class 03 is display, subclass 02 a 3D controller; 12 is a processing
		// accelerator (PCI Code and ID Assignment Specification).
		compute := hasPrefix(class, "0x0302", "0x0380", "0x12")
		display := hasPrefix(class, "0x0300") && slices.Contains([]string{"0x1002", "0x10de", "0x8086"}, vendor)
		if !compute && !display || nvidia && vendor == "0x10de" {
			continue
		}
		g := result.GPU{Model: "PCI " + strings.TrimPrefix(vendor, "0x") + ":" + strings.TrimPrefix(s.optional(dir+"/device"), "0x")}
		if link, err := s.Readlink(dir + "/driver"); err == nil {
			g.Driver = path.Base(link)
		}
		s.Hardware.GPUs = append(s.Hardware.GPUs, g)
	}
	if len(files) == 0 && len(classes) == 0 {
		s.miss("hardware.gpus", "neither NVIDIA's driver nor a PCI bus is there")
	}
}

// GPUs parses the output of "nvidia-smi -q -x" and, if available, that of "nvidia-smi conf-compute -f", which alone
// names the mode of confidential computing. Without it the mode is "on" if protected memory is set aside, which
// requires it, and empty otherwise.
func GPUs(smi, confCompute []byte) ([]result.GPU, error) {
	log, err := tee.ParseNVIDIA(smi)
	if err != nil {
		return nil, err
	}
	mode := tee.ParseConfCompute(confCompute)
	var out []result.GPU
	for _, g := range log.GPUs {
		out = append(out, result.GPU{Model: g.Name, Driver: log.Driver, CCMode: g.Mode(mode)})
	}
	return out, nil
}
