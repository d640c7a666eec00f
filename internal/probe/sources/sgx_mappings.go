package sources

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

var (
	enclaveVirtual = gauge("tee_sgx_enclave_virtual_bytes",
		"Address space of all enclaves in bytes, not the EPC that they hold; mappings of the SGX device in /proc/PID/maps, or sizes in /proc/sgx_enclaves.")
	processEnclaves = gauge("tee_sgx_process_enclaves",
		"Enclaves by process name; from /proc/PID/maps, where adjacent enclaves of one process look like one, or /proc/sgx_enclaves.", "process")
	processMapped = gauge("tee_sgx_process_enclave_virtual_bytes",
		"Address space of enclaves in bytes by process name, not the EPC that they hold; mappings of the SGX device in /proc/PID/maps, or sizes in /proc/sgx_enclaves.", "process")
)

// sgxMappings searches the mappings of every process, which takes some 20 µs each and
// milliseconds for those with many mappings, so it waits for an enclave.
var sgxMappings = probe.Source{
	Name:    "sgx_mappings",
	Doc:     "Enclaves and their address space by process, from /proc/PID/maps",
	Metrics: []*metric.Desc{enclaveVirtual, processEnclaves, processMapped},
	Waits: &probe.Waits{For: "an enclave runs", Maps: func(files []string) string {
		if i := slices.IndexFunc(files, func(f string) bool { return slices.Contains(enclaveDevices, f) }); i >= 0 {
			return files[i]
		}
		return ""
	}},
	Needs:   []probe.Need{{Capability: "cap_sys_ptrace", For: "to read the mappings of other users' processes"}},
	Kernels: "any with an SGX driver, in-tree (5.11, CONFIG_X86_SGX) or not",
	Cost:    "one read of /proc/PID/maps per process and reading: about 20 µs each, and about 1 µs per mapping",
	Blind:   "how much of the address space is in the EPC; the number of enclaves with adjacent mappings; enclaves of virtual machines",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if ok, err := hasDevice(h, enclaveDevices); err != nil || !ok {
			return nil, cmp.Or(err, probe.NotHere("no SGX driver: no device for enclaves"))
		}
		return reading(func(_ context.Context, out emitter) error {
			found, err := scanSGX(h)
			if found != nil || err == nil {
				emitSGXProcesses(out, found, false)
			}
			return err
		}), nil
	},
}

// enclaveDevices are the devices that enclaves are mapped from: of the in-tree driver,
// of two generations of the DCAP driver, and of isgx.
var enclaveDevices = []string{"/dev/sgx_enclave", "/dev/sgx/enclave", "/dev/sgx", "/dev/isgx"}

func hasDevice(h *host.Host, devices []string) (bool, error) {
	for _, d := range devices {
		if ok, err := h.Exists(d); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// sgxProcess describes the enclaves of a process. What could not be read is unknown.
type sgxProcess struct {
	process                 string
	number, bytes, resident float64
}

// scanSGX finds the enclaves of all processes in their mappings. A process with
// unreadable mappings is an error, because it may have any number.
func scanSGX(h *host.Host) ([]sgxProcess, error) {
	files, err := h.Glob("/proc/[0-9]*/maps")
	if err != nil {
		return nil, err
	}
	var out []sgxProcess
	var bad machine.Faults
	for _, f := range files {
		dir := strings.TrimSuffix(f, "/maps")
		b, err := readMaps(h, dir)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, &probe.Problem{Err: err, Remedy: "grant CAP_SYS_PTRACE"}
		}
		e := unknownEnclaves
		switch {
		case err == nil:
			e, err = parseSGXMappings(f, b)
		case !errors.Is(err, host.ErrTooLong): // any process can have too many mappings, which must not hide those of others
			return nil, err
		}
		bad.Add(err)
		if err != nil || e.number > 0 {
			e.process = commOf(h, filepath.Base(dir))
			out = append(out, e)
		}
	}
	return out, bad.Err()
}

// commOf is the name of a process, as reported by the programs in the kernel.
func commOf(h *host.Host, pid string) string {
	b, err := h.ReadFile("/proc/" + pid + "/comm")
	name := strings.TrimSuffix(string(b), "\n")
	if err != nil || name == "" {
		return bpf.Unnamed
	}
	return name
}

// parseSGXMappings finds the enclaves in /proc/PID/maps (proc_pid_maps(5)). Several
// mappings of the device make up one enclave, with holes or anonymous mappings
// between them where it has no pages yet; a file's mapping between two ends it. A bad line may be any of them: then
// nothing is known.
func parseSGXMappings(file string, text []byte) (sgxProcess, error) {
	var e sgxProcess
	t := machine.Text{File: file}
	inside := false
	if len(text) == 0 { // a thread of the kernel
		return e, nil
	}
	for line := range t.Lines(text) {
		fields := strings.Fields(line)
		low, high, ok := strings.Cut(fields[0], "-")
		first, err := strconv.ParseUint(low, 16, 64)
		last, herr := strconv.ParseUint(high, 16, 64)
		if !ok || len(fields) < 5 || last < first || cmp.Or(err, herr) != nil {
			t.Bad("%.60q is not a mapping", line)
			continue
		}
		switch {
		case len(fields) > 5 && slices.Contains(enclaveDevices, fields[5]):
			if !inside {
				e.number++
			}
			inside = true
			e.bytes += float64(last - first)
		case len(fields) > 5:
			inside = false
		}
	}
	if t.Err() != nil {
		e = unknownEnclaves
	}
	return e, t.Err()
}

var unknownEnclaves = sgxProcess{number: unknown, bytes: unknown, resident: unknown}

// topProcesses bounds the series by process.
const topProcesses = 32

// emitSGXProcesses sums up by process name; beyond the largest, the rest is "other".
// Resident pages are sent if the driver reports them.
func emitSGXProcesses(out emitter, found []sgxProcess, resident bool) {
	by := map[string]*sgxProcess{}
	var all float64
	add := func(process string, e *sgxProcess) {
		if by[process] == nil {
			by[process] = &sgxProcess{process: process}
		}
		sum := by[process]
		sum.number += e.number
		sum.bytes += e.bytes
		sum.resident += e.resident
	}
	for i := range found {
		if all += found[i].bytes; found[i].process != "" {
			add(found[i].process, &found[i])
		}
	}
	out.send(enclaveVirtual, all)
	bySize := func(a, b *sgxProcess) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.process, b.process))
	}
	if list := slices.SortedFunc(maps.Values(by), bySize); len(list) > topProcesses {
		for _, e := range list[topProcesses:] {
			delete(by, e.process)
			add(bpf.Other, e)
		}
	}
	for _, e := range slices.SortedFunc(maps.Values(by), bySize) {
		out.send(processEnclaves, e.number, e.process)
		out.send(processMapped, e.bytes, e.process)
		if resident {
			out.send(processResident, e.resident, e.process)
		}
	}
}
