package sources

import (
	"context"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/probe/bpf"
	"github.com/teescope/teescope/internal/tee"
)

// epcFree is shared with the legacy drivers' source.
var epcFree = gauge("tee_sgx_epc_free_bytes",
	"Free memory in the Enclave Page Cache in bytes, from the SGX driver: its variable sgx_nr_free_pages in-tree, its parameters or statistics out of tree.")

// sgxFree is separate from the source sgx because its needs differ: no hook, but the
// address of a variable.
var sgxFree = probe.Source{
	Name:    "sgx_free",
	Doc:     "Free EPC, read from the in-tree driver's own count",
	Metrics: []*metric.Desc{epcFree},
	Needs: []probe.Need{
		{Capability: "cap_bpf", For: "to load the program, and before Linux 5.19 to run it", Open: true},
		{Capability: "cap_perfmon", For: "to read the kernel's memory", Open: true},
		{Capability: "cap_syslog", For: "to find the variable's address in /proc/kallsyms", Open: true},
	},
	Kernels: "5.14 (5.13 has the variable, but cannot load such BPF programs), CONFIG_X86_SGX, CONFIG_KALLSYMS_ALL; not under lockdown in confidentiality mode",
	Cost:    "2.5 µs per reading, measured on another variable on Linux 6.18; nothing between readings",
	Blind:   "which process holds the rest",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if where, err := legacyDriver(h); err == nil {
			return nil, probe.NotHere("%s says how much is free", where)
		}
		if ok, err := hasDevice(h, []string{"/dev/sgx_enclave", "/dev/sgx_vepc"}); err != nil {
			return nil, err
		} else if !ok {
			return nil, probe.NotHere("the in-tree SGX driver is not active: no /dev/sgx_enclave and no /dev/sgx_vepc")
		}
		w, err := bpf.OpenSGXFree(h)
		if err != nil {
			return nil, err
		}
		return &freeEPC{w}, nil
	},
}

type freeEPC struct{ *bpf.Word }

// Read implements probe.Reader.
func (f *freeEPC) Read(_ context.Context, emit func(metric.Sample)) error {
	pages, err := f.Word.Read()
	if err != nil {
		return err
	}
	emitter(emit).send(epcFree, float64(pages)*epcPage)
	return nil
}
