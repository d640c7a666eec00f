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
	swiotlbMax  = gauge("tee_swiotlb_used_max_bytes", "Maximum of bounce buffers in use at once since boot in bytes, from debugfs swiotlb/io_tlb_used_hiwater.")
	swiotlbSeen = gauge("tee_swiotlb_used_max_seen_bytes", "Maximum of bounce buffers that a reading found in use since the monitor started in bytes; a lower bound of the kernel's own maximum, which kernel lockdown hides.")
)

const (
	debugfs    = "/sys/kernel/debug"
	swiotlbDir = debugfs + "/swiotlb"
	// swiotlbSlot is IO_TLB_SIZE of include/linux/swiotlb.h.
	swiotlbSlot = 2048
)

// swiotlb matters most in confidential VMs, where all device I/O goes through bounce
// buffers in shared memory, but it is read on any kernel with a pool.
var swiotlb = probe.Source{
	Name:    "swiotlb",
	Doc:     "The pool of bounce buffers, through which all I/O of a confidential VM passes",
	Metrics: []*metric.Desc{swiotlbSize, swiotlbUsed, swiotlbMax, swiotlbSeen},
	Needs:   []probe.Need{{Capability: "cap_dac_read_search", For: "to read debugfs, where teescope does not run as root"}},
	Kernels: "Linux 5.15 and later with CONFIG_SWIOTLB and CONFIG_DEBUG_FS, debugfs mounted; the kernel's own maximum since 6.3 and not under lockdown",
	Cost:    "three small files at each reading",
	Blind:   "changes between two readings, except for the kernel's own maximum; pools that belong to one device",
	Open: func(h *host.Host, facts []tee.Facts) (probe.Reader, error) {
		if err := findSwiotlb(h, facts); err != nil {
			return nil, err
		}
		p := &pool{host: h}
		return reading(p.read), nil
	},
}

// errNoPool is the error of a kernel that has no bounce buffers.
var errNoPool = probe.NotHere("no bounce buffer pool")

// findSwiotlb distinguishes a kernel without a pool from one that denies access. An
// unmounted debugfs is a fault only in a confidential VM: elsewhere a pool is rarely
// used.
func findSwiotlb(h *host.Host, facts []tee.Facts) error {
	files, err := h.ReadDir(swiotlbDir)
	if err == nil && len(files) == 0 {
		return fmt.Errorf("the kernel made none: %w", errNoPool)
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return debugfsProblem(h, err)
	}
	files, err = h.ReadDir(debugfs)
	switch {
	case err == nil && len(files) > 0:
		return fmt.Errorf("the kernel has none (CONFIG_SWIOTLB): %w", errNoPool)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("look for %s: debugfs is not mounted", swiotlbDir)
		if _, outside := confidentialGuest(facts); outside != nil {
			err = probe.NotHere("%w, and outside a confidential VM there is seldom a pool", err)
		}
		return &probe.Problem{Err: err, Remedy: "mount -t debugfs debugfs " + debugfs}
	}
	return debugfsProblem(h, err)
}

// debugfsProblem adds a remedy to an error.
func debugfsProblem(h *host.Host, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	remedy := "run as root"
	// Under lockdown, world-writable debugfs files are closed even to root
	// (fs/debugfs/file.c, debugfs_locked_down).
	if s := lockedDown(h); s != "" {
		remedy += "; if that does not help, kernel lockdown (" + s + ") forbids it, so boot without lockdown"
	}
	return &probe.Problem{Err: err, Remedy: remedy}
}

// pool remembers the most that was in use.
type pool struct {
	host *host.Host
	max  uint64
}

func (p *pool) read(_ context.Context, out emitter) error {
	size, err := p.host.ReadUint(swiotlbDir + "/io_tlb_nslabs")
	if err == nil {
		out.send(swiotlbSize, float64(size)*swiotlbSlot)
	}
	used, uerr := p.host.ReadUint(swiotlbDir + "/io_tlb_used")
	if uerr == nil {
		p.max = max(p.max, used)
		out.send(swiotlbUsed, float64(used)*swiotlbSlot)
		out.send(swiotlbSeen, float64(p.max)*swiotlbSlot)
	}
	mark, merr := p.host.ReadUint(swiotlbDir + "/io_tlb_used_hiwater")
	switch {
	case merr == nil:
		out.send(swiotlbMax, float64(mark)*swiotlbSlot)
	// Since Linux 6.3, and writable, so closed by lockdown, which cannot be changed
	// from here.
	case errors.Is(merr, fs.ErrNotExist), errors.Is(merr, fs.ErrPermission) && lockedDown(p.host) != "":
		merr = nil
	}
	return debugfsProblem(p.host, cmp.Or(err, uerr, merr))
}

// lockedDown is the text of the kernel's lockdown file if it is on, or "".
func lockedDown(h *host.Host) string {
	s, err := h.ReadString("/sys/kernel/security/lockdown")
	if err != nil || strings.Contains(s, "[none]") {
		return ""
	}
	return s
}
