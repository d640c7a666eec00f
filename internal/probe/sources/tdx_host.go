package sources

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	tdxKeys    = gauge("tee_tdx_keys", "Key ids (HKIDs) of TDX guests, one for each guest; state total or used. From misc.capacity and misc.current of the cgroup root.", "state")
	tdxEnabled = gauge("tee_tdx_enabled", "Whether KVM starts TDX guests, 1 or 0, from parameter tdx of module kvm_intel.")
	tdxModule  = gauge("tee_tdx_module_info", "Always 1, with the versions of the TDX module and of the loader that installed it; absent on kernels that do not report it. From sysfs devices/faux/tdx_host.", "version", "loader")
	tdxUpdates = gauge("tee_tdx_module_updates_remaining", "Updates of the TDX module that the firmware allows until the next boot. From sysfs devices/faux/tdx_host/num_remaining_updates.")
)

const tdxDevice = "/sys/devices/faux/tdx_host"

var tdxHost = probe.Source{
	Name:    "tdx_host",
	Doc:     "The host side of Intel TDX: key ids, whether KVM can start guests, the TDX module",
	Metrics: []*metric.Desc{tdxKeys, tdxEnabled, tdxModule, tdxUpdates},
	Kernels: "6.16 for guests and key ids; the module's version is newer than 6.18.",
	Cost:    "Six small files.",
	Blind:   "The work and the counters of the TDX module, because it reports nothing to its host.",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if !slices.ContainsFunc(facts, func(f tee.Facts) bool { return f.Kind == "tdx-host" }) {
			return nil, probe.NotHere("not a host of TDX guests")
		}
		return reading(func(_ context.Context, out emitter) error { return readTDXHost(h, out) }), nil
	},
}

func readTDXHost(h *host.Host, out emitter) error {
	var problems []error
	on, err := h.ReadSwitch("/sys/module/kvm_intel/parameters/tdx")
	switch {
	case err == nil:
		out.send(tdxEnabled, oneIf(on))
	case errors.Is(err, fs.ErrNotExist):
		problems = append(problems, &probe.Problem{Err: err, Remedy: "modprobe kvm_intel, on Linux 6.16 or later with CONFIG_KVM_INTEL_TDX"})
	default:
		problems = append(problems, err)
	}
	if on {
		problems = append(problems, readShared(h, out, tdxKeys, "tdx"))
	}
	return errors.Join(append(problems, readTDXModule(h, out))...)
}

// readTDXModule reads what newer kernels report about the module.
func readTDXModule(h *host.Host, out emitter) error {
	if ok, err := h.Exists(tdxDevice); !ok {
		return err
	}
	version, err := h.ReadString(tdxDevice + "/version")
	if err != nil {
		return err
	}
	// The loader and run-time updates came after the version.
	loader, err := h.ReadString(tdxDevice + "/seamldr_version")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out.send(tdxModule, 1, version, loader)
	n, err := h.ReadUint(tdxDevice + "/num_remaining_updates")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		out.send(tdxUpdates, float64(n))
	}
	return err
}
