package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

const epcPage = 4096 // bytes, by architecture

// Statistics that only out-of-tree drivers have.
var (
	lowWatermark = gauge("tee_sgx_epc_low_watermark_bytes", "Free EPC in bytes below which the driver starts to reclaim, from the SGX driver.")
	topWatermark = gauge("tee_sgx_epc_high_watermark_bytes", "Free EPC in bytes above which the driver stops reclaiming, from the SGX driver.")
	epcSections  = gauge("tee_sgx_epc_sections", "Sections of the EPC, one or more for each socket, from CPUID leaf 0x12 or the DCAP driver's parameter sgx_nr_epc_sections.")
)

// legacyParams are the read-only parameters that the metrics patch of SCONE and TEEMon
// adds to the out-of-tree drivers, with what the patch's code actually counts, which is
// not always what their names say.
var legacyParams = []struct {
	name, alt string // alt: the name in a variant of the patch
	dcap      bool   // only the DCAP driver has it
	desc      *metric.Desc
	scale     float64
}{
	{name: "sgx_nr_enclaves", desc: sgxEnclaves, scale: 1},
	{name: "sgx_init_enclaves", desc: enclavesInitialized, scale: 1},
	{name: "sgx_nr_total_epc_pages", desc: epcBytes, scale: epcPage},
	{name: "sgx_nr_free_pages", desc: epcFree, scale: epcPage},
	{name: "sgx_nr_low_pages", desc: lowWatermark, scale: epcPage},
	{name: "sgx_nr_high_pages", desc: topWatermark, scale: epcPage},
	{name: "sgx_nr_alloc_pages", desc: pagesAllocated, scale: 1},
	{name: "sgx_nr_added_pages", desc: pagesAdded, scale: 1},
	{name: "sgx_nr_evicted", desc: pagesEvicted, scale: 1},
	{name: "sgx_loaded_back", desc: pagesLoadedBack, scale: 1},
	{name: "sgx_nr_reclaimed", alt: "sgx_nr_reclaim", desc: pagesReclaimed, scale: 1},
	{name: "sgx_nr_marked_old", desc: pagesMarkedOld, scale: 1},
	{name: "sgx_nr_epc_sections", dcap: true, desc: epcSections, scale: 1},
}

var sgxLegacy = probe.Source{
	Name: "sgx_legacy",
	Doc:  "Enclaves and EPC paging, from the parameters of the patched out-of-tree drivers isgx and intel_sgx or the statistics of Fortanix's driver",
	Metrics: append(func() (out []*metric.Desc) {
		for _, p := range legacyParams {
			out = append(out, p.desc)
		}
		return out
	}(), fortanixMetrics...),
	Kernels: "any that the out-of-tree drivers were built for, up to about 5.10",
	Cost:    "a dozen small files per reading",
	Blind:   "which process the pages belong to (Fortanix's driver reports it); wraps of the 32-bit counters, if they happen more often than readings",
	Needs: []probe.Need{
		{Capability: "cap_dac_override", For: "to read the parameters, which only root may read", Optional: true},
	},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		where, err := legacyDriver(h)
		if err != nil {
			return nil, err
		}
		if where == fortanixStats {
			return openFortanix(h)
		}
		r := &legacy{host: h, folder: where, counters: map[string]*wrapping{}}
		return reading(r.read), nil
	},
}

const dcapModule = "/sys/module/intel_sgx"

// legacyDriver names the folder of parameters or the file that carries an
// out-of-tree driver's metrics.
func legacyDriver(h *host.Host) (string, error) {
	fortanix, err := h.Exists(fortanixStats)
	if err != nil {
		return "", err
	}
	for _, module := range []string{"/sys/module/isgx", dcapModule} {
		loaded, err := h.Exists(module)
		if err != nil {
			return "", err
		}
		if !loaded {
			continue
		}
		// Early patches lack the mark, so the parameters themselves count too.
		folder := module + "/parameters"
		marked, err := h.ReadString(folder + "/patch_metrics")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		present, err := h.Exists(folder + "/sgx_nr_total_epc_pages")
		if err != nil {
			return "", err
		}
		switch {
		case marked == "1" || marked == "" && present:
			return folder, nil
		case fortanix:
			return fortanixStats, nil
		}
		return "", &probe.Problem{Err: fmt.Errorf("module %s has no metrics: its driver lacks the metrics patch", path.Base(module)),
			Remedy: "install the driver with SCONE's metrics patch, or use Linux 5.11 or later"}
	}
	if fortanix {
		return fortanixStats, nil
	}
	return "", probe.NotHere("neither module isgx nor intel_sgx is loaded")
}

type legacy struct {
	host     *host.Host
	folder   string
	counters map[string]*wrapping
}

func (l *legacy) read(_ context.Context, out emitter) error {
	var first error
	for _, p := range legacyParams {
		if p.dcap && !strings.HasPrefix(l.folder, dcapModule) {
			continue
		}
		v, err := l.value(p.name)
		if p.alt != "" && errors.Is(err, fs.ErrNotExist) {
			if alt, aerr := l.value(p.alt); aerr == nil {
				v, err = alt, nil
			}
		}
		if err != nil {
			first = cmp.Or(first, probe.Denied(err, "run as root"))
			continue
		}
		total := uint64(v)
		if p.desc.Kind == metric.Counter {
			if l.counters[p.name] == nil {
				l.counters[p.name] = &wrapping{}
			}
			total = l.counters[p.name].add(v)
		}
		out.send(p.desc, float64(total)*p.scale)
	}
	return first
}

func (l *legacy) value(name string) (uint32, error) {
	b, err := l.host.ReadFile(l.folder + "/" + name)
	if err != nil {
		return 0, err
	}
	return parseParam(name, b)
}

// parseParam reads an unsigned int as the kernel's param_get_uint writes it.
func parseParam(name string, b []byte) (uint32, error) {
	v, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("parse module parameter %s: %w", name, err)
	}
	return uint32(v), nil
}

// wrapping makes a 64-bit counter of a 32-bit one that the driver increments
// without a lock.
type wrapping struct {
	last uint32
	base uint64
}

// add adds the next reading. A step from the top quarter of the range into the bottom quarter is
// a wrap. A decrease of less than a sixteenth is a race of two CPUs, one of which stored an old
// value: the counter stands still until the value exceeds it again. Any other decrease is a
// reloaded module, and the counter restarts.
func (w *wrapping) add(v uint32) uint64 {
	const quarter = 1 << 30
	switch {
	case v >= w.last:
	case w.last >= 3*quarter && v < quarter:
		w.base += 1 << 32
	case w.last-v < w.last/16:
		return w.base + uint64(w.last)
	default:
		w.base = 0
	}
	w.last = v
	return w.base + uint64(v)
}
