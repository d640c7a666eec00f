package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	swiotlbSize = gauge("tee_swiotlb_size_bytes", "Size of the bounce buffer pool in bytes, from debugfs swiotlb/io_tlb_nslabs.")
	swiotlbUsed = gauge("tee_swiotlb_used_bytes", "Bounce buffers in use in bytes, from debugfs swiotlb/io_tlb_used; near the size, I/O fails.")
	swiotlbMax  = gauge("tee_swiotlb_used_max_bytes", "Most bounce buffers in use at once since boot in bytes, from debugfs swiotlb/io_tlb_used_hiwater.")
)

const (
	debugfs    = "/sys/kernel/debug"
	swiotlbDir = debugfs + "/swiotlb"
	// swiotlbSlot is IO_TLB_SIZE of include/linux/swiotlb.h.
	swiotlbSlot = 2048
)

// swiotlb matters most in confidential VMs, where all device I/O goes through
// bounce buffers in shared memory, but it is read wherever the kernel has a pool.
var swiotlb = probe.Source{
	Name:    "swiotlb",
	Doc:     "Bounce buffers, through which a confidential VM does its I/O",
	Metrics: []*metric.Desc{swiotlbSize, swiotlbUsed, swiotlbMax},
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		if err := findSwiotlb(h); err != nil {
			return nil, err
		}
		return reading(func(_ context.Context, out emitter) error { return readSwiotlb(h, out) }), nil
	},
}

// findSwiotlb tells a kernel without a pool from one that does not let us look.
func findSwiotlb(h *host.Host) error {
	files, err := h.ReadDir(swiotlbDir)
	if err == nil && len(files) == 0 {
		return probe.NotHere("the kernel made no bounce buffer pool")
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return debugfsProblem(h, err)
	}
	files, err = h.ReadDir(debugfs)
	switch {
	case err == nil && len(files) > 0:
		return probe.NotHere("the kernel has no bounce buffers (CONFIG_SWIOTLB)")
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return &probe.Problem{Err: fmt.Errorf("look for %s: debugfs is not mounted", swiotlbDir),
			Remedy: "mount -t debugfs debugfs " + debugfs}
	}
	return debugfsProblem(h, err)
}

// debugfsProblem adds to an error what would remove it.
func debugfsProblem(h *host.Host, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	remedy := "run as root"
	// Under lockdown debugfs files that anyone may write are closed to root too
	// (fs/debugfs/file.c, debugfs_locked_down).
	if s, lerr := h.ReadString("/sys/kernel/security/lockdown"); lerr == nil && !strings.Contains(s, "[none]") {
		remedy += "; if that does not help, kernel lockdown (" + s + ") forbids it, so boot without lockdown"
	}
	return &probe.Problem{Err: err, Remedy: remedy}
}

func readSwiotlb(h *host.Host, out emitter) error {
	var first error
	for _, f := range []struct {
		name string
		desc *metric.Desc
	}{{"io_tlb_nslabs", swiotlbSize}, {"io_tlb_used", swiotlbUsed}, {"io_tlb_used_hiwater", swiotlbMax}} {
		v, err := h.ReadUint(swiotlbDir + "/" + f.name)
		switch {
		case err == nil:
			out.send(f.desc, float64(v*swiotlbSlot))
		case f.desc == swiotlbMax && errors.Is(err, fs.ErrNotExist): // since Linux 6.3
		default:
			first = cmp.Or(first, debugfsProblem(h, err))
		}
	}
	return first
}
