package sources

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
)

// The protection of a virtual machine, as in the label type. If the monitor does not
// say, or says a word that is not known, it is unknown; it is plain only if the monitor
// says so, or if this host could not start any other.
const (
	vmPlain   = "plain"
	vmTDX     = "tdx"
	vmSEV     = "sev"
	vmSEVES   = "sev-es"
	vmSEVSNP  = "sev-snp"
	vmS390PV  = "s390-pv"
	vmPEF     = "pef"
	vmCCA     = "cca"
	vmPKVM    = "pkvm"
	vmUnknown = "unknown"
)

// guestSupport are the types of QEMU's objects that protect a machine (docs/system/confidential-guest-support.rst), and of
// the patches for Arm CCA.
var guestSupport = map[string]string{"tdx-guest": vmTDX, "sev-snp-guest": vmSEVSNP, "sev-guest": vmSEV, "s390-pv-guest": vmS390PV, "pef-guest": vmPEF, "rme-guest": vmCCA}

// virtualMachine is a process that runs a virtual machine, from its command line.
type virtualMachine struct {
	pid   int
	start uint64 // field 22 of /proc/PID/stat
	// id is the same on this host and wherever the machine's series are joined: its
	// UUID, otherwise its name, otherwise the process id.
	id, uuid, name, kind, monitor string
	// doubt is what the monitor says that is not known; then kind is unknown.
	doubt string
	// sockets speak QMP.
	sockets []string
}

// virtualMachines remembers processes.
type virtualMachines struct {
	host  *host.Host
	known map[int]*virtualMachine
	// plainOnly: the host can start no protected machine.
	plainOnly bool
}

func newVirtualMachines(h *host.Host) *virtualMachines {
	return &virtualMachines{host: h, known: map[int]*virtualMachine{}, plainOnly: plainOnly(h)}
}

// plainOnly reports whether KVM here is known to start no protected machine: its parameters on x86 (tdx since Linux 6.16,
// sev_snp since 6.11) and what s390's ultravisor says.
func plainOnly(h *host.Host) bool {
	off := func(files ...string) bool {
		return !slices.ContainsFunc(files, func(file string) bool {
			on, err := h.ReadSwitch(file)
			return on || err != nil && !errors.Is(err, fs.ErrNotExist)
		})
	}
	there := func(name string) bool { ok, err := h.Exists(name); return ok && err == nil }
	const intel, amd, s390 = "/sys/module/kvm_intel/parameters/", "/sys/module/kvm_amd/parameters/", "/sys/firmware/uv/prot_virt_host"
	_, vendor, _, _ := h.CPUID(0, 0)
	switch x86 := vendor != 0; {
	case x86 && there("/sys"):
		return off(intel+"tdx", amd+"sev", amd+"sev_es", amd+"sev_snp")
	case !x86 && there(s390):
		return off(s390)
	}
	return false
}

// describe describes the machine that a process runs, or reports that there is no such
// process. A process's command line does not change, so it is read once. With an error it returns the machine where
// only its start is not known.
func (v *virtualMachines) describe(pid int) (*virtualMachine, error) {
	start, unclear := startTime(v.host, pid)
	if unclear != nil {
		delete(v.known, pid)
		if processGone(unclear) {
			return nil, unclear
		}
	}
	if m := v.known[pid]; m != nil && m.start == start {
		return m, nil
	}
	b, err := v.host.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil, err
	}
	m := parseMonitor(strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"))
	m.pid, m.start = pid, start
	m.id = cmp.Or(m.uuid, m.name, fmt.Sprintf("pid-%d", pid))
	// Proxmox describes a board in a file, which may name a protection elsewhere.
	if m.kind == vmUnknown && v.plainOnly && (m.doubt == "" || strings.HasPrefix(m.doubt, readConfig)) {
		m.kind, m.doubt = vmPlain, ""
	}
	if unclear == nil {
		v.known[pid] = m
	}
	return m, unclear
}

// startTime is when a process started, in ticks since boot.
func startTime(h *host.Host, pid int) (uint64, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := h.ReadString(name)
	if err != nil {
		return 0, err
	}
	n, err := machine.ParseProcess(name, text, 22)
	return n[0], err
}

var uuidShape = regexp.MustCompile(`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`)

// tidyUUID returns a UUID in lower case, or "" for any other text.
func tidyUUID(s string) string {
	if !uuidShape.MatchString(s) {
		return ""
	}
	return strings.ToLower(s)
}

// release is the name of Firecracker's program as released.
var release = regexp.MustCompile(`^firecracker(-v[0-9.]+(-[a-z0-9_]+)?)?$`)

// parseMonitor reads the command line of a virtual machine monitor: QEMU's -uuid,
// -name, -machine, -object and -qmp (qemu(1)), Cloud Hypervisor's --platform, crosvm's --protected-vm,
// Firecracker's --id. Other monitors' options are unknown.
func parseMonitor(argv []string) *virtualMachine {
	m := &virtualMachine{kind: vmUnknown}
	if len(argv) > 0 {
		m.monitor = path.Base(argv[0])
	}
	qemu := strings.HasPrefix(m.monitor, "qemu") || m.monitor == "kvm"
	if qemu || release.MatchString(m.monitor) || m.monitor == "crosvm" {
		m.kind = vmPlain // unless an option says otherwise
	}
	sockets, monitors := map[string]string{}, []string{}
	board, objects := map[string]string{}, map[string]map[string]string{}
	for i := 1; i < len(argv); i++ {
		flag, val, ok := strings.Cut(argv[i], "=")
		if !ok || !strings.HasPrefix(flag, "--") {
			flag, val = argv[i], ""
			if i+1 < len(argv) {
				val = argv[i+1]
			}
		}
		if strings.HasPrefix(flag, "--") {
			flag = flag[1:]
		}
		first, options, err := parseOptions(val)
		switch flag {
		case "-uuid":
			m.uuid = cmp.Or(tidyUUID(val), m.uuid)
		case "-smbios":
			m.uuid = cmp.Or(m.uuid, tidyUUID(options["uuid"]))
		case "-name", "-id":
			m.name = cmp.Or(options["guest"], first)
		case "-machine", "-M":
			maps.Copy(board, options)
			board["type"] = cmp.Or(options["type"], first, board["type"])
		case "-object":
			options["qom-type"] = cmp.Or(options["qom-type"], first)
			objects[options["id"]] = options
			if support := guestSupport[options["qom-type"]]; support != "" {
				m.protect(support, options)
			}
		case "-platform":
			m.uuid = cmp.Or(m.uuid, tidyUUID(options["uuid"]))
			for option, kind := range map[string]string{"tdx": vmTDX, "sev_snp": vmSEVSNP} {
				switch word := options[option]; word {
				case "", "off", "false":
				case "on", "true":
					m.kind = kind
				default:
					m.unknown(option + "=" + word)
				}
			}
		case "-protected-vm", "-protected-vm-with-firmware", "-protected-vm-without-firmware":
			if m.monitor == "crosvm" {
				m.kind = vmPKVM
			}
		case "-qmp":
			if p, ok := strings.CutPrefix(first, "unix:"); ok {
				m.sockets = append(m.sockets, p)
			}
		case "-chardev":
			if options["path"] != "" && first == "socket" {
				sockets[options["id"]] = options["path"]
			}
		case "-mon":
			if options["mode"] == "control" {
				monitors = append(monitors, cmp.Or(options["chardev"], first))
			}
		}
		if m.kind == vmPlain && (flag == readConfig && qemu || flag == "-cfg" && m.monitor == "crosvm") {
			m.unknown(flag + " " + val)
		}
		if err != nil && qemu && (flag == "-object" || flag == "-machine" || flag == "-M") {
			m.unknown(fmt.Sprintf("%s %.40s", flag, val))
		}
	}
	if qemu {
		m.support(board, objects)
	}
	for _, id := range monitors {
		if p := sockets[id]; p != "" {
			m.sockets = append(m.sockets, p)
		}
	}
	return m
}

// readConfig is QEMU's option for a file with further options.
const readConfig = "-readconfig"

// support reads what protects QEMU's machine: the object that its option confidential-guest-support names, in QEMU before 6.0
// memory-encryption.
func (m *virtualMachine) support(board map[string]string, objects map[string]map[string]string) {
	id := cmp.Or(board["confidential-guest-support"], board["memory-encryption"])
	object := objects[id]
	switch kind := guestSupport[object["qom-type"]]; {
	case id == "" && m.kind == vmPlain && (strings.HasPrefix(board["type"], "s390-ccw") || board["type"] == "" && m.monitor == "qemu-system-s390x"):
		m.kind = vmUnknown // a guest there becomes a protected one by itself (docs/system/s390x/protvirt.rst)
	case id == "":
	case object == nil:
		m.unknown("confidential-guest-support=" + id)
	case kind == "":
		m.unknown(object["qom-type"])
	default:
		m.protect(kind, object)
	}
}

// protect notes the protection by an object of QEMU.
func (m *virtualMachine) protect(kind string, options map[string]string) {
	m.kind, m.doubt = kind, ""
	if kind != vmSEV || options["policy"] == "" {
		return
	}
	// Bit 2 of the policy: the guest needs SEV-ES (AMD SEV API specification, chapter 3).
	policy, err := strconv.ParseUint(options["policy"], 0, 32)
	switch {
	case err != nil:
		m.unknown("policy=" + options["policy"])
	case policy&4 != 0:
		m.kind = vmSEVES
	}
}

// unknown notes a word about the protection that is not known.
func (m *virtualMachine) unknown(word string) { m.kind, m.doubt = vmUnknown, word }

// parseOptions takes "first,key=value,..." apart, or the JSON object that libvirt
// writes instead. A comma in a value is doubled (qemu(1)). The error is that of JSON.
func parseOptions(s string) (first string, options map[string]string, err error) {
	options = map[string]string{}
	if strings.HasPrefix(s, "{") {
		var object map[string]any
		err = json.Unmarshal([]byte(s), &object)
		for k, v := range object {
			if f, ok := v.(float64); ok {
				v = strconv.FormatFloat(f, 'f', -1, 64)
			}
			options[k] = fmt.Sprint(v)
		}
		return "", options, err
	}
	const comma = "\x00" // in no argument
	for i, part := range strings.Split(strings.ReplaceAll(s, ",,", comma), ",") {
		key, val, ok := strings.Cut(strings.ReplaceAll(part, comma, ","), "=")
		if ok {
			options[key] = val
		}
		if i == 0 && !ok {
			first = key
		}
	}
	return first, options, nil
}

// processGone reports whether an error says that a process has ended.
func processGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
