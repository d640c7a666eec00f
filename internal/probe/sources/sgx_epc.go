package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

// epcBytes and epcSections are shared with the legacy drivers' source; only one of the two is
// open on a machine.
var epcBytes = gauge("tee_sgx_epc_bytes",
	"Size of the Enclave Page Cache in bytes, summed over sockets, from sysfs sgx_total_bytes, CPUID leaf 0x12 or the driver's parameters.")

var (
	nodeEPC      = gauge("tee_sgx_node_epc_bytes", "Size of the Enclave Page Cache of a NUMA node in bytes, from sysfs sgx_total_bytes (Linux 5.17).", "node")
	sectionEPC   = gauge("tee_sgx_section_epc_bytes", "Size of a section of the Enclave Page Cache in bytes, from CPUID leaf 0x12.", "section")
	sgxFeature   = gauge("tee_sgx_feature", "Whether the CPU offers an SGX feature, 1 or 0, from CPUID leaves 7 and 0x12; sgx2 is dynamic memory.", "feature")
	reclaimerCPU = counter("tee_sgx_reclaimer_cpu_seconds_total", "CPU time of the kernel thread ksgxd, which evicts enclave pages, in seconds, from its /proc/PID/stat.")
)

var sgxEPC = probe.Source{
	Name:    "sgx_epc",
	Doc:     "EPC size, SGX features and the reclaimer's CPU time, with or without the in-tree driver",
	Metrics: []*metric.Desc{epcBytes, nodeEPC, sectionEPC, epcSections, sgxFeature, reclaimerCPU},
	Kernels: "any for size and features; 5.11 with CONFIG_X86_SGX for the reclaimer; 5.17 for NUMA nodes",
	Cost:    "a few CPUID instructions and small files per reading",
	Blind:   "paging. Without the sources sgx and sgx_free, paging only shows as CPU time of the reclaimer, minor faults of the process and growth of node_memory_Shmem_bytes, which contains evicted pages",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		_, ebx, _, _ := h.CPUID(7, 0)
		if ebx&(1<<2) == 0 {
			return nil, probe.NotHere("CPUID leaf 7 has no SGX bit")
		}
		if where, err := legacyDriver(h); err == nil {
			return nil, probe.NotHere("%s says more", where)
		}
		r := &epc{host: h}
		return reading(r.read), nil
	},
}

type epc struct {
	host  *host.Host
	ksgxd int // its process, 0 until it is found
}

func (e *epc) read(_ context.Context, out emitter) error {
	var bits uint32
	if last, _, _, _ := e.host.CPUID(0, 0); last >= 0x12 {
		bits, _, _, _ = e.host.CPUID(0x12, 0)
	}
	_, _, ecx, _ := e.host.CPUID(7, 0)
	out.send(sgxFeature, float64(bits&1), "sgx1")
	out.send(sgxFeature, float64(bits>>1&1), "sgx2")
	out.send(sgxFeature, float64(ecx>>30&1), "launch_control")

	size, err := e.size(out)
	if size > 0 {
		out.send(epcBytes, float64(size))
	}
	seconds, rerr := e.reclaimer()
	if rerr == nil {
		out.send(reclaimerCPU, seconds)
	} else if errors.Is(rerr, errors.ErrUnsupported) {
		rerr = nil
	}
	return cmp.Or(err, rerr)
}

// size prefers the driver's size (sysfs, Linux 5.17 and later) to the CPU's, and
// reports a difference between the two. It emits the parts of both.
func (e *epc) size(out emitter) (uint64, error) {
	var have, taken uint64
	var bad machine.Faults
	sections := tee.EPC(e.host)
	for i, n := range sections {
		have += n
		out.send(sectionEPC, float64(n), strconv.Itoa(i))
	}
	if len(sections) > 0 {
		out.send(epcSections, float64(len(sections)))
	}
	const before, after = "/sys/devices/system/node/node", "/x86/sgx_total_bytes"
	files, err := e.host.Glob(before + "[0-9]*" + after)
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		n, err := e.host.ReadUint(f)
		bad.Add(err)
		if err != nil {
			continue
		}
		taken += n
		out.send(nodeEPC, float64(n), strings.TrimSuffix(strings.TrimPrefix(f, before), after))
	}
	switch {
	case bad.Err() != nil:
		return have, bad.Err() // the sum is not known; the CPU's is
	case have == 0 && taken == 0:
		return 0, &probe.Problem{Err: errors.New("CPUID leaf 0x12 lists no EPC"), Remedy: "enable SGX in the firmware setup, or give the VM an EPC section"}
	case taken == 0:
		return have, nil
	case taken < have:
		return taken, fmt.Errorf("sysfs sgx_total_bytes adds up to %d bytes but CPUID leaf 0x12 lists %d", taken, have)
	}
	return taken, nil
}

// reclaimer returns the CPU time of ksgxd, which the in-tree driver starts with its first
// device.
func (e *epc) reclaimer() (float64, error) {
	native, err := e.host.Exists("/dev/sgx_enclave")
	if err != nil {
		return 0, err
	}
	virtual, err := e.host.Exists("/dev/sgx_vepc")
	if err != nil {
		return 0, err
	}
	if !native && !virtual {
		return 0, probe.NotHere("no in-tree driver")
	}
	if e.ksgxd == 0 {
		if e.ksgxd, err = findThread(e.host, "ksgxd"); err != nil {
			return 0, err
		}
	}
	file := fmt.Sprintf("/proc/%d/stat", e.ksgxd)
	text, err := e.host.ReadString(file)
	if err == nil {
		var seconds float64
		if seconds, err = machine.ProcessSeconds(file, text); err == nil {
			return seconds, nil
		}
	}
	e.ksgxd = 0
	return 0, fmt.Errorf("read the CPU time of ksgxd: %w", err)
}

// findThread returns the process id of a kernel thread: a child of kthreadd, process 2, with the
// given name.
func findThread(h *host.Host, name string) (int, error) {
	files, err := h.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		s, err := h.ReadString(f)
		if err != nil {
			continue // it has ended
		}
		if pid, ok := parseThread(s, name); ok {
			return pid, nil
		}
	}
	return 0, &probe.Problem{Err: fmt.Errorf("find kernel thread %s: none in /proc", name), Remedy: "run in the host's PID namespace (hostPID)"}
}

// parseThread reads the process id from "77 (ksgxd) S 2 ..."; ok reports whether the
// line describes a kernel thread with that name.
func parseThread(stat, name string) (pid int, ok bool) {
	head, tail, ok := strings.Cut(stat, " ("+name+") ")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(head)
	fields := strings.Fields(tail)
	return pid, err == nil && pid > 0 && len(fields) > 1 && fields[1] == "2"
}
