package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
)

// Statistics of Fortanix's fork of the out-of-tree driver, shown by the program sgxtop
// (github.com/fortanix/sgxtop).
const (
	fortanixStats    = "/proc/sgx_stats"
	fortanixEnclaves = "/proc/sgx_enclaves"
)

var (
	processResident = gauge("tee_sgx_process_epc_resident_bytes", "EPC held by enclaves in bytes, by process name, from the Fortanix driver's /proc/sgx_enclaves.", "process")
	versionArrays   = gauge("tee_sgx_epc_version_array_bytes", "EPC used for the versions of evicted pages (VA pages) in bytes, from the Fortanix driver's /proc/sgx_stats.")
)

// fortanixMetrics are those missing from legacyParams.
var fortanixMetrics = []*metric.Desc{enclavesCreated, enclavesRemoved, versionArrays, enclaveVirtual, processEnclaves, processMapped, processResident}

// fortanixCells are the numbers of /proc/sgx_stats, in order.
var fortanixCells = [8]struct {
	desc  *metric.Desc
	scale float64
}{
	{enclavesCreated, 1},
	{enclavesRemoved, 1},
	{pagesAdded, 1},
	{pagesLoadedBack, 1},
	{pagesEvicted, 1},
	{epcBytes, epcPage},
	{versionArrays, epcPage},
	{epcFree, epcPage},
}

// openFortanix refuses statistics of another format at once.
func openFortanix(h *host.Host) (probe.Reader, error) {
	b, err := h.ReadFile(fortanixStats)
	if err != nil {
		return nil, err
	}
	if stats, err := parseFortanixStats(b); err != nil && math.IsNaN(stats[0]) && math.IsNaN(stats[len(stats)-1]) {
		return nil, &probe.Problem{Err: err, Remedy: "use Fortanix's own driver: a fork writes other numbers into this file"}
	}
	return reading(func(_ context.Context, out emitter) error { return readFortanix(h, out) }), nil
}

func readFortanix(h *host.Host, out emitter) error {
	b, err := h.ReadFile(fortanixStats)
	if err != nil {
		return err
	}
	stats, err := parseFortanixStats(b)
	for i, c := range fortanixCells {
		out.send(c.desc, stats[i]*c.scale)
	}
	switch created, removed := stats[0], stats[1]; {
	case created >= removed:
		out.send(sgxEnclaves, created-removed)
	case created < removed: // neither is unknown
		err = cmp.Or(err, fmt.Errorf("parse %s: %.0f enclaves removed of %.0f created", fortanixStats, removed, created))
	}
	b, eerr := h.ReadFile(fortanixEnclaves)
	if errors.Is(eerr, fs.ErrPermission) {
		eerr = &probe.Problem{Err: eerr, Remedy: "run as root"}
	}
	if eerr != nil {
		return cmp.Or(err, eerr)
	}
	found, eerr := parseFortanixProcesses(b)
	for i := range found {
		if found[i].process != "" {
			found[i].process = commOf(h, found[i].process)
		}
	}
	emitSGXProcesses(out, found, true)
	return cmp.Or(err, eerr)
}

// parseFortanixStats reads one line of exactly 8 numbers: enclaves created and
// released, pages added, loaded back and evicted, EPC pages, VA pages and free pages. A
// fork writes 7, whose meaning is unknown. With the error, which lists them, bad numbers are unknown.
func parseFortanixStats(b []byte) (out [8]float64, err error) {
	for i := range out {
		out[i] = unknown
	}
	fields := strings.Fields(string(b))
	if len(fields) != len(out) {
		return out, fmt.Errorf("parse %s: %d numbers, want %d", fortanixStats, len(fields), len(out))
	}
	var bad machine.Faults
	for i, f := range fields {
		n, err := machine.ParseCount(f)
		if err != nil {
			bad.Add(fmt.Errorf("parse %s: %w", fortanixStats, err))
			continue
		}
		out[i] = float64(n)
	}
	return out, bad.Err()
}

// maxFortanix bounds the enclaves read.
const maxFortanix = 4096

// parseFortanixProcesses reads a line for each enclave: process id, enclave id, size in
// bytes, pages added, pages resident; forks append columns. It returns the process id
// instead of the name, "" where it is not known. The error lists the lines that are no enclave; they stand for unknown
// ones.
func parseFortanixProcesses(b []byte) ([]sgxProcess, error) {
	t := machine.Text{File: fortanixEnclaves}
	var out []sgxProcess
	if len(b) == 0 {
		return nil, nil
	}
	for line := range t.Lines(b) {
		fields := append(strings.Fields(line), slices.Repeat([]string{""}, 5)...)
		if len(out) == maxFortanix {
			t.Bad("it is after those of %d enclaves", maxFortanix)
			break
		}
		pid, perr := strconv.ParseUint(fields[0], 10, 31)
		size, serr := machine.ParseCount(fields[2])
		resident, rerr := machine.ParseCount(fields[4])
		e := sgxProcess{number: 1, bytes: float64(size), resident: float64(resident) * epcPage}
		if serr != nil {
			e.bytes = unknown
		}
		if rerr != nil {
			e.resident = unknown
		}
		if perr != nil || serr != nil || rerr != nil {
			t.Bad("%.60q is not an enclave", line)
		}
		if perr == nil {
			e.process = strconv.FormatUint(pid, 10)
		}
		out = append(out, e)
	}
	return out, t.Err()
}
