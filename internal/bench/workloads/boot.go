package workloads

import (
	"errors"
	"fmt"
	"time"

	"github.com/teescope/teescope/internal/bench"
	"github.com/teescope/teescope/internal/metric"
)

var (
	bootSeconds = &metric.Desc{Name: "boot_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower,
		Help: "Time from the start of the virtual machine monitor to the first answer of a service in the guest, in seconds on the harness's clock: the sum of the phases."}
	bootVMM = bootPhase("vmm", "from the start of the virtual machine monitor until the monitor answers, on the harness's clock. This phase covers memory, devices, and for a confidential guest the launch with its measurement")
	bootROM = bootPhase("firmware", "from the end of the previous phase until the kernel's clock begins, on both clocks. This phase covers firmware, decompression and the first steps of the kernel, including the memory map and acceptance of memory, unless the kernel defers these two")
	bootCPU = bootPhase("kernel", "from the end of the previous phase until the first program begins, on the guest's clock. This phase covers the rest of the kernel's start, including deferred work on the memory map and acceptance of memory")
	bootRun = bootPhase("init", "from the end of the previous phase until the guest accepts jobs, on the guest's clock. This phase covers modules, file systems and network")
	bootAsk = bootPhase("service", "from the end of the previous phase until a service in the guest has started and given its first answer, on the harness's clock")
)

func bootPhase(name, what string) *metric.Desc {
	return &metric.Desc{Name: "boot_" + name + "_seconds", Unit: "seconds", Kind: metric.Gauge, Better: metric.Lower, Help: "Time " + what + "."}
}

// boot splits the boot of a guest. What grows with memory and CPUs is in different phases: the monitor allocates and, of a
// confidential guest, measures; the kernel makes its memory map and accepts, before its clock begins unless it defers them
// (CONFIG_DEFERRED_STRUCT_PAGE_INIT). The environment's parameters set them
// (memory=, prealloc=, cpus=), because they are what is compared.
var boot = bench.Workload{
	Name:    "boot",
	Doc:     "Boot of a guest from the start of the virtual machine monitor to the first answer of a service, by phase: monitor, firmware, kernel, first program, service.",
	Version: 1,
	Metrics: func(bench.Params) []*metric.Desc {
		return []*metric.Desc{bootSeconds, bootVMM, bootROM, bootCPU, bootRun, bootAsk}
	},
	Primary:      func(bench.Params) *metric.Desc { return bootSeconds },
	Environments: []string{"small=qemu,fresh=true,memory=1GiB", "large=qemu,fresh=true,memory=4GiB"},
	Estimate:     func(bench.Params) (time.Duration, int64) { return 2 * time.Second, 0 },
	Job: func(bench.Params) (bench.Job, error) {
		job, err := microJob("startup", "0")
		job.Boots = true
		job.Inside.Ready, job.Inside.Ask = "ready", []byte(startupQuestion+"\n")
		return job, err
	},
	Parse: func(o bench.Outcome) ([]metric.Sample, error) {
		at, err := startupTimes(o.Inside)
		if err != nil {
			return nil, err
		}
		if o.Boot == nil {
			return nil, errors.New("no machine was booted for this run")
		}
		marks := []struct {
			desc *metric.Desc
			end  time.Duration
		}{{bootVMM, o.Boot.VMM}, {bootROM, o.Boot.Firmware}, {bootCPU, o.Boot.Kernel}, {bootRun, o.Boot.Init}, {bootAsk, at[2]}}
		samples := []metric.Sample{{Desc: bootSeconds, Value: at[2].Seconds()}}
		last := time.Duration(0)
		for _, m := range marks {
			if m.end <= last {
				return samples, &bench.MetricError{Metric: m.desc.Name, Err: fmt.Errorf("this phase would end %v after the start, but the phase before it ended after %v: teescope read the guest's marks late (the machine is busy), or the guest's clock is wrong", m.end, last)}
			}
			samples = append(samples, metric.Sample{Desc: m.desc, Value: (m.end - last).Seconds()})
			last = m.end
		}
		return samples, nil
	},
	Check: func(o bench.Outcome) (string, error) {
		got, err := startupAnswer(o.Inside)
		if err != nil {
			return "", err
		}
		return digest("boot", got), nil
	},
}
