package sources

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/tee"
)

// The protection of a virtual machine, as in the label type. If the monitor does not
// say, it is unknown, or plain if this host could not start any other.
const (
	vmPlain   = "plain"
	vmTDX     = "tdx"
	vmSEV     = "sev"
	vmSEVES   = "sev-es"
	vmSEVSNP  = "sev-snp"
	vmUnknown = "unknown"
)

// virtualMachine is a process that runs a virtual machine, from its command line.
type virtualMachine struct {
	pid   int
	start uint64 // field 22 of /proc/PID/stat
	// id is the same on this host and wherever the machine's series are joined: its
	// UUID, otherwise its name, otherwise the process id.
	id, uuid, name, kind, monitor string
	// sockets speak QMP.
	sockets []string
}

// virtualMachines remembers processes.
type virtualMachines struct {
	host  *host.Host
	known map[int]*virtualMachine
	// confidential: the host can start protected machines.
	confidential bool
}

func newVirtualMachines(h *host.Host, facts []tee.Facts) *virtualMachines {
	return &virtualMachines{host: h, known: map[int]*virtualMachine{}, confidential: slices.ContainsFunc(facts, func(f tee.Facts) bool {
		return f.Role == tee.Host && f.Active && (f.Kind == "tdx-host" || f.Kind == "sev-host")
	})}
}

// of describes the machine that a process runs, or reports that there is no such
// process. A process's command line does not change, so it is read once. With an error it returns the machine where
// only its start is not known.
func (v *virtualMachines) of(pid int) (*virtualMachine, error) {
	start, unclear := startTime(v.host, pid)
	if unclear != nil {
		delete(v.known, pid)
		if gone(unclear) {
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
	if m.kind == vmUnknown && !v.confidential {
		m.kind = vmPlain
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

// parseMonitor reads the command line of a virtual machine monitor: QEMU's -uuid,
// -name, -object and -qmp (qemu(1)), Cloud Hypervisor's --platform, Firecracker's --id.
// Other monitors' options are unknown.
func parseMonitor(argv []string) *virtualMachine {
	m := &virtualMachine{kind: vmUnknown}
	if len(argv) > 0 {
		m.monitor = path.Base(argv[0])
	}
	qemu := strings.HasPrefix(m.monitor, "qemu") || m.monitor == "kvm"
	if qemu || strings.HasPrefix(m.monitor, "firecracker") {
		m.kind = vmPlain // unless an option says otherwise
	}
	sockets, monitors := map[string]string{}, []string{}
	for i := 1; i < len(argv); i++ {
		flag, val, ok := strings.Cut(argv[i], "=")
		if ok && strings.HasPrefix(flag, "--") {
			flag = strings.TrimPrefix(flag, "-")
		} else if flag, val = argv[i], ""; i+1 < len(argv) {
			flag, val = strings.Replace(flag, "--", "-", 1), argv[i+1]
		}
		first, options := parseOptions(val)
		switch flag {
		case "-uuid":
			m.uuid = cmp.Or(tidyUUID(val), m.uuid)
		case "-smbios":
			m.uuid = cmp.Or(m.uuid, tidyUUID(options["uuid"]))
		case "-name", "-id":
			m.name = cmp.Or(options["guest"], first)
		case "-object":
			m.protect(cmp.Or(options["qom-type"], first), options)
		case "-platform":
			m.uuid = cmp.Or(m.uuid, tidyUUID(options["uuid"]))
			switch {
			case options["tdx"] == "on":
				m.kind = vmTDX
			case options["sev_snp"] == "on":
				m.kind = vmSEVSNP
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
	}
	for _, id := range monitors {
		if p := sockets[id]; p != "" {
			m.sockets = append(m.sockets, p)
		}
	}
	return m
}

// protect notes the object of QEMU that protects a machine (docs/system/confidential-guest-support.rst).
func (m *virtualMachine) protect(object string, options map[string]string) {
	switch object {
	case "tdx-guest":
		m.kind = vmTDX
	case "sev-snp-guest":
		m.kind = vmSEVSNP
	case "sev-guest":
		m.kind = vmSEV
		// Bit 2 of the policy: the guest needs SEV-ES (AMD SEV API specification, chapter 3).
		if policy, err := strconv.ParseUint(options["policy"], 0, 32); err == nil && policy&4 != 0 {
			m.kind = vmSEVES
		}
	}
}

// parseOptions takes "first,key=value,..." apart, or the JSON object that libvirt
// writes instead. A comma in a value is doubled, which no value read here has.
func parseOptions(s string) (first string, options map[string]string) {
	options = map[string]string{}
	if strings.HasPrefix(s, "{") {
		var object map[string]any
		if json.Unmarshal([]byte(s), &object) == nil {
			for k, v := range object {
				if f, ok := v.(float64); ok {
					v = strconv.FormatFloat(f, 'f', -1, 64)
				}
				options[k] = fmt.Sprint(v)
			}
		}
		return "", options
	}
	for i, part := range strings.Split(s, ",") {
		key, val, ok := strings.Cut(part, "=")
		if ok {
			options[key] = val
		}
		if i == 0 && !ok {
			first = part
		}
	}
	return first, options
}

// gone reports whether an error says that a process has ended.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
