package sources

import (
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
	"github.com/teescope/teescope/internal/tee"
)

const epcPage = 4096 // bytes, by architecture

// legacyParams are the read-only parameters that the metrics patch of SCONE and
// TEEMon adds to the out-of-tree drivers, with what the patch's code counts in
// them, which is not always what their names say.
var legacyParams = []struct {
	name, alt string // alt: the name in a variant of the patch
	desc      *metric.Desc
	scale     float64
}{
	{"sgx_nr_enclaves", "", legacyGauge("enclaves", "Enclaves that exist", ""), 1},
	{"sgx_init_enclaves", "", legacyCounter("enclaves_initialized", "Enclaves initialized (EINIT)"), 1},
	{"sgx_nr_total_epc_pages", "", epcBytes, epcPage},
	{"sgx_nr_free_pages", "", legacyGauge("epc_free_bytes", "Free part of the Enclave Page Cache", " in bytes"), epcPage},
	{"sgx_nr_low_pages", "", legacyGauge("epc_low_watermark_bytes", "Free EPC below which the driver starts to reclaim", " in bytes"), epcPage},
	{"sgx_nr_high_pages", "", legacyGauge("epc_high_watermark_bytes", "Free EPC above which the driver stops to reclaim", " in bytes"), epcPage},
	{"sgx_nr_alloc_pages", "", legacyCounter("epc_pages_allocated", "EPC pages handed out by the allocator"), 1},
	{"sgx_nr_added_pages", "", legacyCounter("epc_pages_added", "Pages added to enclaves (EADD)"), 1},
	{"sgx_nr_evicted", "", legacyCounter("epc_pages_evicted", "EPC pages written out to memory (EWB)"), 1},
	{"sgx_loaded_back", "", legacyCounter("epc_pages_loaded_back", "Evicted pages loaded back into the EPC (ELDU)"), 1},
	{"sgx_nr_reclaimed", "sgx_nr_reclaim", legacyCounter("epc_pages_reclaimed", "EPC pages taken by the reclaimer"), 1},
	{"sgx_nr_marked_old", "", legacyCounter("epc_pages_marked_old", "EPC pages whose accessed bit the reclaimer cleared"), 1},
}

func legacyGauge(name, what, unit string) *metric.Desc {
	return gauge("tee_sgx_"+name, what+unit+", from the SGX driver.")
}

func legacyCounter(name, what string) *metric.Desc {
	return counter("tee_sgx_"+name+"_total", what+", from the SGX driver.")
}

var sgxLegacy = probe.Source{
	Name: "sgx_legacy",
	Doc:  "Enclaves and EPC paging, from the parameters of the patched out-of-tree drivers isgx and intel_sgx",
	Metrics: func() (out []*metric.Desc) {
		for _, p := range legacyParams {
			out = append(out, p.desc)
		}
		return out
	}(),
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		module, err := legacyDriver(h)
		if err != nil {
			return nil, err
		}
		r := &legacy{host: h, module: module, counters: map[string]*wrapping{}}
		return reading(r.read), nil
	},
}

// legacyDriver names the module whose parameters carry the metrics.
func legacyDriver(h *host.Host) (string, error) {
	for _, m := range []string{"isgx", "intel_sgx"} {
		loaded, err := h.Exists("/sys/module/" + m)
		if err != nil {
			return "", err
		}
		if !loaded {
			continue
		}
		// Early patches lack the mark, so the parameters themselves count too.
		marked, err := h.ReadString(legacyParam(m, "patch_metrics"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		present, err := h.Exists(legacyParam(m, "sgx_nr_total_epc_pages"))
		if err != nil {
			return "", err
		}
		if marked == "1" || marked == "" && present {
			return m, nil
		}
		return "", &probe.Problem{Err: fmt.Errorf("module %s has no metrics: its driver lacks the metrics patch", m),
			Remedy: "install the driver with SCONE's metrics patch, or use Linux 5.11 or later"}
	}
	return "", probe.NotHere("neither module isgx nor intel_sgx is loaded")
}

func legacyParam(module, name string) string { return "/sys/module/" + module + "/parameters/" + name }

type legacy struct {
	host     *host.Host
	module   string
	counters map[string]*wrapping
}

func (l *legacy) read(_ context.Context, out emitter) error {
	var first error
	for _, p := range legacyParams {
		v, err := l.value(p.name)
		if p.alt != "" && errors.Is(err, fs.ErrNotExist) {
			if alt, aerr := l.value(p.alt); aerr == nil {
				v, err = alt, nil
			}
		}
		if err != nil {
			if errors.Is(err, fs.ErrPermission) {
				err = &probe.Problem{Err: err, Remedy: "run as root"}
			}
			first = cmp.Or(first, err)
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
	b, err := l.host.ReadFile(legacyParam(l.module, name))
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

// add takes the next reading. A step from the top quarter of the range into the
// bottom quarter is a wrap. A step back by less than a sixteenth is two CPUs
// having raced, one of them storing an old value: the counter stands still until
// it is made up for. Any other decrease is a reloaded module, and the counter
// starts anew.
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
