package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teescope/teescope/internal/host"
	"github.com/teescope/teescope/internal/machine"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/probe"
	"github.com/teescope/teescope/internal/tee"
)

var (
	gpuInfo = gauge("tee_gpu_info", "Always 1, with the card's identity as labels, from nvidia-smi -q -x.",
		"gpu", "uuid", "name", "pci", "vbios", "driver")
	gpuMode = gauge("tee_gpu_confidential_compute_mode",
		"1 for the card's confidential computing mode: off, on, devtools (on, with debuggers allowed) or protected-pcie, from nvidia-smi conf-compute; absent where the driver does not say.", "gpu", "mode")
	gpuReady = gauge("tee_gpu_confidential_compute_ready",
		"Whether the cards of a confidential machine accept work, 1 or 0, from nvidia-smi conf-compute; the attesting party sets it.")
	gpuPlatform = gauge("tee_gpu_confidential_compute_info",
		"Always 1, with the driver's words as labels for the capabilities of processor and cards, for multi-GPU mode and for the keys' environment, from nvidia-smi conf-compute.",
		"cpu", "gpus", "multi_gpu", "environment")
	gpuMemory        = gauge("tee_gpu_memory_size_bytes", "Memory of the card in bytes, from nvidia-smi -q -x.", "gpu")
	gpuMemoryUsed    = gauge("tee_gpu_memory_used_bytes", "Used memory of the card in bytes, from nvidia-smi -q -x.", "gpu")
	gpuProtected     = gauge("tee_gpu_protected_memory_size_bytes", "Memory of the card protected by confidential computing in bytes, from nvidia-smi -q -x; 0 with the mode off.", "gpu")
	gpuProtectedUsed = gauge("tee_gpu_protected_memory_used_bytes", "Used protected memory of the card in bytes, from nvidia-smi -q -x.", "gpu")
	gpuProcessMemory = gauge("tee_gpu_process_memory_bytes", "Memory on the card by process name in bytes, from nvidia-smi -q -x; beyond 16 names the smallest are counted under other.", "gpu", "process")
	gpuBusy          = gauge("tee_gpu_utilization_ratio", "Share of the driver's last sample period, at most a second, in which a part of the card was busy, as a ratio, from nvidia-smi -q -x.", "gpu", "engine")
	gpuPower         = atMost(metric.MostWatts, gauge("tee_gpu_power_watts", "Power draw of the card in watts, from nvidia-smi -q -x.", "gpu"))
	gpuPowerLimit    = atMost(metric.MostWatts, gauge("tee_gpu_power_limit_watts", "Power limit in force in watts, from nvidia-smi -q -x.", "gpu"))
	gpuTemperature   = &metric.Desc{Name: "tee_gpu_temperature_celsius", Kind: metric.Gauge, Labels: []string{"gpu", "sensor"}, Least: -273.15, Most: 1000,
		Help: "Temperature in degrees Celsius, from nvidia-smi -q -x."}
	gpuClock           = atMost(metric.MostHertz, gauge("tee_gpu_clock_hertz", "Clock in hertz, from nvidia-smi -q -x.", "gpu", "clock"))
	gpuLimited         = counter("tee_gpu_clock_limited_seconds_total", "Time in seconds for which clocks were throttled since the driver was loaded, by reason, from nvidia-smi -q -x.", "gpu", "reason")
	gpuTransfer        = gauge("tee_gpu_pcie_bytes_per_second", "PCIe traffic in bytes per second in the 20 ms before the query, sent (tx) and received (rx) by the card, from nvidia-smi -q -x.", "gpu", "direction")
	gpuBounce          = gauge("tee_gpu_bounce_bytes_per_second", "PCIe traffic of a card in confidential mode, all of which is encrypted and goes through bounce buffers, in bytes per second; measured like tee_gpu_pcie_bytes_per_second.", "gpu", "direction")
	gpuReplays         = counter("tee_gpu_pcie_replays_total", "Transfers that the PCIe link repeated, from nvidia-smi -q -x.", "gpu")
	gpuLinkGeneration  = atMost(100, gauge("tee_gpu_pcie_link_generation", "Generation at which the PCIe link runs now, from nvidia-smi -q -x.", "gpu"))
	gpuLinkWidth       = atMost(32, gauge("tee_gpu_pcie_link_lanes", "Lanes with which the PCIe link runs now, from nvidia-smi -q -x.", "gpu"))
	gpuErrors          = counter("tee_gpu_ecc_errors_total", "Memory errors since the driver was loaded, from nvidia-smi -q -x.", "gpu", "memory", "error")
	gpuMIG             = gauge("tee_gpu_mig_devices", "Partitions of a card in MIG mode, from nvidia-smi -q -x; absent where the mode is off.", "gpu")
	gpuMemoryEncrypted = gauge("tee_gpu_memory_encrypted", "Whether the card encrypts its memory chips, 1 or 0, from nvidia-smi -q -x; absent on cards that cannot.", "gpu")
)

// gpuEvery is the interval of the queries, each of which keeps the driver busy for some
// tenths of a second.
const gpuEvery = 30 * time.Second

// Limits of what is shown; no machine has as many cards.
const (
	maxGPUs         = 64
	maxGPUProcesses = 16
)

// gpu runs the driver's own program, so teescope remains a static program that loads no
// driver library.
var gpu = probe.Source{
	Name: "gpu",
	Doc:  "NVIDIA cards: confidential computing mode, memory, load and PCIe traffic, from nvidia-smi every 30 seconds",
	Metrics: []*metric.Desc{gpuInfo, gpuMode, gpuReady, gpuPlatform, gpuMemory, gpuMemoryUsed, gpuProtected, gpuProtectedUsed,
		gpuProcessMemory, gpuBusy, gpuPower, gpuPowerLimit, gpuTemperature, gpuClock, gpuLimited, gpuTransfer, gpuBounce, gpuReplays,
		gpuLinkGeneration, gpuLinkWidth, gpuErrors, gpuMIG, gpuMemoryEncrypted, commandCPU},
	Kernels: "any with NVIDIA's driver, 535 or later for confidential computing",
	Cost:    "a reading uses the newest answer of nvidia-smi and does not wait. nvidia-smi runs twice every 30 seconds, four times in confidential mode; its CPU time is in teescope_command_cpu_seconds_total. Without nvidia-persistenced each run initializes idle cards again, which takes seconds",
	Blind: "in confidential mode the card's performance counters are off, and the metric of PCIe traffic may be missing; whether a card was attested is unknown, only whether it accepts work is known (nvidia-smi conf-compute -grs); " +
		"PCIe traffic is a sample of 20 ms every 30 seconds; a card that is passed to a virtual machine is visible only in that machine; cards of other vendors",
	Open: func(h *host.Host, _ []tee.Facts) (probe.Reader, error) {
		loaded, err := h.Exists("/proc/driver/nvidia/version")
		if err != nil {
			return nil, err
		}
		if !loaded {
			if left, err := h.Exists("/proc/driver/nvidia"); err != nil || left {
				return nil, errors.Join(err, &probe.Problem{Err: errors.New("read /proc/driver/nvidia/version: the NVIDIA driver shows no version"),
					Remedy: "reload the driver and check the kernel log"})
			}
			return nil, probe.NotHere("no NVIDIA driver is loaded")
		}
		asked := &commands[cards]{host: h, name: "nvidia-smi", every: gpuEvery, limit: 20 * time.Second, ask: askCards,
			install: "install the driver's tools (nvidia-utils); in a container, run it with the NVIDIA container runtime and NVIDIA_DRIVER_CAPABILITIES=utility"}
		return asking[cards]{commands: asked, reading: func(ctx context.Context, out emitter) error {
			c, err := asked.latest(ctx)
			if err == nil {
				err = c.send(out)
			}
			out.send(commandCPU, asked.spent().Seconds(), asked.name)
			return err
		}}, nil
	},
}

// cards is one answer.
type cards struct {
	tee.NVIDIA
	conf tee.ConfCompute
}

func askCards(run runner) (cards, error) {
	var c cards
	out, err := run(tee.NVIDIAQuery)
	if err != nil {
		return c, err
	}
	if c.NVIDIA, err = tee.ParseNVIDIA(out); err != nil {
		return c, err
	}
	if len(c.GPUs) == 0 {
		return c, errors.New("nvidia-smi lists no card")
	}
	// Whatever the driver does not answer is left out: for cards that lack the feature
	// these commands fail.
	conf, _ := run(tee.ConfComputeQuery)
	if c.conf = tee.ParseConfCompute(conf); c.conf.State == "" {
		status, _ := run(tee.ConfComputeStatus)
		conf = append(conf, status...)
		c.conf = tee.ParseConfCompute(conf)
	}
	if m := c.conf.Mode(); m != "" && m != tee.GPUOff {
		tools, _ := run(tee.ConfComputeDevTools)
		keys, _ := run(tee.ConfComputeEnvironment)
		c.conf = tee.ParseConfCompute(conf, tools, keys)
	}
	return c, nil
}

// send emits what the driver said; the error lists what should be a number and is not.
func (c cards) send(out emitter) error {
	var bad machine.Faults
	for i, g := range c.GPUs[:min(len(c.GPUs), maxGPUs)] {
		c.card(out, g, strconv.Itoa(i), &bad)
	}
	if c.conf.State == "" {
		return bad.Err()
	}
	if word := c.conf.Unknown(); word != "" {
		bad.Add(fmt.Errorf("parse nvidia-smi conf-compute: unknown: %.80q", word))
	}
	out.send(gpuPlatform, 1, c.conf.CPU, c.conf.GPU, c.conf.MultiGPU, strings.ToLower(c.conf.Environment))
	if c.conf.Ready != "" && c.conf.Mode() != tee.GPUOff {
		if ready, known := c.conf.IsReady(); known {
			out.send(gpuReady, oneIf(ready))
		} else {
			bad.Add(fmt.Errorf("parse nvidia-smi conf-compute: unknown: %.80q", "CC GPUs Ready State: "+c.conf.Ready))
		}
	}
	return bad.Err()
}

func (c cards) card(out emitter, g tee.GPU, index string, bad *machine.Faults) {
	said := func(d *metric.Desc, q tee.Quantity, labels ...string) {
		if q.Bad() != "" {
			bad.Add(fmt.Errorf("parse nvidia-smi -q -x: %s of card %s is %.40q", d.Name, index, q.Bad()))
		}
		if v, ok := q.Value(); ok {
			out.send(d, v, append([]string{index}, labels...)...)
		}
	}
	out.send(gpuInfo, 1, index, g.UUID, g.Name, g.PCI, g.VBIOS, c.Driver)
	mode := g.Mode(c.conf)
	if mode != "" {
		out.send(gpuMode, 1, index, mode)
	}
	said(gpuMemory, g.Memory.Total)
	said(gpuMemoryUsed, g.Memory.Used)
	said(gpuProtected, g.Protected.Total)
	said(gpuProtectedUsed, g.Protected.Used)
	said(gpuBusy, g.Used.GPU, "gpu")
	said(gpuBusy, g.Used.Memory, "memory")
	said(gpuBusy, g.Used.Encoder, "encoder")
	said(gpuBusy, g.Used.Decoder, "decoder")
	said(gpuPower, first(g.Power.Instant, g.Power.Average, g.Power.Draw, g.OldPower.Draw))
	said(gpuPowerLimit, first(g.Power.Limit, g.Power.Limit12, g.OldPower.Limit12))
	said(gpuTemperature, g.Thermal.GPU, "gpu")
	said(gpuTemperature, g.Thermal.Memory, "memory")
	said(gpuClock, g.Clocks.Graphics, "graphics")
	said(gpuClock, g.Clocks.SM, "sm")
	said(gpuClock, g.Clocks.Memory, "memory")
	said(gpuClock, g.Clocks.Video, "video")
	said(gpuLimited, g.Limited.PowerCap, "power_cap")
	said(gpuLimited, g.Limited.SyncBoost, "sync_boost")
	said(gpuLimited, g.Limited.Thermal, "thermal")
	said(gpuLimited, g.Limited.HWThermal, "thermal_hardware")
	said(gpuLimited, g.Limited.PowerBrake, "power_brake")
	said(gpuTransfer, g.Link.Sent, "tx")
	said(gpuTransfer, g.Link.Received, "rx")
	if mode != "" && mode != tee.GPUOff {
		measured := out
		out = func(s metric.Sample) { s.Trust = metric.Derived; measured(s) }
		said(gpuBounce, g.Link.Sent, "tx")
		said(gpuBounce, g.Link.Received, "rx")
		out = measured
	}
	said(gpuReplays, g.Link.Replays)
	said(gpuLinkGeneration, g.Link.Generation)
	said(gpuLinkWidth, g.Link.Width)
	said(gpuErrors, g.ECC.SRAMCorrected, "sram", "corrected")
	said(gpuErrors, g.ECC.SRAMUncorrected, "sram", "uncorrected")
	said(gpuErrors, g.ECC.SRAMParity, "sram", "uncorrected_parity")
	said(gpuErrors, g.ECC.SRAMSECDED, "sram", "uncorrected_secded")
	said(gpuErrors, g.ECC.DRAMCorrected, "dram", "corrected")
	said(gpuErrors, g.ECC.DRAMUncorrected, "dram", "uncorrected")
	switch g.MIG {
	case "Enabled":
		out.send(gpuMIG, float64(len(g.Slices)), index)
	case "Disabled", "N/A", "":
	default:
		bad.Add(fmt.Errorf("parse nvidia-smi -q -x: the MIG mode of card %s is unknown: %.40q", index, g.MIG))
	}
	switch g.DRAM {
	case "Enabled":
		out.send(gpuMemoryEncrypted, 1, index)
	case "Disabled":
		out.send(gpuMemoryEncrypted, 0, index)
	case "N/A", "":
	default:
		bad.Add(fmt.Errorf("parse nvidia-smi -q -x: the encryption of card %s's memory is unknown: %.40q", index, g.DRAM))
	}
	for _, p := range g.Processes {
		if p.Memory.Bad() != "" {
			bad.Add(fmt.Errorf("parse nvidia-smi -q -x: the memory of process %.40q is %.40q", p.Name, p.Memory.Bad()))
		}
	}
	for _, p := range largest(g.Processes) {
		out.send(gpuProcessMemory, p.bytes, index, p.name)
	}
}

// first is the first quantity in the answer.
func first(qs ...tee.Quantity) tee.Quantity {
	for _, q := range qs {
		if _, ok := q.Value(); ok || q.Bad() != "" {
			return q
		}
	}
	return tee.Quantity{}
}

// holder is the processes of one name with their memory.
type holder struct {
	name  string
	bytes float64
}

// largest sums processes by name and folds all but the largest into other.
func largest(ps []tee.GPUProcess) []holder {
	sums := map[string]float64{}
	for _, p := range ps {
		if v, ok := p.Memory.Value(); ok {
			sums[processName(p.Name)] += v
		}
	}
	var out []holder
	for name, v := range sums {
		if name != folded {
			out = append(out, holder{name, v})
		}
	}
	slices.SortFunc(out, func(a, b holder) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), strings.Compare(a.name, b.name)) })
	rest, some := sums[folded]
	for _, h := range out[min(len(out), maxGPUProcesses):] {
		rest, some = rest+h.bytes, true
	}
	out = out[:min(len(out), maxGPUProcesses)]
	if some {
		out = append(out, holder{folded, rest})
	}
	return out
}

// folded is the label value of what did not fit.
const folded = "other"

// processName is the kernel's name of the process started by this path: its last
// element, truncated to 15 bytes.
func processName(command string) string {
	name := path.Base(strings.TrimSpace(command))
	return name[:min(len(name), 15)]
}
