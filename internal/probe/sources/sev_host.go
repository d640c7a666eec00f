package sources

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	sevASIDs = gauge("tee_sev_asids",
		"Address space ids of AMD confidential guests, one for each guest: kind sev, or sev_es for SEV-ES and SEV-SNP guests; state total or used. From misc.capacity and misc.current of the cgroup root, on kernels before 6.8 from the cgroups below it.",
		"kind", "state")
	sevEnabled  = gauge("tee_sev_enabled", "Whether KVM starts guests of a kind, 1 or 0, from the parameters sev, sev_es and sev_snp of module kvm_amd.", "kind")
	sevPlatform = gauge("tee_sev_platform_info", "Always 1, with the API version and build of the security processor's SEV firmware and the platform's state: uninitialized, initialized, or working (with guests). From SEV_PLATFORM_STATUS on /dev/sev.", "api", "build", "state")
	sevGuests   = gauge("tee_sev_guests", "Guests that the security processor's SEV firmware knows, excluding SEV-SNP guests. From SEV_PLATFORM_STATUS on /dev/sev.")
	pspFlags    = gauge("tee_psp_flag", "A setting of AMD's security processor, 1 or 0: tsme_status (all memory is encrypted), fused_part (its keys are final), debug_lock_on, anti_rollback_status and others. From sysfs of the device of module ccp.", "device", "flag")
)

// pspAttributes are the attributes of Documentation/ABI/testing/sysfs-driver-ccp that are 0 or
// 1.
var pspAttributes = []string{"tsme_status", "fused_part", "debug_lock_on", "anti_rollback_status", "rpmc_production_enabled", "rpmc_spirom_available", "hsp_tpm_available", "rom_armor_enforced"}

var sevHost = probe.Source{
	Name:    "sev_host",
	Doc:     "The host side of AMD SEV: address space ids, the guests that KVM can start, the security processor",
	Metrics: []*metric.Desc{sevASIDs, sevEnabled, sevPlatform, sevGuests, pspFlags},
	Needs:   []probe.Need{{Capability: "cap_dac_override", For: "to open /dev/sev, which only root may open: firmware version and guests", Optional: true}},
	Kernels: "5.13 with CONFIG_CGROUP_MISC for address space ids; 5.19 and later for the security processor's settings.",
	Cost:    "A dozen small files, and one command to the security processor, which takes about a millisecond.",
	Blind:   "The firmware's view of SEV-SNP guests, because a request for it may initialize the platform, and a reading must not do that. The reverse map table, which has no statistics; tee_vm_rmp_faults_total counts its faults.",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if !slices.ContainsFunc(facts, func(f tee.Facts) bool { return f.Kind == "sev-host" }) {
			return nil, probe.NotHere("not a host of SEV guests")
		}
		return reading(func(_ context.Context, out emitter) error { return readSEVHost(h, out) }), nil
	},
}

func readSEVHost(h *host.Host, out emitter) error {
	active := false
	var problems []error
	for _, kind := range []string{"sev", "sev_es", "sev_snp"} {
		on, err := h.ReadSwitch("/sys/module/kvm_amd/parameters/" + kind)
		switch {
		case err == nil:
			active = active || on
			out.send(sevEnabled, oneIf(on), kind)
		case kind == "sev_snp" && errors.Is(err, fs.ErrNotExist): // since Linux 6.11
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, &probe.Problem{Err: err, Remedy: "modprobe kvm_amd"})
		default:
			problems = append(problems, probe.Denied(err, "run as root"))
		}
	}
	problems = append(problems, readPSP(h, out))
	if active {
		problems = append(problems, readShared(h, out, sevASIDs, "sev", "sev_es"), readPlatform(h, out))
	}
	return errors.Join(problems...)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// readShared emits total and use of resources that the misc controller distributes; d has the
// labels kind and state, or for a single resource only state.
func readShared(h *host.Host, out emitter, d *metric.Desc, resources ...string) error {
	m, err := findMisc(h)
	if err != nil {
		return &probe.Problem{Err: fmt.Errorf("count encryption keys: %w", err), Remedy: "mount -t cgroup2 cgroup2 /sys/fs/cgroup, on a kernel with CONFIG_CGROUP_MISC"}
	}
	var bad machine.Faults
	capacity, err := m.file("misc.capacity")
	bad.Add(err)
	used, err := m.usage()
	bad.Add(err)
	for _, r := range resources { // all of them may be of the other kind
		labels := func(state string) []string { return []string{r, state}[2-len(d.Labels):] }
		if total, ok := capacity[r]; ok {
			out.send(d, float64(total), labels("total")...)
		}
		if n, ok := used[r]; ok {
			out.send(d, float64(n), labels("used")...)
		}
	}
	return bad.Err()
}

// readPSP reads the security processor's settings, if this kernel shows them.
func readPSP(h *host.Host, out emitter) error {
	devices, err := h.ReadDir("/sys/bus/pci/drivers/ccp")
	if errors.Is(err, fs.ErrNotExist) {
		return &probe.Problem{Err: errors.New("the security processor has no driver"), Remedy: "modprobe ccp"}
	}
	if err != nil {
		return err
	}
	var bad machine.Faults
	for _, d := range devices {
		if !strings.Contains(d.Name(), ":") { // a PCI address
			continue
		}
		for _, name := range pspAttributes {
			n, err := h.ReadUint(path.Join("/sys/bus/pci/drivers/ccp", d.Name(), name))
			switch {
			case err == nil:
				out.send(pspFlags, float64(n), d.Name(), name)
			case errors.Is(err, fs.ErrNotExist): // not this device's, or an older kernel
			default:
				bad.Add(err)
			}
		}
	}
	return bad.Err()
}

// The interface of include/uapi/linux/psp-sev.h.
const (
	sevIssueCmd       = 0xc0105300 // _IOWR('S', 0, struct sev_issue_cmd), 16 packed bytes
	sevPlatformStatus = 1
)

var sevStates = []string{"uninitialized", "initialized", "working"}

// platformStatus is struct sev_user_data_status, 12 packed bytes.
type platformStatus struct {
	major, minor, state, build uint8
	guests                     uint32
}

func parsePlatformStatus(b []byte) (platformStatus, error) {
	if len(b) < 12 {
		return platformStatus{}, fmt.Errorf("platform status of %d bytes, want 12", len(b))
	}
	return platformStatus{b[0], b[1], b[2], b[7], binary.NativeEndian.Uint32(b[8:])}, nil
}

func readPlatform(h *host.Host, out emitter) error {
	arg, status := make([]byte, 16), make([]byte, 12)
	binary.NativeEndian.PutUint32(arg, sevPlatformStatus)
	if err := h.Ioctl("/dev/sev", sevIssueCmd, arg, host.Ref{At: 4, Data: status}); err != nil {
		remedy := "modprobe ccp, on a kernel with CONFIG_CRYPTO_DEV_SP_PSP"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "run as root, or grant CAP_DAC_OVERRIDE"
		}
		return &probe.Problem{Err: fmt.Errorf("ask the security processor: %w", err), Remedy: remedy}
	}
	s, err := parsePlatformStatus(status)
	if err != nil {
		return err
	}
	state := fmt.Sprintf("unknown_%d", s.state)
	if int(s.state) < len(sevStates) {
		state = sevStates[s.state]
	}
	out.send(sevPlatform, 1, fmt.Sprintf("%d.%d", s.major, s.minor), strconv.Itoa(int(s.build)), state)
	out.send(sevGuests, float64(s.guests))
	return nil
}
