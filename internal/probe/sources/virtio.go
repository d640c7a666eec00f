package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	virtioInflight = gauge("tee_virtio_block_inflight_requests",
		"Requests submitted to a virtio disk and not completed, by direction, from /sys/block/DEVICE/inflight.", "device", "direction")
	virtioDepth = gauge("tee_virtio_block_queue_requests",
		"Requests that a virtio disk can hold, over all its queues; further requests wait, from /sys/block/DEVICE/queue/nr_requests and mq.", "device")
	virtioBytes = gauge("tee_virtio_net_transmit_inflight_bytes",
		"Bytes handed to a virtio network device and not yet sent, over all its queues, from sysfs byte_queue_limits/inflight; its driver counts them since Linux 6.11.", "device")
	virtioLimit = gauge("tee_virtio_net_transmit_limit_bytes",
		"Bytes that a virtio network device accepts before its queues stop, from sysfs byte_queue_limits/limit.", "device")
	virtioTimeouts = counter("tee_virtio_net_transmit_timeouts_total",
		"Times that a stopped transmit queue of a virtio network device made no progress for seconds, since the device came up, from sysfs queues/tx-*/tx_timeout.", "device")
)

// virtioMax bounds the devices of each kind; further ones are left out.
const virtioMax = 64

// virtio shows how full the queues for a guest's I/O are. Drops and errors are in
// node_network_*, time in flight in node_disk_*.
var virtio = probe.Source{
	Name:    "virtio",
	Doc:     "How full the queues of virtio disks and networks are",
	Metrics: []*metric.Desc{virtioInflight, virtioDepth, virtioBytes, virtioLimit, virtioTimeouts},
	Kernels: "Linux 5.15 and later; bytes in flight need CONFIG_BQL",
	Cost:    "two small files and a folder for each disk, three for each transmit queue of a network, at each reading",
	Blind:   "changes between two readings; descriptors in use, which no file shows; disks behind virtio-scsi, NVMe and VMBus; devices beyond 64 of a kind",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		disks, nets, err := virtioDevices(h)
		if err == nil && len(disks)+len(nets) == 0 {
			err = probe.NotHere("no virtio disk or network device")
		}
		if err != nil {
			return nil, err
		}
		return reading(func(_ context.Context, out emitter) error { return readVirtio(h, out) }), nil
	},
}

// virtioDevices returns the folders of disks and of network devices on the virtio bus.
func virtioDevices(h *host.Host) (disks, nets []string, err error) {
	const bus = "/sys/bus/virtio/devices"
	devices, err := h.ReadDir(bus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, probe.NotHere("the kernel has no virtio bus")
	}
	if err != nil {
		return nil, nil, err
	}
	for _, d := range devices {
		for class, to := range map[string]*[]string{"block": &disks, "net": &nets} {
			dir := path.Join(bus, d.Name(), class)
			found, err := h.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nil, err
			}
			for _, f := range found {
				if len(*to) < virtioMax {
					*to = append(*to, path.Join(dir, f.Name()))
				}
			}
		}
	}
	return disks, nets, nil
}

func readVirtio(h *host.Host, out emitter) error {
	disks, nets, err := virtioDevices(h)
	if err != nil {
		return err
	}
	var bad machine.Faults
	for _, d := range disks {
		bad.Add(readVirtioDisk(h, d, out))
	}
	for _, n := range nets {
		bad.Add(readVirtioNet(h, n, out))
	}
	return bad.Err()
}

func readVirtioDisk(h *host.Host, dir string, out emitter) error {
	device := path.Base(dir)
	var bad machine.Faults
	s, err := h.ReadString(dir + "/inflight")
	if err == nil {
		var reads, writes float64
		reads, writes, err = parseInflight(dir+"/inflight", s)
		out.send(virtioInflight, reads, device, "read")
		out.send(virtioInflight, writes, device, "write")
	}
	bad.Add(err)
	depth, err := h.ReadUint(dir + "/queue/nr_requests")
	queues, qerr := h.ReadDir(dir + "/mq")
	if err == nil && qerr == nil {
		out.send(virtioDepth, float64(depth)*float64(len(queues)), device)
	}
	bad.Add(err)
	bad.Add(qerr)
	return bad.Err()
}

// parseInflight reads the two numbers of inflight (Documentation/block/stat.rst).
func parseInflight(file, s string) (reads, writes float64, err error) {
	f := strings.Fields(s)
	if len(f) != 2 {
		return unknown, unknown, fmt.Errorf("parse %s: %.40q is not two numbers", file, s)
	}
	var bad machine.Faults
	v := [2]float64{unknown, unknown}
	for i, cell := range f {
		n, err := machine.ParseCount(cell)
		if err != nil {
			bad.Add(fmt.Errorf("parse %s: %w", file, err))
			continue
		}
		v[i] = float64(n)
	}
	return v[0], v[1], bad.Err()
}

// readVirtioNet sums the transmit queues of a device. The sum of some of them is none.
func readVirtioNet(h *host.Host, dir string, out emitter) error {
	queues, err := h.ReadDir(dir + "/queues")
	if err != nil {
		return err
	}
	var bad machine.Faults
	var timeouts, inflight, limit float64
	number := func(file string) float64 {
		n, err := h.ReadUint(file)
		bad.Add(err)
		if err != nil {
			return unknown
		}
		return float64(n)
	}
	for _, q := range queues {
		if !strings.HasPrefix(q.Name(), "tx-") {
			continue
		}
		queue := path.Join(dir, "queues", q.Name())
		timeouts += number(queue + "/tx_timeout")
		limits := queue + "/byte_queue_limits"
		if ok, err := h.Exists(limits); err == nil && !ok {
			continue // without CONFIG_BQL
		}
		inflight += number(limits + "/inflight")
		limit += number(limits + "/limit")
	}
	out.send(virtioTimeouts, timeouts, path.Base(dir))
	// The limit of a driver that does not count bytes is zero.
	if limit != 0 {
		out.send(virtioBytes, inflight, path.Base(dir))
		out.send(virtioLimit, limit, path.Base(dir))
	}
	return bad.Err()
}
