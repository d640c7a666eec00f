package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	cgroupEPC      = gauge("tee_sgx_cgroup_epc_bytes", "EPC held by a control group and those below it in bytes, from misc.current of the misc controller.", "cgroup")
	cgroupEPCLimit = gauge("tee_sgx_cgroup_epc_limit_bytes", "Limit of the EPC of a control group and those below it in bytes, from misc.max; absent where there is no limit.", "cgroup")
)

// sgxCgroup reads a resource that mainline lacks: kernels with the patch series that
// limits EPC by control group add it to the misc controller.
var sgxCgroup = probe.Source{
	Name:    "sgx_cgroup",
	Doc:     "EPC by control group, where the misc controller supports it",
	Metrics: []*metric.Desc{cgroupEPC, cgroupEPCLimit},
	Kernels: "those with the out-of-tree EPC patches for control groups and CONFIG_CGROUP_MISC",
	Cost:    "two small files per control group and reading",
	Blind:   "control groups with EPC beyond the first 256; a reading reports that some are left out",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		t, err := epcTree(h)
		if err != nil {
			return nil, err
		}
		file := path.Join(t.mount, "misc.capacity")
		b, err := h.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, probe.NotHere("the misc controller has no resources here: no %s", file)
		}
		if err != nil {
			return nil, err
		}
		capacity, bad := parseMisc(file, b)
		if _, ok := capacity[miscEPC]; !ok && bad == nil { // else it may be the bad line
			return nil, probe.NotHere("%s has no %s", file, miscEPC)
		}
		return reading(func(_ context.Context, out emitter) error { return readSGXCgroups(h, t, out) }), nil
	},
}

// epcTree is the hierarchy that has the misc controller.
func epcTree(h *host.Host) (tree, error) {
	mounts, err := cgroupMounts(h)
	if err != nil && len(mounts) == 0 {
		return tree{}, err
	}
	var found *tree
	for _, m := range mounts {
		v1 := slices.Contains(m.Controllers, "misc")
		if v1 || m.V2 && found == nil {
			found = &tree{mount: m.Point, root: m.Root}
		}
		if v1 {
			break // a controller is in one hierarchy only
		}
	}
	if found == nil {
		return tree{}, probe.NotHere("no hierarchy of control groups has the misc controller")
	}
	if strings.HasPrefix(found.root, "/..") { // above our cgroup namespace
		found.root = "/"
	}
	return *found, nil
}

// maxSGXCgroups bounds the series.
const maxSGXCgroups = 256

func readSGXCgroups(h *host.Host, t tree, out emitter) error {
	c := &cgroups{Host: h}
	var first error
	number := 0
	err := c.walk(t, func(id, dir string) {
		used, ok, err := readMiscEPC(h, path.Join(dir, "misc.current"))
		// The root and groups without the controller have no such file.
		if errors.Is(err, fs.ErrNotExist) || err == nil && (!ok || used == 0) {
			return
		}
		first = cmp.Or(first, c.unlessGone(dir, err))
		if number++; number > maxSGXCgroups {
			first = cmp.Or(first, fmt.Errorf("more than %d control groups hold EPC: the rest is in the groups above them", maxSGXCgroups))
			return
		}
		if err == nil {
			out.send(cgroupEPC, float64(used), id)
		}
		limit, ok, err := readMiscEPC(h, path.Join(dir, "misc.max"))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			first = cmp.Or(first, c.unlessGone(dir, err))
		case err == nil && ok:
			out.send(cgroupEPCLimit, float64(limit), id)
		}
	})
	return cmp.Or(err, first)
}

const miscEPC = "sgx_epc"

// readMiscEPC is the bytes of EPC in a misc file (Documentation/admin-guide/cgroup-v2.rst, "Misc"); ok is false if there
// is no such line or its value is "max".
func readMiscEPC(h *host.Host, name string) (v uint64, ok bool, err error) {
	b, err := h.ReadFile(name)
	if err != nil {
		return 0, false, err
	}
	values, err := parseMisc(name, b)
	if v, ok = values[miscEPC]; ok {
		err = nil // other resources are shown elsewhere
	}
	return v, ok, err
}
