package sources

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
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
	if _, err := parseFortanixStats(b); err != nil {
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
	if err != nil {
		return err
	}
	for i, c := range fortanixCells {
		out.send(c.desc, float64(stats[i])*c.scale)
	}
	if created, removed := stats[0], stats[1]; created >= removed {
		out.send(sgxEnclaves, float64(created-removed))
	}
	b, err = h.ReadFile(fortanixEnclaves)
	if errors.Is(err, fs.ErrPermission) {
		return &probe.Problem{Err: err, Remedy: "run as root"}
	}
	if err != nil {
		return err
	}
	found, err := parseFortanixProcesses(b)
	for i := range found {
		found[i].process = commOf(h, found[i].process)
	}
	emitSGXProcesses(out, found, true)
	return err
}

// parseFortanixStats reads one line of exactly 8 numbers: enclaves created and
// released, pages added, loaded back and evicted, EPC pages, VA pages and free pages. A
// fork writes 7, whose meaning is unknown.
func parseFortanixStats(b []byte) (out [8]uint64, err error) {
	fields := strings.Fields(string(b))
	if len(fields) != len(out) {
		return out, fmt.Errorf("parse %s: %d numbers, want %d", fortanixStats, len(fields), len(out))
	}
	for i, f := range fields {
		if out[i], err = strconv.ParseUint(f, 10, 64); err != nil {
			return out, fmt.Errorf("parse %s: %w", fortanixStats, err)
		}
	}
	return out, nil
}

// maxFortanix bounds the enclaves read.
const maxFortanix = 4096

// parseFortanixProcesses reads a line for each enclave: process id, enclave id, size in
// bytes, pages added, pages resident; forks append columns. It returns the process id
// instead of the name, and with an error the lines parsed so far.
func parseFortanixProcesses(b []byte) (out []sgxProcess, err error) {
	for line := range bytes.Lines(b) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 {
			continue
		}
		if len(out) == maxFortanix {
			return out, cmp.Or(err, fmt.Errorf("read %s: more than %d enclaves", fortanixEnclaves, maxFortanix))
		}
		bad := fmt.Errorf("parse %s: %.80q is no enclave", fortanixEnclaves, line)
		if len(fields) < 5 {
			err = cmp.Or(err, bad)
			continue
		}
		pid, perr := strconv.ParseUint(fields[0], 10, 31)
		size, serr := strconv.ParseUint(fields[2], 10, 64)
		resident, rerr := strconv.ParseUint(fields[4], 10, 52)
		if cmp.Or(perr, serr, rerr) != nil {
			err = cmp.Or(err, bad)
			continue
		}
		out = append(out, sgxProcess{process: strconv.FormatUint(pid, 10), number: 1, bytes: size, resident: resident * epcPage})
	}
	return out, err
}
