package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/document"
	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	nitroCPUs = gauge("tee_nitro_pool_cpus",
		"CPUs of the pool for enclaves, by state: offline CPUs are reserved for enclaves, online CPUs still belong to the instance, from module parameter ne_cpus and /sys/devices/system/cpu/online.", "state")
	nitroHugepages = gauge("tee_nitro_hugepages_bytes",
		"Huge pages of the instance in bytes, which hold the memory of enclaves, by page size and whether they are used, from /sys/kernel/mm/hugepages.", "page_bytes", "state")
	nitroEnclaves = gauge("tee_nitro_enclaves",
		"Enclaves by state and whether they run in debug mode, in which the instance can read their console, from nitro-cli describe-enclaves.", "state", "debug")
	nitroInfo = gauge("tee_nitro_enclave_info",
		"Always 1, with an enclave's name, address on the vsock and mode as labels, from nitro-cli describe-enclaves.", "enclave", "name", "cid", "state", "debug")
	nitroEnclaveCPUs   = gauge("tee_nitro_enclave_cpus", "CPUs of an enclave, from nitro-cli describe-enclaves.", "enclave")
	nitroEnclaveMemory = gauge("tee_nitro_enclave_memory_bytes", "Memory of an enclave in bytes, from nitro-cli describe-enclaves.", "enclave")
)

// maxEnclaves bounds the series; today an instance runs at most four. The rest is
// summed as other.
const maxEnclaves = 32

const nitroModule = "/sys/module/nitro_enclaves"

var nitro = probe.Source{
	Name:    "nitro",
	Doc:     "AWS Nitro Enclaves on their parent instance: the CPUs and memory reserved for them, and the enclaves, from nitro-cli every minute",
	Metrics: []*metric.Desc{nitroCPUs, nitroHugepages, nitroEnclaves, nitroInfo, nitroEnclaveCPUs, nitroEnclaveMemory, commandCPU},
	Kernels: "5.10 (CONFIG_NITRO_ENCLAVES)",
	Cost:    "a reading opens six to ten small files. nitro-cli runs once a minute in the background; its CPU time is in teescope_command_cpu_seconds_total. nitro-cli shows the enclaves of other users only to root and the group ne",
	Blind:   "the inside of an enclave, because its CPU time, memory and exits are hidden from the instance; its traffic over the vsock",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if err := findNitro(h); err != nil {
			return nil, err
		}
		asked := &commands[[]enclave]{host: h, name: "nitro-cli", every: time.Minute, limit: 20 * time.Second, ask: askEnclaves,
			install: "install the package aws-nitro-enclaves-cli, and in a container share /run/nitro_enclaves"}
		return asking[[]enclave]{commands: asked, reading: func(ctx context.Context, out emitter) error {
			cerr := readPool(h, out)
			herr := readHugepages(h, out)
			list, err := asked.latest(ctx)
			if err == nil {
				sendEnclaves(out, list)
			}
			out.send(commandCPU, asked.spent().Seconds(), asked.name)
			return cmp.Or(cerr, herr, err)
		}}, nil
	},
}

// findNitro distinguishes a parent instance from other machines.
func findNitro(h *host.Host) error {
	driver, err := h.Exists(nitroModule)
	if err != nil {
		return err
	}
	device, err := h.Exists("/dev/nitro_enclaves")
	switch {
	case err != nil:
		return err
	case !driver:
		return probe.NotHere("the driver nitro_enclaves is not loaded")
	case !device:
		return &probe.Problem{Err: errors.New("look for /dev/nitro_enclaves: the driver is loaded but its device is not here"),
			Remedy: "in a container, pass the device in; elsewhere check the kernel log"}
	}
	return nil
}

// readPool counts the pool's CPUs. The driver takes them offline when the pool is
// allocated (drivers/virt/nitro_enclaves/ne_misc_dev.c), so online ones mean that the
// pool was taken back by hand.
func readPool(h *host.Host, out emitter) error {
	pool, err := machine.ReadCPUList(h, nitroModule+"/parameters/ne_cpus")
	if err != nil {
		return err
	}
	online, err := machine.OnlineCPUs(h)
	if err != nil {
		return err
	}
	kept := 0
	for _, cpu := range pool {
		if slices.Contains(online, cpu) {
			kept++
		}
	}
	out.send(nitroCPUs, float64(len(pool)-kept), "offline")
	out.send(nitroCPUs, float64(kept), "online")
	return nil
}

// readHugepages reads the pools of all page sizes
// (Documentation/admin-guide/mm/hugetlbpage.rst).
func readHugepages(h *host.Host, out emitter) error {
	dirs, err := h.Glob("/sys/kernel/mm/hugepages/hugepages-*kB")
	if err != nil || len(dirs) == 0 {
		return cmp.Or(err, error(&fs.PathError{Op: "list", Path: "/sys/kernel/mm/hugepages", Err: fs.ErrNotExist}))
	}
	for _, dir := range dirs {
		size := strings.TrimSuffix(strings.TrimPrefix(path.Base(dir), "hugepages-"), "kB")
		kib, perr := strconv.ParseUint(size, 10, 40)
		all, aerr := h.ReadUint(dir + "/nr_hugepages")
		free, ferr := h.ReadUint(dir + "/free_hugepages")
		err = cmp.Or(err, perr, aerr, ferr)
		if perr != nil || ferr != nil {
			continue
		}
		bytes := strconv.FormatUint(kib<<10, 10)
		if aerr == nil {
			free = min(free, all) // read one after the other
			out.send(nitroHugepages, float64(all-free)*float64(kib<<10), bytes, "used")
		}
		out.send(nitroHugepages, float64(free)*float64(kib<<10), bytes, "free")
	}
	return err
}

// enclave is one of nitro-cli describe-enclaves
// (aws-nitro-enclaves-cli, src/common/json_output.rs).
type enclave struct {
	Name  string `json:"EnclaveName"` // since nitro-cli 1.1
	ID    string `json:"EnclaveID"`
	CID   uint64 `json:"EnclaveCID"`
	CPUs  uint64 `json:"NumberOfCPUs"`
	MiB   uint64 `json:"MemoryMiB"`
	State string
	Flags string
}

func askEnclaves(run runner) ([]enclave, error) {
	out, err := run([]string{"nitro-cli", "describe-enclaves"})
	if err != nil {
		return nil, err
	}
	return parseEnclaves(out)
}

// parseEnclaves reads the list, sorted by id.
func parseEnclaves(b []byte) ([]enclave, error) {
	var list []enclave
	b, err := document.One(b)
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("parse nitro-cli describe-enclaves: %w", err)
	}
	for i, e := range list {
		// Fields that name a series must exist, be unique, and be of a size fit for a
		// list.
		if e.ID == "" || len(e.ID) > 64 || len(e.Name) > 256 || e.CPUs > 1<<16 || e.MiB > 1<<40 {
			return nil, fmt.Errorf("parse nitro-cli describe-enclaves: enclave %d: the id, name or size is missing or malformed", i)
		}
	}
	slices.SortFunc(list, func(a, b enclave) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b enclave) bool { return a.ID == b.ID }), nil
}

// debug says whether the instance may look into the enclave (debug mode).
func (e enclave) debug() string { return strconv.FormatBool(strings.Contains(e.Flags, "DEBUG_MODE")) }

// state is one of nitro-cli's states, in lower case.
func (e enclave) state() string {
	if s := strings.ToLower(e.State); slices.Contains([]string{"empty", "running", "terminating"}, s) {
		return s
	}
	return folded
}

func sendEnclaves(out emitter, list []enclave) {
	count := map[[2]string]int{{"running", "false"}: 0, {"running", "true"}: 0}
	var rest enclave
	for i, e := range list {
		count[[2]string{e.state(), e.debug()}]++
		if i >= maxEnclaves {
			rest.CPUs += e.CPUs
			rest.MiB += e.MiB
			continue
		}
		out.send(nitroInfo, 1, e.ID, e.Name, strconv.FormatUint(e.CID, 10), e.state(), e.debug())
		out.send(nitroEnclaveCPUs, float64(e.CPUs), e.ID)
		out.send(nitroEnclaveMemory, float64(e.MiB)*(1<<20), e.ID)
	}
	if len(list) > maxEnclaves {
		out.send(nitroEnclaveCPUs, float64(rest.CPUs), folded)
		out.send(nitroEnclaveMemory, float64(rest.MiB)*(1<<20), folded)
	}
	for _, state := range []string{"running", "terminating", "empty", folded} {
		for _, debug := range []string{"false", "true"} {
			if n, ok := count[[2]string{state, debug}]; ok {
				out.send(nitroEnclaves, float64(n), state, debug)
			}
		}
	}
}
