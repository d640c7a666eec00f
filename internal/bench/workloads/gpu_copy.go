package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	copyRate    = loadGauge("copied_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes copied per second on the harness's clock; a copied byte counts once.")
	copySeconds = loadGauge("copy_seconds", "seconds", metric.Lower, "Time of one copy on the harness's clock.")
	copyTraffic = loadGauge("device_memory_bytes_per_second", "bytes_per_second", metric.Higher, "Bytes that copies within the device's memory read and wrote per second: each copied byte counts twice.")
)

var gpuCopy = bench.Workload{
	Name: "gpu-copy",
	Doc: "Copies to the GPU, from the GPU (pinned or pageable memory) or within the GPU's memory, made by the installed PyTorch. " +
		"It measures the bandwidth of large copies, and the time of small copies when the program waits for each copy. Confidential mode costs most for small copies. Each copy is checked against its source.",
	Version: 1,
	Params: []bench.Param{
		{Name: "direction", Default: "to-device", Values: []string{"to-device", "to-host", "device"}, Doc: "Direction of the copies. to-device: to the GPU. to-host: from the GPU. device: within the GPU's memory."},
		{Name: "memory", Default: "pinned", Values: []string{"pinned", "pageable"}, Doc: "Type of the machine's memory. pinned: the GPU reads and writes it directly. pageable: the driver copies it first."},
		{Name: "size", Default: "64MiB", Doc: "Bytes of a copy."},
		{Name: "each", Default: "queued", Values: []string{"queued", "waited"}, Doc: "When the next copy is requested. queued: at once. waited: when the previous copy has ended; with small sizes this is a storm of small copies."},
		{Name: "repeats", Default: "0", Doc: "Number of copies in the timed part. 0 chooses a number that takes seconds on a large GPU: 128 GiB from or to pinned memory, 32 GiB pageable, 4 TiB within the GPU, at least 50 and at most 200,000 copies."},
		{Name: "warm", Default: "10", Doc: "Warm-up: number of copies before the timed part."},
		gpuPython,
	},
	Metrics: func(p bench.Params) []*metric.Desc {
		out := []*metric.Desc{copyRate, copySeconds, gpuClock, gpuPower, clockDisagreement}
		if p["direction"] == "device" {
			out = append(out, copyTraffic)
		}
		return out
	},
	Primary: func(p bench.Params) *metric.Desc {
		switch {
		case p["each"] == "waited":
			return copySeconds
		case p["direction"] == "device":
			return copyTraffic
		}
		return copyRate
	},
	Sweep:    map[string][]string{"size": {"64", "4KiB", "256KiB", "64MiB"}},
	Tools:    gpuTools,
	Estimate: func(bench.Params) (time.Duration, int64) { return 30 * time.Second, 0 },
	Job: func(p bench.Params) (bench.Job, error) {
		size, repeats, err := copyWork(p)
		if err != nil {
			return bench.Job{}, err
		}
		return gpuJob(p, "copy", size, repeats, "--direction", p["direction"], "--memory", p["memory"], "--each", p["each"])
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		r, err := readGPU(o)
		if err != nil {
			return nil, err
		}
		var found reading
		found.derived(copyRate, positive(r.Bytes)/r.harnessSeconds("copy"), together)
		found.derived(copySeconds, r.harnessSeconds("copy")/float64(r.Repeats), together)
		if o.Params["direction"] == "device" {
			found.derived(copyTraffic, 2*positive(r.Bytes)/r.harnessSeconds("copy"), together)
		}
		return r.rest(found, "copy")
	},
	Check: func(o bench.Outcome) (string, error) {
		r, err := readGPU(o)
		if err != nil {
			return "", err
		}
		size, repeats, err := copyWork(o.Params)
		p := o.Params
		switch {
		case err != nil:
			return "", err
		case r.Direction != p["direction"] || r.Memory != p["memory"]:
			return "", fmt.Errorf("the copies used direction=%s and memory=%s, want direction=%s and memory=%s", r.Direction, r.Memory, p["direction"], p["memory"])
		case r.Size != size || r.Repeats != repeats || r.Copies != repeats || r.Bytes != float64(size)*float64(repeats):
			return "", fmt.Errorf("the script made %d copies with %g bytes in total, want %d copies of %d bytes", r.Copies, r.Bytes, repeats, size)
		}
		return digest("gpu-copy", r.Direction, r.Memory, p["each"], strconv.FormatInt(size, 10), strconv.FormatInt(repeats, 10)), nil
	},
}

// copyWork is the size of a copy and their number.
func copyWork(p bench.Params) (size, repeats int64, err error) {
	if size, err = p.Bytes("size"); err != nil {
		return 0, 0, err
	}
	repeats, err = p.Int("repeats", 0)
	if size < 1 {
		err = errors.Join(err, fmt.Errorf("parameter size=%q: want 1 byte or more", p["size"]))
	}
	if err == nil && repeats == 0 {
		volume := int64(128 << 30)
		switch {
		case p["direction"] == "device":
			volume = 4 << 40
		case p["memory"] == "pageable":
			volume = 32 << 30
		}
		repeats = min(max(volume/size, 50), 200_000)
	}
	return size, repeats, err
}
